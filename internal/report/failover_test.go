package report_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/report"
	"github.com/windtunnel/windtunnel/internal/report/markdown"
	"github.com/windtunnel/windtunnel/internal/report/text"
)

// struck is an outcome in which a region dies from 2 s to 4 s of 6 s: nobody
// answers for the first half second, then the other region does.
func struck(o *model.Outcome) {
	const second = int64(time.Second)
	o.Window = model.Window{Start: second, End: 7 * second}
	o.Endpoints.Backends = []model.Backend{
		{Pod: "server-1", Identity: "west-1", Region: "west"},
		{Pod: "server-0", Identity: "east-0", Region: "east", Nearest: true},
	}
	o.Faults = []model.FaultRecord{{
		Event:       model.FaultEvent{Fault: model.PluginRef{Kind: "kill"}, At: 2 * time.Second, Heal: 4 * time.Second},
		InjectStart: 3 * second, InjectEnd: 3*second + 1e6, HealStart: 5 * second, HealEnd: 5*second + 1e8, Struck: []string{"server-0"},
	}}
	t := &model.Trace{Responders: []string{"east-0", "west-1"}, Causes: []model.Cause{model.CauseRefused}}
	for due := time.Duration(0); due < 6*time.Second; due += 10 * time.Millisecond {
		who, took := 0, 500*time.Microsecond
		switch {
		case due >= 2*time.Second && due < 2500*time.Millisecond:
			who, took = -2, 100*time.Microsecond
		case due >= 2500*time.Millisecond && due < 4*time.Second:
			who, took = 1, 40*time.Millisecond
		}
		t.Due, t.Response, t.Who = append(t.Due, due.Microseconds()), append(t.Response, took.Microseconds()), append(t.Who, who)
	}
	o.Load.Trace, o.Load.Elapsed = t, 6*time.Second
	o.Load.Responders = map[string]uint64{"east-0": 400, "west-1": 150}
	o.Load.Rate, o.Load.Due, o.Load.Sent, o.Load.Succeeded, o.Load.Failed = 100, 600, 600, 550, map[model.Cause]uint64{model.CauseRefused: 50}
}

func buildStruck(t *testing.T, spoil func(o *model.Outcome)) *report.Model {
	t.Helper()
	s := testStudy(6)
	s.Faults = []model.Scenario{{Name: "crash", Events: []model.FaultEvent{{Fault: model.PluginRef{Kind: "kill"}, At: 2 * time.Second, Heal: 4 * time.Second}}}}
	s.Loads[0].Fault, s.Loads[0].Duration, s.Loads[0].Rate = "crash", 6*time.Second, 100
	s.Gates = nil
	return buildStudy(t, s, func(o *model.Outcome) {
		struck(o)
		if spoil != nil {
			spoil(o)
		}
	})
}

func TestFailover(t *testing.T) {
	t.Parallel()
	m := buildStruck(t, nil)
	if len(m.Failovers) != len(m.Trials) {
		t.Fatalf("%d failovers of %d trials", len(m.Failovers), len(m.Trials))
	}
	f := m.Failovers[0]
	if diff := cmp.Diff([]report.Answerer{{Name: "east", Home: true}, {Name: "west"}}, f.Answerers); diff != "" {
		t.Error(diff)
	}
	want := report.Harm{Kind: "kill", Struck: []string{"server-0"}, Injected: &report.Span{From: 2, To: 2.001}, Healed: &report.Span{From: 4, To: 4.1}}
	if diff := cmp.Diff([]report.Harm{want}, f.Harms); diff != "" {
		t.Error(diff)
	}
	if len(f.Failed) != 60 || f.SlotWidth != 0.1 {
		t.Fatalf("%d slots of %g s", len(f.Failed), f.SlotWidth)
	}
	for _, c := range []struct {
		slot               int
		east, west, failed uint64
		median             float64
	}{{0, 10, 0, 0, 500e-6}, {20, 0, 0, 10, 0}, {25, 0, 10, 0, 0.04}, {40, 10, 0, 0, 500e-6}} {
		if e, w, bad, med := f.Answered[0][c.slot], f.Answered[1][c.slot], f.Failed[c.slot], f.Median[c.slot]; e != c.east || w != c.west || bad != c.failed || med != c.median {
			t.Errorf("slot %d: east %d, west %d, failed %d, median %g", c.slot, e, w, bad, med)
		}
	}
}

// What a slot shows adds up to the trace, whatever the window's length.
func TestFailoverLosesNothing(t *testing.T) {
	t.Parallel()
	for _, window := range []time.Duration{6 * time.Second, 5 * time.Minute} {
		m := buildStruck(t, func(o *model.Outcome) { o.Window.End = o.Window.Start + window.Nanoseconds() })
		f := m.Failovers[0]
		var all uint64
		for i, n := range f.Failed {
			all += n + f.Answered[0][i] + f.Answered[1][i]
		}
		if all != 600 || len(f.Failed) > 240 {
			t.Errorf("a window of %s: %d of 600 requests in %d slots", window, all, len(f.Failed))
		}
	}
}

func TestFailoverNames(t *testing.T) {
	t.Parallel()
	servers := buildStruck(t, func(o *model.Outcome) {
		for i := range o.Endpoints.Backends {
			o.Endpoints.Backends[i].Region, o.Endpoints.Backends[i].Nearest = "east", true
		}
		o.Load.Trace.Responders[1] = "a stranger"
		o.Faults[0].Event.Heal = 0
		o.Faults[0].HealStart, o.Faults[0].HealEnd = o.Window.End+1, o.Window.End+2
	})
	want := []report.Answerer{{Name: "east-0", Home: true}, {Name: "west-1", Home: true}, {Name: "not known"}}
	if diff := cmp.Diff(want, servers.Failovers[0].Answerers); diff != "" {
		t.Error(diff)
	}
	if h := servers.Failovers[0].Harms[0]; h.Healed != nil {
		t.Errorf("healed %v, but it was undone when the load had ended", h.Healed)
	}
}

func TestStrips(t *testing.T) {
	t.Parallel()
	m := buildStruck(t, nil)
	all := report.StripsOf(m, 60)
	if len(all) != 1 || len(all[0].Lines) != 4 {
		t.Fatalf("%d strips; %v", len(all), m.Findings[:1])
	}
	want := strings.Repeat("·", 20) + "X|XXXX" + strings.Repeat("o", 15) + "·|" + strings.Repeat("·", 19)
	if got := all[0].Lines[0][1]; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if narrow := report.StripsOf(m, 10)[0].Lines[0][1]; len([]rune(narrow)) != 12 {
		t.Errorf("%q is not 10 characters and 2 lines", narrow)
	}
	if none := report.StripsOf(build(t, 6, nil), 60); len(none) != 0 {
		t.Errorf("strips without a fault: %v", none)
	}
	for _, f := range []report.Format{text.Format{}, markdown.Format{}} {
		var out bytes.Buffer
		if err := f.Write(t.Context(), &out, m); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("%T has no strip:\n%s", f, out.String())
		}
	}
}

// Failures are what a load under a fault is there to count: they are explained,
// not doubted.
func TestFailuresUnderAFaultAreExpected(t *testing.T) {
	t.Parallel()
	found := false
	for _, f := range buildStruck(t, nil).Findings {
		if f.Rule == "requests failed" {
			found = true
			if f.Severity != model.SeverityNote {
				t.Errorf("%s: %s", f.Severity, f.Evidence)
			}
		}
	}
	if !found {
		t.Error("nothing says that requests failed")
	}
}
