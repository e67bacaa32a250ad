package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestWriteAndRead(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := Write(&b, "local.test/x:1", "x", []byte("program")); err != nil {
		t.Fatal(err)
	}
	found, err := read(bytes.NewReader(b.Bytes()))
	if err != nil || found.OCI || !slices.Equal(found.Names, []string{"local.test/x:1"}) {
		t.Errorf("%+v, %v", found, err)
	}
	files := unpack(t, b.Bytes())
	var manifest []struct {
		Config string
		Layers []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil {
		t.Fatal(err)
	}
	config := files[manifest[0].Config]
	if manifest[0].Config != digest(config)+".json" {
		t.Error("the configuration is not named by its digest")
	}
	layer := files[manifest[0].Layers[0]]
	if !strings.Contains(string(config), digest(layer)) {
		t.Error("the configuration does not name the layer's digest")
	}
	if got := unpack(t, layer)["x"]; string(got) != "program" {
		t.Errorf("the program is %q", got)
	}
}

func unpack(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	r := tar.NewReader(bytes.NewReader(data))
	for {
		entry, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[entry.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReadOCI(t *testing.T) {
	t.Parallel()
	index := `{"manifests": [
	 {"digest": "sha256:1", "annotations": {"org.opencontainers.image.ref.name": "1.0", "io.containerd.image.name": "local.test/a:1.0"}},
	 {"digest": "sha256:2", "annotations": {"org.opencontainers.image.ref.name": "latest"}},
	 {"digest": "sha256:3"}]}`
	data, err := archive(file{"./index.json", 0o644, []byte(index)})
	if err != nil {
		t.Fatal(err)
	}
	found, err := read(bytes.NewReader(data))
	if err != nil || !found.OCI || !slices.Equal(found.Names, []string{"local.test/a:1.0", "latest"}) {
		t.Errorf("%+v, %v", found, err)
	}
}

func FuzzRead(f *testing.F) {
	var good bytes.Buffer
	if err := Write(&good, "local.test/x:1", "x", []byte("program")); err != nil {
		f.Fatal(err)
	}
	f.Add(good.Bytes())
	f.Add([]byte("no archive"))
	f.Fuzz(func(t *testing.T, data []byte) {
		found, err := read(bytes.NewReader(data))
		if err != nil && found.Names != nil {
			t.Errorf("names %q with the error %v", found.Names, err)
		}
	})
}
