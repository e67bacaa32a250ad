package cgroup

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, mounts string
		want         Tree
	}{
		{"v2", "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw", Tree{Roots: []string{"/sys/fs/cgroup"}, Unified: true}},
		{
			"hybrid",
			"30 20 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n" +
				"32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
				"31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n" +
				"33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n" +
				"34 30 0:28 / /mnt/memory rw - cgroup cgroup rw,memory",
			Tree{Roots: []string{"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/memory"}, Beside: []string{"/sys/fs/cgroup/unified"}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			tree, err := parse(strings.NewReader(test.mounts))
			if err != nil || !reflect.DeepEqual(tree, test.want) {
				t.Errorf("%+v, %v", tree, err)
			}
		})
	}
	if _, err := parse(strings.NewReader("nothing here")); err == nil {
		t.Error("no control groups, and no error")
	}
}

// TestUnified checks what is written, on a folder that stands in for version 2.
func TestUnified(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, filepath.Join(root, "cgroup.controllers"), "cpu memory")
	write(t, filepath.Join(root, "cgroup.subtree_control"), "cpu")
	tree := Tree{Roots: []string{root}, Unified: true}
	if err := tree.Create("lab"); err != nil {
		t.Fatal(err)
	}
	if got := read(t, filepath.Join(root, "cgroup.subtree_control")); got != "+memory" {
		t.Errorf("handed on %q, want only what was not", got)
	}
	write(t, filepath.Join(root, "lab", "cpu.weight"), "100")
	if err := tree.Shares("lab", 8192); err != nil {
		t.Fatal(err)
	}
	if got := read(t, filepath.Join(root, "lab", "cpu.weight")); got != "313" {
		t.Errorf("weight %s, want 313", got)
	}
}

func TestCpusetIsFilledTopDown(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, filepath.Join(root, "cpuset.cpus"), "0-1\n")
	write(t, filepath.Join(root, "cpuset.mems"), "0\n")
	if err := (Tree{Roots: []string{root}}).Create("lab/a1/sys"); err != nil {
		t.Fatal(err)
	}
	for _, group := range []string{"lab", "lab/a1", "lab/a1/sys"} {
		if got := read(t, filepath.Join(root, group, "cpuset.cpus")); got != "0-1\n" {
			t.Errorf("%s has the processors %q", group, got)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestLeftLooksBeside(t *testing.T) {
	t.Parallel()
	controllers, beside := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(beside, "lab", "a1", "kubepods"), 0o755); err != nil {
		t.Fatal(err)
	}
	tree := Tree{Roots: []string{controllers}, Beside: []string{beside}}
	if left := tree.Left("lab"); len(left) != 3 {
		t.Errorf("left: %q, want three folders", left)
	}
	if err := tree.Remove(t.Context(), "lab"); err != nil {
		t.Error(err)
	}
	if left := tree.Left("lab"); left != nil {
		t.Errorf("left after removing: %q", left)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw")
	f.Add(" - \n -  - ")
	f.Fuzz(func(t *testing.T, mounts string) {
		if tree, err := parse(strings.NewReader(mounts)); err == nil && len(tree.Roots) == 0 {
			t.Error("nothing found, and no error")
		}
	})
}
