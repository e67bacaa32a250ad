package sys

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A group that is busy on all CPUs has stopped when Suspend returns.
func TestSuspend(t *testing.T) {
	t.Parallel()
	const busy = "while :; do :; done"
	p, err := Start(Command{Argv: []string{"sh", "-c", strings.Repeat(busy+" & ", 7) + busy}, Env: []string{"PATH=/bin:/usr/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.kill(); err != nil {
			t.Error(err)
		}
	})
	for range 20 {
		if err := p.Suspend(t.Context()); err != nil {
			t.Fatal(err)
		}
		if goesOn, err := runningIn(p.PID()); goesOn != "" || err != nil {
			t.Errorf("thread %s goes on: %v", goesOn, err)
		}
		if err := p.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	if goesOn, err := runningIn(p.PID()); goesOn == "" || err != nil {
		t.Errorf("after SIGCONT nothing goes on: %v", err)
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]struct {
		state byte
		group int
		ok    bool
	}{
		"7 (sh) T 1 7 7 0": {'T', 7, true}, "7 (a) b) R (c) S 1 42 7 0": {'S', 42, true},
		"": {}, "7 (sh": {}, "7 (sh) T 1": {}, "7 (sh) T 1 x": {'T', 0, false}, "7 (sh) TT 1 7": {},
	} {
		if state, group, ok := parseStat([]byte(raw)); state != want.state || group != want.group || ok != want.ok {
			t.Errorf("%q: %c %d %v", raw, state, group, ok)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	own, err := os.ReadFile(filepath.Join("/proc", "self", "stat"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(own)
	f.Add([]byte("7 (a) b) R (c) S 1 42 7 0"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if state, _, ok := parseStat(raw); ok && state == 0 && len(raw) == 0 {
			t.Errorf("%q is read", raw)
		}
	})
}
