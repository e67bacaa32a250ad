package cgroup

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// TestRealGroups uses this host's own control groups, of whichever version.
func TestRealGroups(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can make control groups")
	}
	tree, err := Find()
	if err != nil {
		t.Skip(err)
	}
	top := "kubelabtest" + strconv.Itoa(os.Getpid())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
	defer cancel()
	defer func() {
		if err := tree.Remove(ctx, top); err != nil {
			t.Error(err)
		}
		if left := tree.Left(top); left != nil {
			t.Errorf("left: %q", left)
		}
	}()
	group := top + "/a1/sys"
	if err := tree.Create(group); err != nil {
		t.Skipf("this host's groups are not ours to make: %v", err)
	}
	if err := tree.Shares(top, 8192); err != nil {
		t.Error(err)
	}
	sleeper := exec.Command("sleep", "60")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	for _, root := range tree.Roots {
		if err := os.WriteFile(filepath.Join(root, group, "cgroup.procs"), []byte(strconv.Itoa(sleeper.Process.Pid)), 0o600); err != nil {
			t.Errorf("joining %s: %v", root, err)
		}
	}
	if found := tree.Processes(top); !slices.Equal(found, []int{sleeper.Process.Pid}) {
		t.Errorf("processes %v, want %d", found, sleeper.Process.Pid)
	}
	if err := sleeper.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = sleeper.Wait()
}
