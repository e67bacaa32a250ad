// Package e2e runs studies on two real Kubernetes clusters, which test/kubelab
// makes on this host: `make e2e`.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// small is a study of 12 short trials, on the target kube.
const small = `apiVersion: windtunnel/v1
kind: Study
metadata: {name: small}
question: What does a ClusterIP add?
target: {kube: {contexts: [a]}}
app: {kind: echo, replicas: 2}
baseline: direct
variants:
  - {name: direct, stack: []}
  - {name: nft-service, stack: [nft-service]}
loads:
  - {name: steady, protocol: http1, model: open, rate: 500/s, connections: 4, duration: 500ms}
design: {blocks: 6, warmup: 100ms, control: false, seed: 1}
`

// apart is a study with its clients on two nodes of cluster a, and its servers
// in cluster b.
const apart = `apiVersion: windtunnel/v1
kind: Study
metadata: {name: apart}
question: What does a ClusterIP add whose endpoints are in another cluster?
target: {kube: {contexts: [a, b]}}
topology:
  regions:
    - name: r
      clusters:
        - name: near
          nodes:
            - {name: n1, pods: [{name: c1, role: client}]}
            - {name: n2, pods: [{name: c2, role: client}]}
        - name: far
          nodes:
            - {name: f1, pods: [{name: s1, role: server}, {name: s2, role: server}]}
app: {kind: echo}
baseline: direct
variants:
  - {name: direct, stack: []}
  - {name: nft-service, stack: [nft-service]}
loads:
  - {name: steady, protocol: http1, model: open, rate: 500/s, connections: 4, duration: 500ms, from: [c1, c2]}
design: {blocks: 6, warmup: 100ms, control: false, seed: 1}
`

// need skips where there are no clusters; it returns the repository's root.
func need(t *testing.T) string {
	t.Helper()
	if os.Getenv("WINDTUNNEL_E2E") == "" {
		t.Skip("needs two clusters: make e2e starts them and runs this")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// lab is what the tests work with.
type lab struct {
	t                       *testing.T
	windtunnel, kubelab, in string
}

func newLab(t *testing.T) lab {
	t.Helper()
	root := need(t)
	l := lab{t: t, windtunnel: os.Getenv("WINDTUNNEL"), kubelab: filepath.Join(root, "bin/kubelab"), in: t.TempDir()}
	image := os.Getenv("WINDTUNNEL_IMAGE")
	if l.windtunnel == "" {
		l.windtunnel, image = filepath.Join(root, "bin/windtunnel"), filepath.Join(root, "bin/windtunnel-image.tar")
	}
	l.do(l.kubelab, "load", image)
	t.Cleanup(l.nothingLeft)
	return l
}

// do runs a command that must succeed, and returns what it printed.
func (l lab) do(name string, args ...string) string {
	l.t.Helper()
	out, err := l.try(name, args...)
	if err != nil {
		l.t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return out
}

func (l lab) try(name string, args ...string) (string, error) {
	cmd := exec.CommandContext(context.WithoutCancel(l.t.Context()), name, args...)
	cmd.Dir = l.in
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (l lab) kubectl(context string, args ...string) string {
	l.t.Helper()
	return l.do(l.kubelab, append([]string{"kubectl", "--context", context}, args...)...)
}

// apply applies a manifest.
func (l lab) apply(context, text string) {
	l.t.Helper()
	l.kubectl(context, "apply", "-f", l.file("manifest.yaml", text))
}

func (l lab) file(name, text string) string {
	l.t.Helper()
	path := filepath.Join(l.in, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
	return path
}

// study writes a study and returns its file.
func (l lab) study(text string) string { return l.file("study.yaml", text) }

// nothingLeft fails if a cluster holds anything of a run.
func (l lab) nothingLeft() {
	for _, cluster := range []string{"a", "b"} {
		left := l.kubectl(cluster, "get", "namespaces,pods,services,configmaps,endpointslices", "-A", "-o", "name", "-l", "app.kubernetes.io/managed-by=windtunnel")
		if strings.TrimSpace(left) != "" && !strings.Contains(left, "No resources found") {
			l.t.Errorf("left in cluster %s:\n%s", cluster, left)
		}
	}
}

// results are what the tests read of a run's results.
type results struct {
	Run struct {
		Complete bool `json:"complete"`
		Done     int  `json:"done_trials"`
		Failed   int  `json:"failed_trials"`
	} `json:"run"`
	Findings []struct {
		Rule, Severity, Variant, Cause, Evidence string
	} `json:"findings"`
}

// run is the folder of every test's run, in a folder of the test's own.
const run = "run"

// good checks that the run is complete, agrees with its records, and has no
// invalid finding, but for those of a busy host.
func (l lab) good(trials int) results {
	l.t.Helper()
	raw, err := os.ReadFile(filepath.Join(l.in, run, "results.json"))
	if err != nil {
		l.t.Fatal(err)
	}
	var r results
	if err = json.Unmarshal(raw, &r); err != nil {
		l.t.Fatal(err)
	}
	if !r.Run.Complete || r.Run.Done != trials || r.Run.Failed > 0 {
		l.t.Errorf("the run: %+v; %d trials were planned", r.Run, trials)
	}
	for _, f := range r.Findings {
		if f.Severity == "invalid" {
			l.t.Errorf("invalid: %+v", f)
		}
	}
	l.do(l.windtunnel, "verify", run)
	return r
}

func (l lab) records() string {
	l.t.Helper()
	raw, err := os.ReadFile(filepath.Join(l.in, run, "records.jsonl"))
	if err != nil {
		l.t.Fatal(err)
	}
	return string(raw)
}

func (l lab) has(text string, parts ...string) {
	l.t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			l.t.Errorf("nowhere %q in\n%.3000s", p, text)
		}
	}
}

func TestQuick(t *testing.T) { //nolint:paralleltest // the clusters share this host
	l := newLab(t)
	l.do(l.windtunnel, "run", "quick", "--target", "kube", "--context", "a", "--blocks", "6", "--quiet", "--out", run)
	r := l.good(36)
	found := false
	for _, f := range r.Findings {
		found = found || f.Variant == "envoy" && strings.Contains(f.Evidence, "runs on lab only")
	}
	if !found {
		t.Error("no finding says that the variant envoy was left out")
	}
	l.has(l.records(), `"cpu_seconds"`, "server-0/app", "client/generator", "Kubernetes' own ClusterIP over 2 endpoints", "node a1", "node a2")
}

func TestTwoClusters(t *testing.T) { //nolint:paralleltest // the clusters share this host
	l := newLab(t)
	l.do(l.windtunnel, "run", l.study(apart), "--quiet", "--out", run)
	l.good(12)
	l.has(l.records(), "context b, node b1: s1, s2", "0 by selector, 2 of other clusters by an EndpointSlice", "2 generators begin together within")
}

func TestCrashAndResume(t *testing.T) { //nolint:paralleltest // the clusters share this host
	l := newLab(t)
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), l.windtunnel, "run", l.study(small), "--quiet", "--out", run)
	cmd.Dir, cmd.Stdout, cmd.Stderr = l.in, &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l.until(func() bool {
		raw, err := os.ReadFile(filepath.Join(l.in, run, "records.jsonl"))
		return err == nil && bytes.Count(raw, []byte(`"outcome"`)) >= 3
	})
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	before := l.kubectl("a", "get", "namespaces", "-o", "name", "-l", "app.kubernetes.io/managed-by=windtunnel")
	if !strings.Contains(before, "windtunnel-") {
		t.Errorf("a killed run leaves its namespace, but there is %q", before)
	}
	l.do(l.windtunnel, "run", "--resume", run, "--quiet")
	l.good(12)
}

// until waits for something that happens within two minutes.
func (l lab) until(happened func() bool) {
	l.t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(2 * time.Minute)
	defer limit.Stop()
	for !happened() {
		select {
		case <-tick.C:
		case <-limit.C:
			l.t.Fatal("it did not happen")
		}
	}
}

func TestClean(t *testing.T) { //nolint:paralleltest // the clusters share this host
	l := newLab(t)
	cmd := exec.CommandContext(t.Context(), l.windtunnel, "run", l.study(apart), "--quiet", "--out", run)
	cmd.Dir = l.in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	left := func() bool {
		pods := l.kubectl("b", "get", "pods", "-A", "-o", "name", "-l", "app.kubernetes.io/managed-by=windtunnel")
		return strings.Contains(pods, "pod/")
	}
	l.until(left)
	out := l.do(l.windtunnel, "clean", "--target", "kube", "--context", "a,b")
	l.has(out, "nothing to remove") // it lives
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	out = l.do(l.windtunnel, "clean", "--target", "kube", "--context", "a,b")
	l.has(out, "removed context a: run", "removed context b: run", "of study apart")
	l.nothingLeft()
}

func TestPausedServer(t *testing.T) { //nolint:paralleltest // the clusters share this host
	l := newLab(t)
	done := make(chan string, 1)
	go func() {
		out, err := l.try(l.windtunnel, "run", l.study(small), "--quiet", "--out", run)
		if err != nil {
			out += err.Error()
		}
		done <- out
	}()
	l.until(func() bool {
		raw, err := os.ReadFile(filepath.Join(l.in, run, "records.jsonl"))
		return err == nil && bytes.Count(raw, []byte(`"outcome"`)) >= 2
	})
	l.do(l.kubelab, "pause", "api", "a", "30s")
	out := <-done
	if strings.Contains(out, "resume") {
		t.Logf("the run stopped, and is resumed: %s", out)
		l.do(l.windtunnel, "run", "--resume", run, "--quiet")
	}
	l.good(12)
}

func code(err error) int {
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return e.ExitCode()
	}
	return 0
}
