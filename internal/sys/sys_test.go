package sys

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestParseOwnCgroups(t *testing.T) {
	t.Parallel()
	got := parseOwnCgroups([]byte("9:name=systemd:/\n4:memory:/user/a:b\n2:cpu,cpuacct:/x\n0::/user.slice\nnonsense\n"))
	want := map[string]string{"name=systemd": "/", "memory": "/user/a:b", "cpu": "/x", "cpuacct": "/x", unified: "/user.slice"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func FuzzParseOwnCgroups(f *testing.F) {
	f.Add([]byte("2:cpu,cpuacct:/x\n0::/user.slice\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for controller := range parseOwnCgroups(b) {
			if strings.Contains(controller, ",") {
				t.Errorf("controller %q", controller)
			}
		}
	})
}

// fake makes a folder that looks like a mounted hierarchy.
func fake(t *testing.T, files map[string]string) string {
	t.Helper()
	base := t.TempDir()
	for name, text := range files {
		path := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return base
}

func TestFindVersion2(t *testing.T) {
	t.Parallel()
	// The root lacks controllers for its children and refuses to give them;
	// the user's own slice has them.
	base := fake(t, map[string]string{
		"cgroup.controllers":                                    "cpu memory",
		"user.slice/me.slice/cgroup.procs":                      "",
		"user.slice/me.slice/cgroup.subtree_control":            "cpu memory pids",
		"user.slice/me.slice/app.scope/cgroup.procs":            "1",
		"user.slice/me.slice/windtunnel/cgroup.procs":           "",
		"user.slice/me.slice/windtunnel/cgroup.subtree_control": "cpu memory",
	})
	c, err := findCgroups(base, map[string]string{unified: "/user.slice/me.slice/app.scope"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{unified: filepath.Join(base, "user.slice/me.slice/windtunnel")}
	if diff := cmp.Diff(want, c.roots); diff != "" || c.Version != 2 {
		t.Errorf("version %d: %s", c.Version, diff)
	}
	_, err = findCgroups(fake(t, map[string]string{"cgroup.controllers": ""}), map[string]string{unified: "/"})
	if err == nil || !strings.Contains(err.Error(), "cannot be written") {
		t.Errorf("nothing writable: %v", err)
	}
}

func TestFindVersion1(t *testing.T) {
	t.Parallel()
	base := fake(t, map[string]string{"cpu/tasks": "", "cpuacct/tasks": "", "memory/mine/tasks": ""})
	c, err := findCgroups(base, map[string]string{"memory": "/mine", "cpu": "/gone"})
	if err != nil {
		t.Fatal(err)
	}
	home := map[string]string{
		"cpu": filepath.Join(base, "cpu"), "cpuacct": filepath.Join(base, "cpuacct"), "memory": filepath.Join(base, "memory/mine"),
	}
	if diff := cmp.Diff(home, c.home); diff != "" || c.Version != 1 || c.Cpusets {
		t.Errorf("version %d, cpusets %t: %s", c.Version, c.Cpusets, diff)
	}
	c.RemoveParent()
	if _, err := os.Stat(filepath.Join(base, "cpu", cgroupParent)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the parent is still there: %v", err)
	}
}

func TestVersion2Settings(t *testing.T) {
	t.Parallel()
	base := fake(t, map[string]string{
		"cgroup.controllers": "", "cgroup.procs": "", "cgroup.subtree_control": "cpu memory",
		"windtunnel/cgroup.subtree_control":           "cpu memory",
		"windtunnel/lab/cgroup.subtree_control":       "cpu memory",
		"windtunnel/lab/p/cgroup.subtree_control":     "",
		"windtunnel/lab/p/app/cgroup.subtree_control": "cpu memory",
	})
	c, err := findCgroups(base, map[string]string{unified: "/"})
	if err != nil {
		t.Fatal(err)
	}
	g, err := c.Lab("lab")
	for _, name := range []string{"p", "app"} {
		if err == nil {
			g, err = g.Sub(name)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(g.Limit(0.5, 1<<20), g.Weigh(7), g.Bind([]int{1, 3}))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, file := range []string{"cpu.max", "memory.max", "cpu.weight", "cpuset.cpus", "../cgroup.subtree_control"} {
		b, err := os.ReadFile(filepath.Join(base, "windtunnel/lab/p/app", file))
		if err != nil {
			t.Fatal(err)
		}
		got[file] = string(b)
	}
	want := map[string]string{
		"cpu.max": "50000 100000", "memory.max": "1048576", "cpu.weight": "700", "cpuset.cpus": "1,3", "../cgroup.subtree_control": "+cpu +memory",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := g.Limit(0, 0); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(base, "windtunnel/lab/p/app/cpu.max")); err != nil || string(b) != "max 100000" {
		t.Errorf("a limit that was lifted is %q, %v", b, err)
	}
}

// A real group of version 2 that a process is born in; without controllers a
// group still counts CPU time.
func TestBornInVersion2(t *testing.T) {
	t.Parallel()
	var dir string
	for _, base := range []string{cgroupBase, filepath.Join(cgroupBase, "unified")} {
		if _, err := os.Stat(filepath.Join(base, "cgroup.procs")); err != nil {
			continue
		}
		made, err := os.MkdirTemp(base, "windtunnel-test-") //nolint:usetesting // a cgroup
		if err == nil {
			dir = made
		}
	}
	if dir == "" {
		t.Skip("no cgroup of version 2 can be made here")
	}
	t.Cleanup(func() {
		if err := RemoveCgroup(dir); err != nil {
			t.Error(err)
		}
	})
	g := &Cgroup{in: &Cgroups{Version: 2}, dirs: map[string]string{unified: dir}}
	var out strings.Builder
	p, err := Start(Command{Argv: []string{"cat", "/proc/self/cgroup"}, Env: []string{"PATH=/bin:/usr/bin"}, Group: g, Output: &out})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if !strings.Contains(out.String(), "/"+filepath.Base(dir)+"\n") {
		t.Errorf("was born in %q", out.String())
	}
	if p, err = Start(Command{Argv: []string{"sh", "-c", "sleep 60 & sleep 60 & wait"}, Env: []string{"PATH=/bin:/usr/bin"}, Group: g}); err != nil {
		t.Fatal(err)
	}
	if err := g.Kill(); err != nil {
		t.Error(err)
	}
	<-p.Done()
}

func answer(errno int32, cut int) []byte {
	b := make([]byte, unix.SizeofNlMsghdr+20)
	b[0], b[4] = byte(len(b)), unix.NLMSG_ERROR
	v := uint32(-errno)
	b[16], b[17], b[18], b[19] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
	return b[:len(b)-cut]
}

func TestAcks(t *testing.T) {
	t.Parallel()
	if n, err := acks(append(answer(0, 0), answer(0, 0)...)); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := acks(append(answer(0, 0), answer(int32(unix.EEXIST), 0)...)); n != 2 || !errors.Is(err, unix.EEXIST) {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := acks(answer(0, 3)); err == nil {
		t.Error("a cut-off answer is accepted")
	}
}

func FuzzAcks(f *testing.F) {
	f.Add(answer(0, 0))
	f.Add(answer(int32(unix.EEXIST), 0))
	f.Add(answer(0, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, _ := acks(b); n > len(b)/(unix.SizeofNlMsghdr+4) {
			t.Errorf("%d answers in %d bytes", n, len(b))
		}
	})
}

func TestMAC(t *testing.T) {
	t.Parallel()
	if got := MAC(netip.MustParseAddr("10.128.0.2")).String(); got != "0a:58:0a:80:00:02" {
		t.Error(got)
	}
}

func TestPrivateDir(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir := filepath.Join(base, "state")
	for range 2 {
		if err := PrivateDir(dir); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(base, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := PrivateDir(link); err == nil {
		t.Error("a link is accepted")
	}
	if err := os.Chmod(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := PrivateDir(dir); err == nil {
		t.Error("a folder that others can read is accepted")
	}
}

func TestLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	if Locked(path) {
		t.Error("a lock that does not exist is held")
	}
	f, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if !Locked(path) {
		t.Error("the lock is not held")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	// A child that another test forks shares the lock until it has become
	// another program.
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); Locked(path); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("the lock is still held")
		}
	}
}

func TestMonotonicGrows(t *testing.T) {
	t.Parallel()
	if a, b := Monotonic(), Monotonic(); a <= 0 || b < a {
		t.Errorf("%d, then %d", a, b)
	}
}

// What the kernel says of limits, in both versions' words.
func TestParseLimits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		quota, period, bytes string
		cpu                  float64
		memory               uint64
	}{
		{"15000", "100000", "134217728", 0.15, 128 << 20},
		{"max", "100000", "max", 0, 0},
		{"-1", "100000", "9223372036854771712", 0, 0},
	} {
		cpu, memory, err := parseLimits(tt.quota, tt.period, tt.bytes)
		if err != nil || cpu != tt.cpu || memory != tt.memory {
			t.Errorf("%v: %v cores, %d bytes, %v", tt, cpu, memory, err)
		}
	}
	for _, bad := range [][3]string{{"x", "100000", "max"}, {"5", "0", "max"}, {"5", "", "max"}, {"max", "100000", "-1"}} {
		if cpu, memory, err := parseLimits(bad[0], bad[1], bad[2]); err == nil {
			t.Errorf("%v: %v cores, %d bytes", bad, cpu, memory)
		}
	}
}

// What others see of the process is its first thread: it must never be one that
// is thrown away, as Go would keep it as it is.
func TestFirstThreadIsNotThrownAway(t *testing.T) {
	t.Parallel()
	name := func() string {
		comm, err := os.ReadFile("/proc/self/comm") // the first thread's
		if err != nil {
			t.Fatal(err)
		}
		return string(comm)
	}
	before := name()
	for range 3000 {
		err := onThrowawayThread(func() error {
			thrown := [16]byte{'t', 'h', 'r', 'o', 'w', 'n'}
			return unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&thrown)), 0, 0, 0)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if after := name(); after != before {
		t.Errorf("the first thread was %q and is %q", before, after)
	}
}
