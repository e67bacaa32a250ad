package unit

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/test/kubelab/internal/pki"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/plan"
)

var update = flag.Bool("update", false, "write the golden files")

func specs(t *testing.T, host Host) (controlPlane, node Spec) {
	t.Helper()
	lab, err := plan.New("kubelab", []int{2, 1})
	if err != nil {
		t.Fatal(err)
	}
	c := lab.Clusters[1]
	dir := filepath.Join(t.TempDir(), "pki")
	if err = pki.Ensure(dir, c, time.Now()); err != nil {
		t.Fatal(err)
	}
	if controlPlane, err = ControlPlane(lab, c, dir); err != nil {
		t.Fatal(err)
	}
	if node, err = Node(lab, c, c.Nodes[0], dir, host); err != nil {
		t.Fatal(err)
	}
	return controlPlane, node
}

// TestGolden shows in a diff what a change does to the processes and files.
func TestGolden(t *testing.T) {
	t.Parallel()
	controlPlane, node := specs(t, Host{Runc: "/usr/sbin/runc", Images: []string{"echo.tar", "pause.tar"}})
	for _, s := range []Spec{controlPlane, node} {
		text, err := json.MarshalIndent(s, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, s.Name+".json", text)
		for name, data := range s.Files {
			// Certificates differ each time; TestKubeconfig reads them.
			if ext := filepath.Ext(name); ext != ".crt" && ext != ".key" && ext != ".kubeconfig" {
				golden(t, s.Name+"/"+name, data)
			}
		}
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", filepath.FromSlash(name))
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s differs (go test -update writes it):\n%s", path, got)
	}
}

// TestFilesThatAreNamedExist finds every file below Conf that an argument or a
// file names.
func TestFilesThatAreNamedExist(t *testing.T) {
	t.Parallel()
	controlPlane, node := specs(t, Host{Runc: "/usr/sbin/runc"})
	for _, s := range []Spec{controlPlane, node} {
		var text strings.Builder
		for _, p := range s.Processes {
			text.WriteString(strings.Join(p.Args, " ") + " ")
		}
		for name, data := range s.Files {
			if !strings.HasSuffix(name, ".kubeconfig") {
				text.Write(data)
			}
		}
		named := 0
		for _, rest := range strings.Split(text.String(), Conf+"/")[1:] {
			file := rest[:strings.IndexAny(rest, "\" \n")]
			named++
			if _, ok := s.Files[file]; !ok && file != "cni" {
				t.Errorf("%s names %s, which is not there", s.Name, file)
			}
		}
		if named < 5 {
			t.Errorf("%s names %d files only: this test looks for the wrong thing", s.Name, named)
		}
	}
}

func TestOOMScores(t *testing.T) {
	t.Parallel()
	for may, want := range map[bool]string{true: "restrict_oom_score_adj = false", false: "restrict_oom_score_adj = true"} {
		if text := string(containerdConfig(Host{OOMScores: may})); !strings.Contains(text, want) {
			t.Errorf("%q is missing in %s", want, text)
		}
	}
}

func TestKubeconfig(t *testing.T) {
	t.Parallel()
	data, err := Kubeconfig(
		Access{Context: "a", Server: "https://one", CA: []byte("CA"), User: pki.Pair{Cert: []byte("C"), Key: []byte("K")}},
		Access{Context: "b", Server: "https://two"})
	if err != nil {
		t.Fatal(err)
	}
	var read struct {
		Current  string `json:"current-context"`
		Clusters []struct {
			Name    string
			Cluster struct {
				Server string
				CA     []byte `json:"certificate-authority-data"`
			}
		}
		Contexts []struct{ Name string }
	}
	if err := json.Unmarshal(data, &read); err != nil {
		t.Fatal(err)
	}
	if read.Current != "a" || len(read.Contexts) != 2 || read.Clusters[1].Cluster.Server != "https://two" || string(read.Clusters[0].Cluster.CA) != "CA" {
		t.Errorf("%s", data)
	}
}

func TestWriteAndRead(t *testing.T) {
	t.Parallel()
	_, want := specs(t, Host{Runc: "/usr/sbin/runc", Images: []string{"pause.tar"}})
	root := t.TempDir()
	old := filepath.Join(root, Conf, "old")
	if err := os.MkdirAll(old, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := want.Write(root); err != nil {
		t.Fatal(err)
	}
	got, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	files := want.Files
	want.Files = nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, want %+v", got, want)
	}
	for name, data := range files {
		if text, err := os.ReadFile(filepath.Join(root, Conf, name)); err != nil || !slices.Equal(text, data) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("an old file is still there")
	}
}
