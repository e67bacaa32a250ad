// Package openmetrics writes a run as OpenMetrics text: histograms, counters
// and every metric of every trial, and the report's estimates.
package openmetrics

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/report"
)

// Format is the text format of OpenMetrics 1.0.
type Format struct{}

// writer writes families one after the other.
type writer struct{ b strings.Builder }

// Write writes the run; each trial's samples bear the time of its end.
func (Format) Write(_ context.Context, w io.Writer, m *report.Model) error {
	out := &writer{}
	out.run(m)
	out.counters(m)
	for _, k := range []struct {
		name, help string
		of         func(*model.LoadResult) *hist.Histogram
	}{
		{"response", "Response time of successes, from when a request was due.", func(r *model.LoadResult) *hist.Histogram { return r.Response }},
		{"service", "Service time of successes, from when a request was sent.", func(r *model.LoadResult) *hist.Histogram { return r.Service }},
		{"failed_response", "Response time of failures.", func(r *model.LoadResult) *hist.Histogram { return r.FailedResponse }},
	} {
		out.histograms(m, "windtunnel_"+k.name+"_seconds", k.help, k.of)
	}
	out.trials(m)
	out.estimates(m)
	out.differences(m)
	out.gates(m)
	out.b.WriteString("# EOF\n")
	if _, err := io.WriteString(w, out.b.String()); err != nil {
		return fmt.Errorf("writing OpenMetrics: %w", err)
	}
	return nil
}

func (w *writer) family(name, kind, unit, help string) {
	fmt.Fprintf(&w.b, "# TYPE %s %s\n", name, kind)
	if unit != "" {
		fmt.Fprintf(&w.b, "# UNIT %s %s\n", name, unit)
	}
	fmt.Fprintf(&w.b, "# HELP %s %s\n", name, escape(help))
}

// sample writes one line. labels are names and values in turn.
func (w *writer) sample(name string, value float64, at time.Time, labels ...string) {
	w.b.WriteString(name)
	for i := 0; i+1 < len(labels); i += 2 {
		sign := byte(',')
		if i == 0 {
			sign = '{'
		}
		w.b.WriteByte(sign)
		w.b.WriteString(labels[i] + `="` + escape(labels[i+1]) + `"`)
	}
	if len(labels) > 0 {
		w.b.WriteByte('}')
	}
	w.b.WriteString(" " + strconv.FormatFloat(value, 'g', -1, 64))
	if !at.IsZero() {
		const milli = 1000
		w.b.WriteString(" " + strconv.FormatFloat(float64(at.UnixMilli())/milli, 'f', 3, 64))
	}
	w.b.WriteByte('\n')
}

func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(s, "\uFFFD"))
}

func (w *writer) run(m *report.Model) {
	w.family("windtunnel_run", "info", "", "The run that these samples are of.")
	w.sample("windtunnel_run_info", 1, time.Time{}, "run", m.Run.ID, "study", m.Name, "baseline", m.Run.Baseline, "plan_digest", m.Run.PlanDigest, "version", m.Run.Version)
}

// end is when a trial's window closed, as far as the report knows: its start
// and the length of its window. Warm-up and deployment are not in it.
func end(r report.Result) time.Time { return r.Started.Add(r.Load.Elapsed) }

func of(t report.Trial) []string {
	return []string{"variant", t.Variant, "load", t.Load, "trial", strconv.Itoa(t.Index), "block", strconv.Itoa(t.Block), "state", t.State}
}

func (w *writer) counters(m *report.Model) {
	w.family("windtunnel_requests", "counter", "", "Requests that were due in the measured window, by what came of them.")
	for _, r := range m.Results {
		l := r.Load
		if l.Due == 0 {
			continue
		}
		w.sample("windtunnel_requests_total", float64(l.Succeeded), end(r), append(of(r.Trial), "result", "succeeded")...)
		for _, cause := range sortedCauses(l.Failed) {
			w.sample("windtunnel_requests_total", float64(l.Failed[cause]), end(r), append(of(r.Trial), "result", string(cause))...)
		}
		w.sample("windtunnel_requests_total", float64(l.Unsent), end(r), append(of(r.Trial), "result", "unsent")...)
	}
}

func sortedCauses(failed map[model.Cause]uint64) []model.Cause {
	var all []model.Cause
	for c := range failed {
		all = append(all, c)
	}
	slices.Sort(all)
	return all
}

// limits are the buckets' upper ends: 10 µs to 100 s, a third of a decade or
// less apart, the same for all, so that they can be summed.
func limits() []time.Duration {
	var all []time.Duration
	for micro := int64(1); micro < 100_000_000/10; micro *= 10 {
		for _, step := range []int64{10, 15, 20, 30, 50, 70} {
			all = append(all, time.Duration(micro*step)*time.Microsecond)
		}
	}
	return append(all, 100*time.Second)
}

func (w *writer) histograms(m *report.Model, name, help string, pick func(*model.LoadResult) *hist.Histogram) {
	w.family(name, "histogram", "seconds", help)
	for _, r := range m.Results {
		h := pick(&r.Load)
		if h == nil || h.Count() == 0 {
			continue
		}
		labels := of(r.Trial)
		for _, limit := range limits() {
			w.sample(name+"_bucket", float64(h.Count()-h.Above(limit)), end(r), append(labels, "le", le(limit))...)
		}
		w.sample(name+"_bucket", float64(h.Count()), end(r), append(labels, "le", "+Inf")...)
		w.sample(name+"_count", float64(h.Count()), end(r), labels...)
		w.sample(name+"_sum", h.Mean().Seconds()*float64(h.Count()), end(r), labels...)
	}
}

// le writes floats as OpenMetrics asks: whole numbers end in ".0".
func le(limit time.Duration) string {
	text := strconv.FormatFloat(limit.Seconds(), 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}

// name is a metric's in OpenMetrics' letters, with its unit at the end.
func name(d report.Metric, what string) (family, unit string) {
	unit = map[string]string{
		"s": "seconds", "/s": "per_second", "share": "ratio", "s/1k requests": "seconds_per_1000_requests", "s/Gbit": "seconds_per_gigabit", "s/1k packets": "seconds_per_1000_packets",
		"bytes": "bytes", "bit/s": "bits_per_second", "/GB": "per_gigabyte",
	}[d.Unit]
	family = "windtunnel_" + what + "_" + strings.ReplaceAll(d.Name, ".", "_")
	if unit == "" { // a plain number
		return family, ""
	}
	return family + "_" + unit, unit
}

// trials are the metrics of every trial.
func (w *writer) trials(m *report.Model) {
	by := map[int]report.Result{}
	for _, r := range m.Results {
		by[r.Index] = r
	}
	for _, d := range m.Metrics {
		family, unit := name(d, "trial")
		begun := false
		for _, c := range m.Cells {
			for _, v := range c.Values {
				if c.Metric != d.Name {
					continue
				}
				if !begun {
					w.family(family, "gauge", unit, "Of each trial: "+d.Label+".")
					begun = true
				}
				w.sample(family, v.Value, end(by[v.Trial]), of(by[v.Trial].Trial)...)
			}
		}
	}
}

// estimates are what the report says: the value and its interval.
func (w *writer) estimates(m *report.Model) {
	for _, d := range m.Metrics {
		family, unit := name(d, "estimate")
		begun := false
		for _, c := range m.Cells {
			if c.Metric != d.Name || c.Estimate == nil {
				continue
			}
			if !begun {
				w.family(family, "gauge", unit, "Over all blocks, with the ends of its interval: "+d.Label+".")
				begun = true
			}
			w.bounds(family, *c.Estimate, "variant", c.Variant, "load", c.Load)
		}
	}
}

func (w *writer) bounds(family string, e report.Estimate, labels ...string) {
	for _, b := range []struct {
		name  string
		value float64
	}{{"value", e.Value}, {"lo", e.Lo}, {"hi", e.Hi}} {
		w.sample(family, b.value, time.Time{}, append(labels, "bound", b.name)...)
	}
}

// differences are comparisons with the baseline.
func (w *writer) differences(m *report.Model) {
	for _, d := range m.Metrics {
		family, unit := name(d, "difference")
		begun := false
		for _, c := range m.Comparisons {
			if c.Metric != d.Name || c.Difference == nil {
				continue
			}
			if !begun {
				w.family(family, "gauge", unit, "Against the baseline, paired by block, with the ends of its interval: "+d.Label+".")
				begun = true
			}
			w.bounds(family, *c.Difference, "variant", c.Variant, "load", c.Load, "verdict", c.Verdict)
		}
	}
}

func (w *writer) gates(m *report.Model) {
	if len(m.Gates) == 0 {
		return
	}
	w.family("windtunnel_gate_passed", "gauge", "", "Whether a gate of the study held: 1 or 0.")
	seen := map[string]bool{}
	for _, g := range m.Gates {
		load, _, _ := strings.Cut(g.Detail, ": ")
		if seen[g.Text+"\x00"+load] {
			continue // the same gate twice
		}
		seen[g.Text+"\x00"+load] = true
		passed := 0.0
		if g.Passed {
			passed = 1
		}
		w.sample("windtunnel_gate_passed", passed, time.Time{}, "gate", g.Text, "load", load)
	}
}
