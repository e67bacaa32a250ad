// Package studies holds the studies that come with Windtunnel: to run as they
// are, and to begin one's own from.
package studies

import (
	"embed"
	"io/fs"
	"regexp"
)

var (
	//go:embed quick.yaml
	quick []byte
	//go:embed nginx.yaml
	nginx []byte
	//go:embed capacity.yaml
	capacity []byte
	//go:embed wan.yaml
	wan []byte
	//go:embed cni.yaml
	cni []byte
	//go:embed cni-full.yaml
	cniFull []byte
	//go:embed cni-jumbo.yaml
	cniJumbo []byte
	//go:embed cni-tools.yaml
	cniTools []byte
	//go:embed geo.yaml
	geo []byte
	//go:embed geo-full.yaml
	geoFull []byte
	//go:embed multicluster.yaml
	multicluster []byte
	//go:embed sidecar.yaml
	sidecar []byte
	//go:embed sidecar-full.yaml
	sidecarFull []byte
	//go:embed bookinfo.yaml
	bookinfo []byte
	//go:embed bookinfo-full.yaml
	bookinfoFull []byte
	//go:embed published/*.csv
	files embed.FS
)

var regexQuestion = regexp.MustCompile(`(?m)^question: (.+)$`)

// Files are what built-in studies name: published tables.
func Files() fs.FS { return files }

// Builtin is a study that comes with the program.
type Builtin struct {
	Name     string // as in `windtunnel run NAME`, and in the study itself
	Question string
	Data     []byte // the file, comments included
}

// List returns all built-in studies, the one to begin with first.
func List() []Builtin {
	return []Builtin{
		builtin("quick", quick), builtin("nginx", nginx), builtin("capacity", capacity), builtin("wan", wan),
		builtin("geo", geo), builtin("geo-full", geoFull), builtin("multicluster", multicluster),
		builtin("cni", cni), builtin("cni-full", cniFull), builtin("cni-jumbo", cniJumbo), builtin("cni-tools", cniTools),
		builtin("sidecar", sidecar), builtin("sidecar-full", sidecarFull), builtin("bookinfo", bookinfo), builtin("bookinfo-full", bookinfoFull),
	}
}

func builtin(name string, data []byte) Builtin {
	b := Builtin{Name: name, Data: data}
	if m := regexQuestion.FindSubmatch(data); m != nil {
		b.Question = string(m[1])
	}
	return b
}
