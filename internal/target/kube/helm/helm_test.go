package helm

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	containers "github.com/google/go-containerregistry/pkg/registry"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/registry"
	"helm.sh/helm/v3/pkg/repo"

	"github.com/windtunnel/windtunnel/internal/model"
)

// packed packs the chart of testdata into a folder.
func packed(t *testing.T, dir string) string {
	t.Helper()
	c, err := loader.Load("testdata/mini")
	if err != nil {
		t.Fatal(err)
	}
	path, err := chartutil.Save(c, dir)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// repository serves the chart as https://... repositories do.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	packed(t, dir)
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	index, err := repo.IndexDirectory(dir, server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := index.WriteFile(filepath.Join(dir, "index.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	return server.URL
}

// images serves the chart as registries do.
func images(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(containers.New())
	t.Cleanup(server.Close)
	client, err := registry.NewClient(registry.ClientOptPlainHTTP(), registry.ClientOptCredentialsFile(filepath.Join(t.TempDir(), "none")))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(packed(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(server.URL, "http://")
	if _, err := client.Push(raw, host+"/charts/mini:0.1.0"); err != nil {
		t.Fatal(err)
	}
	return "oci://" + host + "/charts"
}

// A chart is found in a folder, packed, in a repository and in a registry; our
// values go over its own, and those that are made over ours.
func TestRender(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := packed(t, folder)
	for name, c := range map[string]model.Chart{
		"folder itself":    {Source: "testdata/mini"},
		"folder of charts": {Source: "testdata"},
		"folder of packed": {Source: folder},
		"packed":           {Source: file},
		"repository":       {Source: repository(t), Version: "0.1.0"},
		"registry":         {Source: images(t), Version: "0.1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.Name, c.Release, c.Namespace = "mini", "mesh", "mesh-system"
			c.Values = map[string]any{"replicas": 2, "anchor": "ours"}
			c.Make = func() (map[string]any, error) { return map[string]any{"anchor": "made"}, nil }
			got, err := Installer{Cache: t.TempDir(), Plain: true}.Render(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"name: mesh\n", "namespace: mesh-system", `anchor: "made"`, `replicas: "2"`} {
				if !strings.Contains(got, want) {
					t.Errorf("no %q in\n%s", want, got)
				}
			}
		})
	}
}

func TestRenderRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]model.Chart{
		"nowhere":    {Source: "testdata/none"},
		"no version": {Source: repository(t), Version: "9.9.9"},
	} {
		c.Name, c.Release, c.Namespace = "mini", "mesh", "mesh-system"
		if got, err := (Installer{Cache: t.TempDir()}).Render(t.Context(), c); err == nil || !strings.Contains(err.Error(), "finding chart mini") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
