package build

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// module is the folder of this Go module.
const module = "../.."

func TestKeyFollowsTheSources(t *testing.T) {
	t.Parallel()
	source := t.TempDir()
	for _, dir := range []string{"build", "pods"} {
		if err := os.CopyFS(filepath.Join(source, dir), os.DirFS(filepath.Join(module, dir))); err != nil {
			t.Fatal(err)
		}
	}
	key := func() string {
		k, err := Key(t.Context(), source)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	first := key()
	if here, err := Key(t.Context(), module); err != nil || here != first {
		t.Errorf("a copy of the sources has the key %s, they have %s, %v", first, here, err)
	}
	if err := os.WriteFile(filepath.Join(source, "pods", "echo", "main.go"), []byte("package main\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if key() == first {
		t.Error("other sources have the same key")
	}
	if _, err := Key(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "KUBELAB_SOURCE") {
		t.Errorf("an empty folder: %v", err)
	}
}

// TestVersions checks that what the programs say of themselves is what is built.
func TestVersions(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"build/hyperkube/go.mod":  "k8s.io/kubernetes " + Kubernetes,
		"build/containerd/go.mod": "github.com/containerd/containerd/v2 v" + containerdVersion,
	} {
		text, err := os.ReadFile(filepath.Join(module, file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("%s does not require %s", file, want)
		}
	}
}

// TestStagingModules checks that every module of Kubernetes has its version.
func TestStagingModules(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(module, "build/hyperkube/go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	want, own := "v0."+strings.TrimPrefix(Kubernetes, "v1."), 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(fields) < 2 || !strings.HasPrefix(fields[0], "k8s.io/") || strings.HasPrefix(fields[1], "v0.0.0-") || strings.Contains(fields[0], "klog") {
			continue
		}
		own++
		if fields[1] != want && fields[1] != Kubernetes {
			t.Errorf("%s is %s, want %s", fields[0], fields[1], want)
		}
	}
	if own < 25 {
		t.Errorf("only %d modules of Kubernetes are pinned", own)
	}
}
