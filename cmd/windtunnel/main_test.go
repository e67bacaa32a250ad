package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/windtunnel/windtunnel/internal/store"
)

// program is the real binary: the lab re-executes it, so a test binary would
// not do.
func program(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "windtunnel")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("building the program: %v\n%s", err, out)
	}
	return path
}

// canLab says whether this host can run a lab; where it is required, that it
// cannot is a failure.
func canLab(t *testing.T, bin string) bool {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), bin, "doctor", "--json").Output()
	if err != nil {
		t.Fatalf("doctor: %v", err)
	}
	var probes []struct {
		Name string
		OK   bool
	}
	if err := json.Unmarshal(out, &probes); err != nil {
		t.Fatal(err)
	}
	can := slices.ContainsFunc(probes, func(p struct {
		Name string
		OK   bool
	},
	) bool {
		return p.Name == "lab" && p.OK
	})
	if !can && strings.Contains(os.Getenv("WINDTUNNEL_REQUIRE"), "lab") {
		t.Fatalf("the lab is required here, and does not work:\n%s", out)
	}
	return can
}

func TestScripts(t *testing.T) {
	t.Parallel()
	bin := program(t)
	lab := canLab(t, bin)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata", RequireExplicitExec: true, RequireUniqueNames: true,
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", filepath.Dir(bin)+":"+os.Getenv("PATH"))
			e.Setenv("ROOT", root)
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond == "lab" {
				return lab, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	})
}

// The published schema is the catalog's.
func TestSchemaIsPublished(t *testing.T) {
	t.Parallel()
	bin := program(t)
	got, err := exec.CommandContext(t.Context(), bin, "schema").Output()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("../../schema/study.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("schema/study.schema.json is out of date: run `make schema`\n%s", diff)
	}
}

const killStudy = `apiVersion: windtunnel/v1
kind: Study
metadata: {name: killed}
question: Does anything survive?
baseline: direct
variants:
  - {name: direct, stack: []}
  - {name: nft-service, stack: [nft-service]}
app: {kind: echo, replicas: 2}
loads:
  - {name: steady, protocol: http1, model: open, rate: 200/s, connections: 4, duration: 200ms}
design: {blocks: 8, warmup: 50ms, control: true}
`

// TestKill kills a run with SIGKILL at 20 random moments: nothing of it may go
// on living, at most the trial in flight may be lost, and a resumed run must
// end as if nothing had happened.
func TestKill(t *testing.T) { //nolint:paralleltest // looks at all processes of the host
	bin := program(t)
	if !canLab(t, bin) {
		t.Skip("no lab here")
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	file, out := filepath.Join(dir, "killed.yaml"), filepath.Join(dir, "run")
	if err := os.WriteFile(file, []byte(killStudy), 0o600); err != nil {
		t.Fatal(err)
	}
	had := 0
	for kill := range 20 {
		cmd := exec.Command(bin, arguments(t, file, out)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.NewTimer(time.Duration(rng.IntN(1200)) * time.Millisecond)
		done := make(chan struct{})
		go func() { _ = cmd.Wait(); close(done) }()
		select {
		case <-timer.C:
		case <-done:
		}
		victim := cmd.Process.Pid
		if inner := children(victim); kill%2 == 1 && len(inner) > 0 {
			victim = inner[0]
		}
		_ = syscall.Kill(victim, syscall.SIGKILL)
		<-done
		waitForNobody(t, bin)
		run, err := store.Open(out)
		if err != nil {
			continue // killed before anything was measured
		}
		if len(run.Outcomes) < had {
			t.Fatalf("kill %d: %d outcomes, there were %d", kill, len(run.Outcomes), had)
		}
		had = len(run.Outcomes)
	}
	finish(t, bin, file, out)
	clean(t, bin)
}

// arguments resumes what can be resumed.
func arguments(t *testing.T, file, out string) []string {
	t.Helper()
	run, err := store.Open(out)
	if err == nil && run.End == nil {
		return []string{"run", "--resume", out}
	}
	if err := os.RemoveAll(out); err != nil {
		t.Fatal(err)
	}
	return []string{"run", file, "--out", out}
}

func finish(t *testing.T, bin, file, out string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if text, err := exec.CommandContext(ctx, bin, arguments(t, file, out)...).CombinedOutput(); err != nil {
		t.Fatalf("resuming: %v\n%s", err, text)
	}
	if text, err := exec.CommandContext(ctx, bin, "verify", out).CombinedOutput(); err != nil {
		t.Fatalf("verifying: %v\n%s", err, text)
	}
	run, err := store.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]int{}
	for _, o := range run.Outcomes {
		seen[o.Trial.Index]++
		if o.Failure != nil {
			t.Errorf("trial %d failed: %+v", o.Trial.Index, o.Failure)
		}
	}
	if len(seen) != 24 || len(run.Outcomes) != 24 {
		t.Errorf("%d outcomes of %d trials, want 24 of 24", len(run.Outcomes), len(seen))
	}
}

// clean must leave no control group and no state of this program's.
func clean(t *testing.T, bin string) {
	t.Helper()
	if text, err := exec.CommandContext(t.Context(), bin, "clean").CombinedOutput(); err != nil {
		t.Fatalf("clean: %v\n%s", err, text)
	}
	if text, err := exec.CommandContext(t.Context(), bin, "clean").CombinedOutput(); err != nil || !strings.Contains(string(text), "nothing to remove") {
		t.Errorf("a second clean: %v\n%s", err, text)
	}
}

// processes lists the processes that run a program, by its file.
func processes(bin string) []int {
	var pids []int
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && strings.TrimSuffix(exe, " (deleted)") == bin {
			pids = append(pids, pid)
		}
	}
	return pids
}

func waitForNobody(t *testing.T, bin string) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for len(processes(bin)) > 0 {
		if time.Now().After(deadline) {
			t.Fatalf("processes %v go on living after the run was killed", processes(bin))
		}
		<-time.NewTimer(10 * time.Millisecond).C
	}
}

func children(pid int) []int {
	var pids []int
	for _, p := range procStats() {
		if p[1] == pid {
			pids = append(pids, p[0])
		}
	}
	return pids
}

// procStats returns pairs of pid and parent.
func procStats() [][2]int {
	var all [][2]int
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	for _, path := range stats {
		raw, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) || len(raw) == 0 {
			continue
		}
		fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
		pid, err1 := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		parent, err2 := strconv.Atoi(fields[1])
		if err1 == nil && err2 == nil {
			all = append(all, [2]int{pid, parent})
		}
	}
	return all
}
