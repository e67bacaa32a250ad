// Package image writes container images with one static program, and finds the
// names of images in archives.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
)

// Write writes a docker archive with one program at /NAME, which is the entrypoint.
func Write(w io.Writer, reference, program string, binary []byte) error {
	layer, err := archive(file{program, 0o755, binary})
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Entrypoint": []string{"/" + program}, "Env": []string{"PATH=/"}},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer)}},
	})
	if err != nil {
		return fmt.Errorf("writing the image %s: %w", reference, err)
	}
	name := digest(config) + ".json"
	manifest, err := json.Marshal([]any{map[string]any{
		"Config": name, "RepoTags": []string{reference}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return fmt.Errorf("writing the image %s: %w", reference, err)
	}
	all, err := archive(file{name, 0o644, config}, file{"layer.tar", 0o644, layer}, file{"manifest.json", 0o644, manifest})
	if err != nil {
		return err
	}
	if _, err := w.Write(all); err != nil {
		return fmt.Errorf("writing the image %s: %w", reference, err)
	}
	return nil
}

type file struct {
	name string
	mode int64
	data []byte
}

func archive(files ...file) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data))}); err != nil {
			return nil, fmt.Errorf("archiving %s: %w", f.name, err)
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, fmt.Errorf("archiving %s: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("archiving: %w", err)
	}
	return b.Bytes(), nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Archive is what is known of an archive before it is imported.
type Archive struct {
	// OCI says that it is an OCI layout without a docker manifest: the names in
	// it are often tags only.
	OCI   bool
	Names []string
}

// Read looks into an archive of images.
func Read(name string) (Archive, error) {
	f, err := os.Open(name)
	if err != nil {
		return Archive{}, fmt.Errorf("opening an image: %w", err)
	}
	defer func() { _ = f.Close() }()
	found, err := read(f)
	if err != nil {
		return Archive{}, fmt.Errorf("reading the image %s: %w", name, err)
	}
	return found, nil
}

func read(r io.Reader) (Archive, error) {
	var docker, oci []byte
	entries := tar.NewReader(r)
	for {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Archive{}, fmt.Errorf("it is no tar archive: %w", err)
		}
		const most = 4 << 20 // a manifest is small
		switch path.Clean(entry.Name) {
		case "manifest.json":
			docker, err = io.ReadAll(io.LimitReader(entries, most))
		case "index.json":
			oci, err = io.ReadAll(io.LimitReader(entries, most))
		}
		if err != nil {
			return Archive{}, fmt.Errorf("reading %s: %w", entry.Name, err)
		}
	}
	switch {
	case docker != nil:
		return dockerNames(docker)
	case oci != nil:
		return ociNames(oci)
	default:
		return Archive{}, errors.New("it has neither a manifest.json (docker save) nor an index.json (OCI layout)")
	}
}

func dockerNames(manifest []byte) (Archive, error) {
	var images []struct{ RepoTags []string }
	if err := json.Unmarshal(manifest, &images); err != nil {
		return Archive{}, fmt.Errorf("reading manifest.json: %w", err)
	}
	var found Archive
	for _, i := range images {
		found.Names = append(found.Names, i.RepoTags...)
	}
	return found, nil
}

func ociNames(index []byte) (Archive, error) {
	var layout struct {
		Manifests []struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"manifests"`
	}
	if err := json.Unmarshal(index, &layout); err != nil {
		return Archive{}, fmt.Errorf("reading index.json: %w", err)
	}
	found := Archive{OCI: true}
	for _, m := range layout.Manifests {
		for _, key := range []string{"io.containerd.image.name", "org.opencontainers.image.ref.name"} {
			if name := m.Annotations[key]; name != "" {
				found.Names = append(found.Names, name)
				break
			}
		}
	}
	return found, nil
}
