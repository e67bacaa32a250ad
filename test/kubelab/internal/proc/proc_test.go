package proc

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	tests := []struct {
		stat, state, start string
		ok                 bool
	}{
		{"7 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20", "S", "4711", true},
		{"7 (zombie) Z 1 2 3", "", "", false},
		{"", "", "", false},
	}
	for _, test := range tests {
		state, start, ok := parseStat(test.stat)
		if state != test.state || start != test.start || ok != test.ok {
			t.Errorf("%q: %s %s %t", test.stat, state, start, ok)
		}
	}
}

func TestKill(t *testing.T) {
	t.Parallel()
	command := exec.Command("sleep", "60")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	id, ok := Of(command.Process.Pid)
	if !ok || !id.Alive() {
		t.Fatal("it does not run")
	}
	path := filepath.Join(t.TempDir(), "pid")
	if err := id.Write(path); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(path); err != nil || got != id {
		t.Errorf("read %v, %v; want %v", got, err, id)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := Kill(ctx, []ID{id}); err != nil {
		t.Error(err)
	}
	_ = command.Wait()
	if (ID{PID: os.Getpid(), Start: "1"}).Alive() {
		t.Error("a process with another start time is another process")
	}
}

func TestReadOfNonsense(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pid")
	for _, text := range []string{"", "1 2", "x y", "-5 1", "12"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if id, err := Read(path); err != nil || id != (ID{}) {
			t.Errorf("%q: %v, %v", text, id, err)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("7 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20")
	f.Add(") ")
	f.Fuzz(func(t *testing.T, stat string) {
		if state, start, ok := parseStat(stat); ok && (state == "" || start == "") {
			t.Errorf("%q: state %q, start %q", stat, state, start)
		}
	})
}
