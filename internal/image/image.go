// Package image makes the image of pods of the target kube without a container
// engine: one layer with the program, as an OCI layout in a tarball.
package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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

// Write makes an image of a program, a static executable for Linux of the
// architecture, and writes it as an OCI layout in a tarball, under the name.
// The same program and name give the same bytes.
func Write(out io.Writer, binary []byte, name, architecture string) (err error) {
	img, err := build(binary, architecture)
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
	names := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": name, "io.containerd.image.name": name})
	if err = path.AppendImage(img, names); err != nil {
		return fmt.Errorf("writing the image's layout: %w", err)
	}
	return pack(out, dir)
}

func build(binary []byte, architecture string) (v1.Image, error) {
	content, err := filesystem(binary)
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
	file.OS, file.Architecture = "linux", architecture
	file.Config = v1.Config{
		Entrypoint: []string{"/" + program}, User: user, WorkingDir: "/", Env: []string{"PATH=/"},
		Labels: map[string]string{"org.opencontainers.image.title": program},
	}
	return mutate.ConfigFile(img, file)
}

// filesystem is the layer: the program and an empty /tmp.
func filesystem(binary []byte) ([]byte, error) {
	const executable, temporary = 0o755, 0o1777
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := errors.Join(
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: temporary, ModTime: time.Unix(0, 0)}),
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: program, Mode: executable, Size: int64(len(binary)), ModTime: time.Unix(0, 0)}),
	)
	if err == nil {
		_, err = w.Write(binary)
	}
	return b.Bytes(), errors.Join(err, w.Close())
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
