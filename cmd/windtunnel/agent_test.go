package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// The program goes on as the one for agents if that is there, and does the work
// itself if not.
func TestGoesOnAsAgent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole, small := filepath.Join(dir, "windtunnel"), filepath.Join(dir, agentProgram)
	build := func(path, tags string) {
		if out, err := exec.CommandContext(t.Context(), "go", "build", "-tags", tags, "-o", path, ".").CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
	}
	build(whole, "")
	build(small, "agent")
	if is := running(t, whole); is != small {
		t.Errorf("echo is served by %s, want %s", is, small)
	}
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(small, past, past); err != nil {
		t.Fatal(err)
	}
	if is := running(t, whole); is != whole {
		t.Errorf("beside an old %s, echo is served by %s", small, is)
	}
}

// running starts a server and returns which program it is when it listens.
func running(t *testing.T, path string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, "echo", "--listen", "127.0.0.1:0")
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err = cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, failed := bufio.NewReader(said).ReadString('\n'); failed != nil {
		t.Errorf("%s echo says %q: %v", path, line, failed)
	}
	is, err := os.Readlink("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/exe")
	if err != nil {
		t.Error(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	return is
}
