package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
)

func TestImageIsAnOCILayout(t *testing.T) {
	t.Parallel()
	var first, second bytes.Buffer
	for _, b := range []*bytes.Buffer{&first, &second} {
		if err := Program([]byte("#!program"), "localhost/x:1", "amd64").Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same program gives other bytes")
	}
	dir := t.TempDir()
	unpack(t, &first, dir)
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 || manifest.Manifests[0].Annotations["io.containerd.image.name"] != "localhost/x:1" {
		t.Fatalf("%+v, %v", manifest, err)
	}
	img, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil || config.Architecture != "amd64" || config.OS != "linux" || config.Config.User != user || config.Config.Entrypoint[0] != "/windtunnel" {
		t.Errorf("%+v, %v", config, err)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]int64{}
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		modes[h.Name] = h.Mode
	}
	if modes["windtunnel"] != 0o755 || modes["tmp/"] != 0o1777 || len(modes) != 2 {
		t.Errorf("the layer holds %v", modes)
	}
}

func unpack(t *testing.T, from io.Reader, dir string) {
	t.Helper()
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Links and files below folders that are not named are in the layer, too.
func TestFilesOfAnImage(t *testing.T) {
	t.Parallel()
	content, err := Image{Files: []File{
		{Path: "usr/bin/x", Mode: 0o755, Content: []byte("program")}, {Path: "usr/bin/y", Mode: 0o777, Target: "x"}, {Path: "data/", Mode: 0o777},
	}}.filesystem()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%c %s %o %d %s", h.Typeflag, h.Name, h.Mode, h.Size, h.Linkname))
	}
	want := []string{"0 usr/bin/x 755 7 ", "2 usr/bin/y 777 0 x", "5 data/ 777 0 "}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
