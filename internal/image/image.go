// Package image makes images without a container engine: one layer with a few
// files, as an OCI layout in a tarball. The image of pods of the target kube has
// one program.
package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// The image's user, as Pod Security's level restricted asks for one that is not
// root; and where the program is.
const (
	user    = "65532:65532"
	program = "windtunnel"
)

// Image is what one is made of.
type Image struct {
	// Name is the reference by which pods ask for it, e.g. "localhost/x:1".
	Name, Architecture string
	// Entrypoint is the program's path; Title names the image to people.
	Entrypoint, Title string
	// User is user:group, in numbers.
	User string
	Env  []string
	// Files are in the image in this order; folders above them need not be named.
	Files []File
}

// File is one file of an image: a folder if the path ends with a slash, a
// symbolic link if it has a target.
type File struct {
	Path    string
	Mode    fs.FileMode // with the sticky bit
	Content []byte
	Target  string
}

// Program is the image of one program, a static executable for Linux of the
// architecture, with an empty /tmp.
func Program(binary []byte, name, architecture string) Image {
	const executable, temporary = 0o755, 0o777 | fs.ModeSticky
	return Image{
		Name: name, Architecture: architecture, Entrypoint: "/" + program, Title: program, User: user, Env: []string{"PATH=/"},
		Files: []File{{Path: "tmp/", Mode: temporary}, {Path: program, Mode: executable, Content: binary}},
	}
}

// Write writes the image as an OCI layout in a tarball. The same files give the
// same bytes.
func (i Image) Write(out io.Writer) (err error) {
	img, err := i.build()
	if err != nil {
		return fmt.Errorf("making the image: %w", err)
	}
	dir, err := os.MkdirTemp("", "windtunnel-image-")
	if err != nil {
		return fmt.Errorf("making a folder for the image: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("writing the image's layout: %w", err)
	}
	// Both names are looked for: the first by the specification's readers, the
	// second by containerd.
	names := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": i.Name, "io.containerd.image.name": i.Name})
	if err = path.AppendImage(img, names); err != nil {
		return fmt.Errorf("writing the image's layout: %w", err)
	}
	return pack(out, dir)
}

func (i Image) build() (v1.Image, error) {
	content, err := i.filesystem()
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", i.Architecture
	file.Config = v1.Config{
		Entrypoint: []string{i.Entrypoint}, User: i.User, WorkingDir: "/", Env: i.Env,
		Labels: map[string]string{"org.opencontainers.image.title": i.Title},
	}
	return mutate.ConfigFile(img, file)
}

// filesystem is the layer.
func (i Image) filesystem() ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range i.Files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.Path, Mode: int64(f.Mode.Perm()), Size: int64(len(f.Content)), ModTime: time.Unix(0, 0)}
		if f.Mode&fs.ModeSticky != 0 {
			const sticky = 0o1000
			h.Mode |= sticky
		}
		switch {
		case f.Target != "":
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.Target
		case strings.HasSuffix(f.Path, "/"):
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.Content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// pack writes a folder as a tarball, in the order of its names.
func pack(out io.Writer, dir string) error {
	w := tar.NewWriter(out)
	files := os.DirFS(dir)
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		const mode = 0o644
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data)), ModTime: time.Unix(0, 0)}
		if err = w.WriteHeader(header); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	if err = errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("writing the image's tarball: %w", err)
	}
	return nil
}
