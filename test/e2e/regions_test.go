package e2e

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// farAway is a study of a client with a server in its own cluster and one in
// another, which dies and comes back.
const farAway = `apiVersion: windtunnel/v1
kind: Study
metadata: {name: far-away}
question: What does a far cluster cost, and what happens when its pods die?
target: {kube: {contexts: [a, b]}}
topology:
  regions:
    - name: home
      clusters:
        - name: near
          nodes:
            - {name: n1, pods: [{name: c1, role: client}]}
            - {name: n2, pods: [{name: s0, role: server}]}
    - name: away
      clusters:
        - {name: far, nodes: [{name: f1, pods: [{name: s1, role: server}]}]}
  links: [{a: home, b: away, delay: 40ms}]
app: {kind: echo}
baseline: direct
variants:
  - {name: direct, stack: []}
  - {name: over, stack: [endpointslices]}
faults:
  - name: far-dies
    events: [{at: 1s, heal: 7s, kill: {clusters: [far], power: false}}]
loads:
  - {name: dies, protocol: http1, model: open, rate: 100/s, connections: 64, reconnect: true, duration: 10s, timeout: 2s, from: c1, to: server, fault: far-dies}
design: {blocks: 6, warmup: 1s, control: false, seed: 1, primary: [failover.failed]}
`

// oneWay is the delay between the clusters.
const oneWay = 0.040

// link delays what goes between the clusters until the test ends; it returns the
// round trip in milliseconds that was measured, without pods.
func (l lab) link() (roundTrip float64) {
	l.t.Helper()
	// Interrupted below, so that it takes its rules away.
	cmd := exec.CommandContext(context.WithoutCancel(l.t.Context()), l.kubelab, "link", "a", "b", "40ms")
	cmd.Env = append(os.Environ(), "WINDTUNNEL="+l.windtunnel)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		if failure := errors.Join(cmd.Process.Signal(syscall.SIGINT), cmd.Wait()); failure != nil {
			l.t.Errorf("the link: %v", failure)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	_, after, found := strings.Cut(line, "round trip ")
	number, _, _ := strings.Cut(after, " ms")
	roundTrip, bad := strconv.ParseFloat(number, 64)
	if err != nil || !found || bad != nil {
		l.t.Fatalf("kubelab link said %q: %v, %v", line, err, bad)
	}
	return roundTrip
}

// Two clusters 40 ms apart: what the far one answers takes a round trip, and when
// its pods die, the Service fails over to the near one.
func TestFarClusterDies(t *testing.T) { //nolint:paralleltest // the clusters share this host
	l := newLab(t)
	const ms = 1000
	if got := l.link(); got < 2*oneWay*ms {
		t.Fatalf("a round trip between the clusters takes %.2f ms; %.0f ms each way were asked for", got, oneWay*ms)
	}
	l.do(l.windtunnel, "run", l.study(farAway), "--quiet", "--out", run)
	l.good(12)
	before := 0
	for _, o := range l.traces() {
		far, near, failed, lastFailed := o.split()
		t.Logf("%s: before the harm %d answers from far, the fastest after %.1f ms, and %d from near; during it %d failed, the last %.1f s after it; after the heal %d from far",
			o.Trial.Variant, far.before, far.fastest*ms, near.before, failed, lastFailed, far.after)
		before += far.before
		if far.before > 0 && far.fastest < 2*oneWay*0.95 {
			t.Errorf("%s: the far cluster has answered within %.1f ms", o.Trial.Variant, far.fastest*ms)
		}
		if o.Trial.Variant == "over" && near.late == 0 {
			t.Error("nobody has answered in the last two seconds of the harm: the Service has not failed over")
		}
		if o.Trial.Variant == "over" && far.late > 0 {
			t.Errorf("killed pods have answered %d requests", far.late)
		}
	}
	if before == 0 {
		t.Error("the far cluster has never answered")
	}
	l.has(l.records(), "Service of cluster near, over 2 pods in 2 clusters")
	csvOf(l)
}

// csvOf checks that failover is measured as on the lab.
func csvOf(l lab) {
	l.t.Helper()
	rows, err := csv.NewReader(strings.NewReader(l.do(l.windtunnel, "report", run, "--format", "csv"))).ReadAll()
	if err != nil {
		l.t.Fatal(err)
	}
	found := map[string]bool{}
	for _, row := range rows {
		for _, cell := range row {
			found[cell] = true
		}
	}
	for _, metric := range []string{"failover.failed", "failover.recovered99", "failover.remote_before"} {
		if !found[metric] {
			l.t.Errorf("the results have no %s", metric)
		}
	}
}

// traced is what is read of a trial: who answered each request, and when.
type traced struct {
	Trial  struct{ Variant string }
	Window struct {
		Start int64 `json:"start_ns"`
	}
	Faults []struct {
		InjectEnd int64 `json:"inject_end_ns"`
		HealStart int64 `json:"heal_start_ns"`
		HealEnd   int64 `json:"heal_end_ns"`
	}
	Load struct {
		Trace struct {
			Due        []int64 `json:"due_us"`
			Response   []int64 `json:"response_us"`
			Who        []int
			Responders []string
		}
	}
}

// answers are of one cluster: before the harm, in its last two seconds, and after
// the heal.
type answers struct {
	before, late, after int
	fastest             float64 // seconds
}

func (o traced) split() (far, near answers, failed int, lastFailed float64) {
	const second, late = 1e6, 2e6 // microseconds
	down := (o.Faults[0].InjectEnd - o.Window.Start) / 1000
	heal, healed := (o.Faults[0].HealStart-o.Window.Start)/1000, (o.Faults[0].HealEnd-o.Window.Start)/1000
	far.fastest, near.fastest = 1e9, 1e9
	for i, due := range o.Load.Trace.Due {
		who := o.Load.Trace.Who[i]
		if who < 0 {
			if due > down && due < heal {
				failed++
				lastFailed = float64(due-down) / second
			}
			continue
		}
		at := &near
		if strings.HasPrefix(o.Load.Trace.Responders[who], "s1") {
			at = &far
		}
		at.fastest = min(at.fastest, float64(o.Load.Trace.Response[i])/second)
		switch {
		case due+o.Load.Trace.Response[i] < down:
			at.before++
		case due > heal-late && due < heal:
			at.late++
		case due > healed:
			at.after++
		}
	}
	return far, near, failed, lastFailed
}

// traces are those of the run's trials.
func (l lab) traces() []traced {
	l.t.Helper()
	f, err := os.Open(filepath.Join(l.in, run, "records.jsonl"))
	if err != nil {
		l.t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	var all []traced
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var r struct{ Outcome *traced }
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			l.t.Fatal(err)
		}
		if r.Outcome != nil && len(r.Outcome.Faults) == 1 {
			all = append(all, *r.Outcome)
		}
	}
	if len(all) == 0 || lines.Err() != nil {
		l.t.Fatalf("no trial has a fault: %v", lines.Err())
	}
	return all
}
