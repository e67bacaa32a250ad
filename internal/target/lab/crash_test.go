package lab_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/target/lab"
)

// nest is the whole program in little: it enters a lab with the state folder
// args[0], makes a site with a process in it, checks that it works, says so,
// and serves `exec` until it is stopped.
func nest(args []string) int {
	target := lab.New(args[0])
	inside, code, err := target.Enter(context.Background())
	if err == nil && !inside {
		return code
	}
	if err == nil {
		err = nestInside(target)
	}
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	return 0
}

func nestInside(target *lab.Target) (err error) {
	ctx := context.Background()
	defer func() {
		if closeErr := target.Close(); err == nil {
			err = closeErr
		}
	}()
	site, err := target.Provision(ctx, labtest.Topology(1))
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := site.Close(ctx); err == nil {
			err = closeErr
		}
	}()
	server, err := site.Pod("server-0")
	if err != nil {
		return err
	}
	r, err := server.Start(ctx, model.Process{Name: "cat", Component: model.ComponentApp, Command: []string{"{self}", "cat"}, Piped: true})
	if err != nil {
		return err
	}
	if err := reach(site, netip.AddrPortFrom(server.Addr(), 8080)); err != nil {
		return err
	}
	fmt.Printf("ready %s rootless=%t cgroups=%q\n", target.ID(), target.Host().Rootless, target.Host().Cgroups)
	serving, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // the end of input ends the nest
		cancel()
	}()
	if err := target.ServeExec(serving, site); err != nil {
		return err
	}
	return r.Stop(ctx)
}

// reach connects from one pod to the other, both by this process.
func reach(site model.Site, to netip.AddrPort) error {
	var l net.Listener
	err := inPod(site, "server-0", func() (err error) {
		l, err = net.Listen("tcp", to.String())
		return err
	})
	if err != nil {
		return err
	}
	defer l.Close() //nolint:errcheck // only a test's
	return inPod(site, "client-0", func() error {
		c, err := net.DialTimeout("tcp", to.String(), 2*time.Second)
		if err != nil {
			return err
		}
		return c.Close()
	})
}

func inPod(site model.Site, name string, f func() error) error {
	pod, err := site.Pod(name)
	if err != nil {
		return err
	}
	ns, ok := pod.(model.Namespace)
	if !ok {
		return fmt.Errorf("%T has no namespace", pod)
	}
	return ns.InNetwork(f)
}

// execIn runs args[1:] in the pod client-0 of the site with the state folder args[0].
func execIn(args []string) int {
	code, err := lab.New(args[0]).Exec(context.Background(), "client-0", args[1:])
	if err != nil {
		fmt.Println("failed:", err)
		return 99
	}
	return code
}

type nested struct {
	cmd   *exec.Cmd
	in    io.Closer
	dir   string
	ready string
}

// startNest starts a nest as a user and waits until it is ready.
func startNest(t *testing.T, uid int) *nested {
	t.Helper()
	labtest.Need(t)
	dir, err := os.MkdirTemp("", "windtunnel-nest-") //nolint:usetesting // short: it will hold a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err = os.Chown(dir, uid, uid); err != nil {
		t.Fatal(err)
	}
	n := &nested{dir: dir, cmd: exec.CommandContext(t.Context(), "/proc/self/exe", "nest", dir)}
	n.cmd.Stderr = os.Stderr
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	if n.in, err = n.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := n.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err = n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if n.ready, err = bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(n.ready, "ready ") {
		t.Fatalf("the nest said %q, %v, %v", n.ready, err, n.cmd.Wait())
	}
	return n
}

// inner is the process number of the nest's inner process.
func (n *nested) inner(t *testing.T) int {
	t.Helper()
	for _, pid := range n.processes(t) {
		if pid != n.cmd.Process.Pid {
			return pid
		}
	}
	t.Fatal("there is no inner process")
	return 0
}

// processes are those of the nest that have its folder among their arguments.
func (n *nested) processes(t *testing.T) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil || !strings.Contains(string(b), n.dir) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// gone checks that nothing of the nest is left, waiting for the kernel.
func (n *nested) gone(t *testing.T) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); len(n.processes(t)) > 0; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("processes %v are left", n.processes(t))
		}
	}
}

func (n *nested) leftovers(t *testing.T) []string {
	t.Helper()
	id := strings.Fields(n.ready)[1]
	var left []string
	for _, pattern := range []string{filepath.Join(n.dir, id), "/sys/fs/cgroup/windtunnel/" + id, "/sys/fs/cgroup/*/windtunnel/" + id} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, found...)
	}
	return left
}

func TestNormalEndLeavesNothing(t *testing.T) {
	t.Parallel()
	n := startNest(t, 0)
	if err := n.in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := n.cmd.Wait(); err != nil {
		t.Error(err)
	}
	n.gone(t)
	if left := n.leftovers(t); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// Killing the inner process takes all with it; the outer one cleans up.
func TestKillInner(t *testing.T) {
	t.Parallel()
	n := startNest(t, 0)
	if len(n.leftovers(t)) == 0 {
		t.Error("the nest has no state that could be left")
	}
	if err := syscall.Kill(n.inner(t), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = n.cmd.Wait()
	if code := n.cmd.ProcessState.ExitCode(); code != 128+int(syscall.SIGKILL) {
		t.Errorf("exit code %d", code)
	}
	n.gone(t)
	if left := n.leftovers(t); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// Killing the outer process takes all with it; the next Sweep cleans up, once.
func TestKillOuter(t *testing.T) {
	t.Parallel()
	n := startNest(t, 0)
	target := lab.New(n.dir)
	if removed, err := target.Sweep(); err != nil || len(removed) > 0 {
		t.Errorf("of a live lab, sweeping removed %v, %v", removed, err)
	}
	if err := n.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = n.cmd.Wait()
	n.gone(t)
	// The kernel lets go of the lock a moment after the process has gone.
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); ; <-tick.C {
		removed, err := target.Sweep()
		if err != nil {
			t.Fatal(err)
		}
		if len(removed) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("sweeping removes nothing")
		}
	}
	if left := n.leftovers(t); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if removed, err := target.Sweep(); err != nil || len(removed) > 0 {
		t.Errorf("sweeping again removed %v, %v", removed, err)
	}
}

func TestTerminateIsForwarded(t *testing.T) {
	t.Parallel()
	n := startNest(t, 0)
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = n.cmd.Wait()
	if n.cmd.ProcessState.Success() {
		t.Error("SIGTERM did nothing")
	}
	n.gone(t)
	if left := n.leftovers(t); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// An ordinary user gets the same lab, without control groups, and is told so.
func TestRootless(t *testing.T) {
	t.Parallel()
	const nobody = 65534
	n := startNest(t, nobody)
	if !strings.Contains(n.ready, "rootless=true") {
		t.Errorf("said %q", n.ready)
	}
	if err := n.in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := n.cmd.Wait(); err != nil {
		t.Error(err)
	}
	n.gone(t)
}

func TestExec(t *testing.T) {
	t.Parallel()
	n := startNest(t, 0)
	run := func(in string, argv ...string) (out string, code int) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", append([]string{"exec", n.dir}, argv...)...)
		cmd.Stdin = strings.NewReader(in)
		b, err := cmd.CombinedOutput()
		if err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(b), cmd.ProcessState.ExitCode()
	}
	if out, code := run("typed", "sh", "-c", "cat; exit 7"); out != "typed" || code != 7 {
		t.Errorf("%q, %d", out, code)
	}
	if out, code := run("", "cat", "/proc/net/fib_trie"); code != 0 || !strings.Contains(out, "10.128.0.2") {
		t.Errorf("not in the pod's network: %d, %s", code, out)
	}
	if out, code := run("", "no-such-program"); code != 99 || !strings.Contains(out, "no-such-program") {
		t.Errorf("%q, %d", out, code)
	}
	// A signal to the client ends the command.
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "exec", n.dir, "sh", "-c", "trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 5 {
		t.Errorf("exit code %d", code)
	}
	if err := n.in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := n.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if out, code := run("", "true"); code != 99 || !strings.Contains(out, "no site is up") {
		t.Errorf("%q, %d", out, code)
	}
}
