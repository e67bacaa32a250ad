// Package studies holds the studies that come with Windtunnel: to run as they
// are, and to begin one's own from.
package studies

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed *.yaml
var files embed.FS

// Builtin is a study that comes with the program.
type Builtin struct {
	Name     string // as in `windtunnel run NAME`; the file's name without .yaml
	Question string
	Data     []byte // the file, comments included
}

// List returns all built-in studies by name. An error means that the program
// was built from a broken file.
func List() ([]Builtin, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing the built-in studies: %w", err)
	}
	var all []Builtin
	for _, name := range names {
		data, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading the built-in study %s: %w", name, err)
		}
		var head struct {
			Question string `yaml:"question"`
		}
		if err := yaml.Unmarshal(data, &head); err != nil {
			return nil, fmt.Errorf("reading the question of the built-in study %s: %w", name, err)
		}
		all = append(all, Builtin{Name: strings.TrimSuffix(path.Base(name), ".yaml"), Question: head.Question, Data: data})
	}
	return all, nil
}
