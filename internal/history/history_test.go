package history_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/windtunnel/windtunnel/internal/history"
	"github.com/windtunnel/windtunnel/internal/manifest"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/report"
	"github.com/windtunnel/windtunnel/internal/simulate"
)

func side(t *testing.T, r simulate.Runs) *history.Side {
	t.Helper()
	run, err := r.Run()
	if err != nil {
		t.Fatal(err)
	}
	m, err := report.Build(run)
	if err != nil {
		t.Fatal(err)
	}
	all, err := manifest.New(run)
	if err != nil {
		t.Fatal(err)
	}
	return &history.Side{Run: run, Model: m, Manifest: all}
}

// runs are a run a day; from the sixth on the version is v2, and 30 % slower.
func runs(t *testing.T, n int) []*history.Side {
	t.Helper()
	all := make([]*history.Side, n)
	for i := range n {
		r := simulate.Runs{
			Noise: simulate.Noise{Trial: 0.01, Request: 0.3, Requests: 100}, Blocks: 6, Seed: uint64(i + 1), Name: fmt.Sprintf("run-%02d", i+1), Version: "v1",
			At: time.Date(2026, 1, i+1, 12, 0, 0, 0, time.UTC), Variants: []string{simulate.Baseline, simulate.Same}, Host: model.Host{Kernel: "6.1"},
		}
		if i >= 5 {
			r.Version, r.Factor, r.Host.Kernel = "v2", 1.3, "6.12"
		}
		all[n-1-i] = side(t, r) // not in time order
	}
	return all
}

func TestChangePointsHaveDateVersionAndSize(t *testing.T) {
	t.Parallel()
	r, err := history.New(runs(t, 11), history.Settings{Seed: 1, Alpha: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Runs) != 11 || r.Runs[0].ID != "run-01" || len(r.Series) != 2*4 || r.Left() != 0 {
		t.Fatalf("%d runs, %d series, %d left", len(r.Runs), len(r.Series), r.Left())
	}
	if len(r.Runs[0].Changes) != 1 || r.Runs[0].Changes[0].Name != "host.kernel" {
		t.Errorf("another kernel is not told: %+v", r.Runs[0].Changes)
	}
	for _, s := range r.Series {
		if len(s.Changes) != 1 || len(s.Points) != 11 {
			t.Errorf("%s %s: %+v", s.Variant, s.Metric, s.Changes)
			continue
		}
		c := s.Changes[0]
		if c.Point != 5 || c.Version != "v2" || c.Since != "v1" || c.Date.Day() != 6 || !c.Worse || c.Ratio == nil || c.Ratio.Value < 1.25 || c.Ratio.Value > 1.35 {
			t.Errorf("%s %s: %+v", s.Variant, s.Metric, c)
		}
		if len(c.Differs) != 2 {
			t.Errorf("between the runs differ %+v", c.Differs)
		}
	}
	formats(t, r)
}

func formats(t *testing.T, r *history.Result) {
	t.Helper()
	for format, wants := range map[string][]string{
		"text": {"11 runs, 8 series, 8 change points (8 for the worse)", "▁", "█", "* 2026-01-06 12:00  windtunnel v2 (was v1): worse\n", "B: v2", "run-01 differs from the last run"},
		"md":   {"## simulated", "### same under steady, response.p90", "* **change** 2026-01-06 12:00", "| change | 2026-01-06"},
		"json": {`"before": `, `"differs": `},
	} {
		var b bytes.Buffer
		if err := r.Write(&b, format, false); err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: no %q in\n%s", format, want, b.String())
			}
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 && format != "json" {
				t.Errorf("%s: a line of %d columns: %s", format, n, line)
			}
		}
		if format == "json" && !json.Valid(b.Bytes()) {
			t.Error("the JSON is none")
		}
	}
}

// A run that asks for something else is left out, and listed.
func TestOtherPlansAreLeftOut(t *testing.T) {
	t.Parallel()
	all := runs(t, 3)
	other := simulate.Runs{
		Noise: simulate.Noise{Trial: 0.01, Request: 0.3, Requests: 100}, Blocks: 6, Seed: 9, Name: "other", At: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC),
		Variants: []string{simulate.Baseline, simulate.Same}, Host: model.Host{Kernel: "6.1"}, Change: func(s *model.Study) { s.Loads[0].Rate = 500 },
	}
	all = append(all, side(t, other))
	r, err := history.New(all, history.Settings{Alpha: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	if r.Left() != 1 || !r.Runs[0].Left || len(r.Series[0].Points) != 3 || len(r.Series[0].Changes) != 0 {
		t.Errorf("%d left out, %+v", r.Left(), r.Runs[0])
	}
	var b bytes.Buffer
	if err = r.Write(&b, "text", true); err != nil || !strings.Contains(b.String(), "left out: it differs") || !strings.Contains(b.String(), "study.loads.steady.rate") {
		t.Errorf("%v in\n%s", err, b.String())
	}
	if r, err = history.New(all, history.Settings{Alpha: 0.01, Anyway: true}); err != nil || r.Left() != 0 || len(r.Series[0].Points) != 4 {
		t.Errorf("kept anyway: %v", err)
	}
	other.Change = func(s *model.Study) { s.Name = "another" }
	if _, err = history.New(append(all, side(t, other)), history.Settings{Alpha: 0.01}); err == nil || !strings.Contains(err.Error(), "another, simulated") {
		t.Errorf("two studies: %v", err)
	}
	if _, err = history.New(nil, history.Settings{}); err == nil {
		t.Error("no runs at all are a history")
	}
}

func TestSparkline(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		values []float64
		room   int
		want   string
	}{
		{[]float64{1, 2, 3}, 9, "▁▅█"},
		{[]float64{5, 5}, 9, "▁▁"},
		{[]float64{9, 1, 2}, 2, "▁█"}, // the last two
		{nil, 9, ""},
	} {
		if got := history.Sparkline(tt.values, tt.room); got != tt.want {
			t.Errorf("%v in %d is %q, want %q", tt.values, tt.room, got, tt.want)
		}
	}
}
