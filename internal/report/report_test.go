package report_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/plan"
	"github.com/windtunnel/windtunnel/internal/report"
	"github.com/windtunnel/windtunnel/internal/report/csv"
	"github.com/windtunnel/windtunnel/internal/report/markdown"
	"github.com/windtunnel/windtunnel/internal/report/text"
	"github.com/windtunnel/windtunnel/internal/store"
)

var update = flag.Bool("update", false, "write the golden files anew")

func testStudy(blocks int) model.Study {
	return model.Study{
		Name: "golden", Question: "What do two sidecars add?", Target: "lab", App: model.PluginRef{Kind: "echo"}, Baseline: "direct",
		Topology: model.Topology{Regions: []model.Region{{Name: "r", Clusters: []model.Cluster{{Name: "c", Nodes: []model.Node{
			{Name: "node-0", Pods: []model.PodSpec{{Name: "client", Role: "client"}}}, {Name: "node-1", Pods: []model.PodSpec{{Name: "server-0", Role: "server"}}},
		}}}}}, Services: []model.Service{{Name: "server", Port: 80, TargetPort: 8080, Pods: []string{"server-0"}}}},
		Variants: []model.Variant{{Name: "direct"}, {Name: "same"}, {Name: "envoy", Stack: []model.PluginRef{{Kind: "envoy"}}}, {Name: "control", Control: true}},
		Loads:    []model.Load{{Name: "steady", Protocol: "http1", Arrival: model.ArrivalOpen, Rate: 1000, Connections: 32, Duration: 2 * time.Second, Timeout: time.Second, From: "client", To: "server"}},
		Design:   model.Design{Blocks: blocks, MaxBlocks: blocks, Control: true, Equivalence: 0.05, Primary: []string{"response.p50", "cpu.total"}, Seed: 1},
		Gates:    []model.Gate{{Text: "envoy.steady.response.p50 < 1ms", Variant: "envoy", Load: "steady", Metric: "response.p50", Op: "<", Value: 1e-3}},
	}
}

// fake is an outcome whose latencies lie around a base, with a block's own level.
func fake(t model.Trial, base time.Duration, cpu float64) model.Outcome {
	rng := rand.New(rand.NewPCG(t.Seed, 7))
	level := 1 + 0.01*float64(t.Block%3) + 0.004*rng.NormFloat64()
	h := &hist.Histogram{}
	for i := range 2000 {
		h.Record(int64(float64(base) * level * (1 + float64(i)/2000)))
	}
	const second = int64(time.Second)
	series := func(subject string, grew float64) model.Series {
		return model.Series{Subject: subject, Metric: model.SampleCPU, At: []int64{second, 3 * second}, Values: []float64{1, 1 + grew*level}}
	}
	o := model.Outcome{
		Schema: model.OutcomeSchema, Trial: t, Started: time.Unix(1_800_000_000+int64(t.Index), 0).UTC(), Window: model.Window{Start: second, End: 3 * second},
		Ready: &model.Ready{Passed: true}, Endpoints: model.Endpoints{Service: "server", Backends: []model.Backend{{Pod: "server-0", Identity: "server-0"}}},
		Load: &model.LoadResult{
			Arrival: model.ArrivalOpen, Connections: 32, Rate: 1000, Elapsed: 2 * time.Second, Due: 2000, Sent: 2000, Succeeded: 2000,
			Response: h, Service: h, FailedResponse: &hist.Histogram{}, Lateness: &hist.Histogram{}, Responders: map[string]uint64{"server-0": 2000}, Workers: 1,
		},
		Samples: []model.Series{series("server-0/app", 0.1), series("client/generator", 0.2)},
	}
	if t.Variant == "envoy" {
		o.Samples = append(o.Samples, series("server-0/sidecar", cpu), series("client/sidecar", cpu))
		o.Ledger = model.Ledger{{Layer: "envoy", Key: model.FactMTLS, Value: "TLSv1.3", Source: model.SourceCounters}}
		o.Claims = []model.Claim{{Layer: "envoy", Key: model.FactMTLS, Value: "TLSv1.3"}}
	}
	return o
}

func build(t *testing.T, blocks int, spoil func(o *model.Outcome)) *report.Model {
	t.Helper()
	return buildStudy(t, testStudy(blocks), spoil)
}

func buildStudy(t *testing.T, s model.Study, spoil func(o *model.Outcome)) *report.Model {
	t.Helper()
	p, err := plan.Expand(s)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_800_000_000, 0).UTC()
	run := &store.Run{
		Meta: store.Meta{ID: "golden", Dir: "runs/golden", Created: at, StudySource: "golden", PlanDigest: p.Digest, Command: "windtunnel run golden"}, Plan: raw,
		Sessions: []store.Session{{Started: at, Version: "test", Host: model.Host{Cores: 2}}},
		End:      &store.End{At: at.Add(150 * time.Second), Reason: "all planned blocks were run", Complete: true},
	}
	for _, trial := range p.Trials {
		base := 100 * time.Microsecond
		if trial.Variant == "envoy" {
			base = 700 * time.Microsecond
		}
		o := fake(trial, base, 0.5)
		if spoil != nil {
			spoil(&o)
		}
		run.Outcomes = append(run.Outcomes, o)
	}
	for _, trial := range p.Breakdown {
		run.Broken = append(run.Broken, broken(trial))
	}
	m, err := report.Build(run)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestGolden(t *testing.T) {
	t.Parallel()
	golden(t, build(t, 10, nil), map[string]report.Format{"report.txt": text.Format{}, "report.md": markdown.Format{}})
	golden(t, buildFlows(t), map[string]report.Format{"flows.txt": text.Format{}, "flows.md": markdown.Format{}, "flows.csv": csv.Format{}})
}

func golden(t *testing.T, m *report.Model, formats map[string]report.Format) {
	t.Helper()
	m.Run.PlanDigest = "digest" // changes with every field of the plan
	for name, f := range formats {
		var got bytes.Buffer
		if err := f.Write(t.Context(), &got, m); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, got.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s (-want +got), -update writes it anew:\n%s", name, diff)
		}
	}
}

// Nothing is wider than a terminal of 100 columns.
func TestTextFitsTheTerminal(t *testing.T) {
	t.Parallel()
	s := testStudy(10)
	for i := range s.Variants {
		s.Variants[i].Name += "-with-a-rather-long-name"
	}
	s.Baseline, s.Gates = s.Variants[0].Name, nil
	s.Loads[0].Arrival = model.ArrivalClosed
	failing := func(o *model.Outcome) {
		o.Load.Failed, o.Load.Due = map[model.Cause]uint64{model.CauseReset: 100}, 2100
		o.Load.PayloadChanged = 7
	}
	for name, m := range map[string]*report.Model{"requests": build(t, 10, failing), "long names": buildStudy(t, s, failing), "flows": buildFlows(t)} {
		var got bytes.Buffer
		if err := (text.Format{}).Write(t.Context(), &got, m); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(got.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 100 {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
		for _, table := range report.Tables(m) {
			for _, head := range table.Header {
				if !strings.Contains(got.String(), head) {
					t.Errorf("%s: no column %q", name, head)
				}
			}
		}
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	m := build(t, 10, nil)
	envoy, same, control := m.Comparison("envoy", "steady", "response.p50"), m.Comparison("same", "steady", "response.p50"), m.Comparison("control", "steady", "response.p50")
	if envoy.Verdict != report.VerdictDifferent || envoy.Difference.Lo < 800e-6 || envoy.Difference.Hi > 1000e-6 || envoy.PHolm > 0.05 {
		t.Errorf("envoy: %+v %+v", envoy, envoy.Difference)
	}
	if same.Verdict == report.VerdictDifferent || control.Floor <= 0 {
		t.Errorf("same: %+v; control: %+v", same, control)
	}
	if !m.Failed() {
		t.Error("the gate of 1 ms must fail: envoy's median is 1.05 ms")
	}
	if c := m.Comparison("envoy", "steady", "response.p99.9"); c.Verdict != report.VerdictUnknown || c.Reason == "" {
		t.Errorf("p99.9 of 2,000 requests must not be compared: %+v", c)
	}
	if c := m.Cell("envoy", "steady", "response.p99.9"); !c.Pooled || c.Estimate == nil {
		t.Errorf("p99.9 of 20,000 requests can be pooled: %+v", c)
	}
}

// Six blocks cannot reach 5 % after a correction for a large family: the
// report must say so instead of hiding the effect or the lack of correction.
func TestTooFewBlocksForTheFamily(t *testing.T) {
	t.Parallel()
	m := build(t, 6, nil)
	if c := m.Comparison("envoy", "steady", "response.p50"); c.Verdict != report.VerdictDifferent {
		t.Errorf("got %+v", c)
	}
	for _, f := range m.Findings {
		if f.Rule == "many comparisons uncorrected" {
			return
		}
	}
	t.Errorf("no finding says that the verdicts are uncorrected: %+v", m.Findings)
}

// Invalid trials are shown, and used for nothing.
func TestInvalidTrialsAreNotUsed(t *testing.T) {
	t.Parallel()
	m := build(t, 10, func(o *model.Outcome) {
		if o.Trial.Variant == "envoy" && o.Trial.Block == 3 {
			o.Load.Sent = 100
		}
	})
	c := m.Cell("envoy", "steady", "response.p50")
	if len(c.Values) != 10 || c.Estimate.N != 9 {
		t.Errorf("%d values shown, %d used; want 10 and 9", len(c.Values), c.Estimate.N)
	}
	if d := m.Comparison("envoy", "steady", "response.p50").Difference; d.N != 9 {
		t.Errorf("%d pairs, want 9", d.N)
	}
}

func TestNotAvailableIsNotZero(t *testing.T) {
	t.Parallel()
	m := build(t, 6, func(o *model.Outcome) { o.Samples, o.Unavailable = nil, []string{"CPU: not available here"} })
	c := m.Cell("envoy", "steady", "cpu.total")
	if c.Estimate != nil || c.Reason == "" {
		t.Errorf("got %+v", c)
	}
	if table := report.Tables(m)[0]; table.Rows[0][4] != "not available here" {
		t.Errorf("row %q", table.Rows[0])
	}
}

func TestCSVHoldsEveryValue(t *testing.T) {
	t.Parallel()
	m := build(t, 6, nil)
	var got bytes.Buffer
	if err := (csv.Format{}).Write(t.Context(), &got, m); err != nil {
		t.Fatal(err)
	}
	values := 0
	for _, c := range m.Cells {
		values += len(c.Values)
	}
	if lines := bytes.Count(got.Bytes(), []byte("\n")); lines != values+1 {
		t.Errorf("%d lines of %d values", lines, values)
	}
}

// Blocks whose trials broke leave too few pairs of one comparison: the study may
// not stop because the others are narrow.
func TestTooFewPairsAreNotNarrow(t *testing.T) {
	t.Parallel()
	if !build(t, 8, nil).Narrow(0.5) {
		t.Fatal("the whole study is not narrow")
	}
	m := build(t, 8, func(o *model.Outcome) {
		if o.Trial.Variant == "same" && o.Trial.Block <= 3 {
			o.Load, o.Failure = nil, &model.Failure{Step: "running the load", Error: "broken"}
		}
	})
	if m.Narrow(0.5) {
		t.Error("five pairs of one variant count as narrow")
	}
}
