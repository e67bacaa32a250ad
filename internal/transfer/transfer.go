// Package transfer sets two runs of one study on different targets beside each
// other, such as the lab and a cluster, and says which orderings and ratios
// carried over. Absolute values are not compared: they belong to their hosts.
package transfer

import (
	"math"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/report"
)

// Schema is the version of Result that this program writes.
const Schema = 1

// What became of an ordering: which of a variant and the baseline is better.
const (
	OrderSame     = "carried over" // both runs show the same
	OrderReversed = "reversed"     // both show one, and not the same
	OrderNeither  = "none shown"   // neither shows one
	OrderOne      = "one only"     // one run shows one
	OrderUnknown  = "unknown"      // cannot be told; Reason says why
)

// What became of a ratio to the baseline.
const (
	RatioSame    = "carried over" // the same within the margin
	RatioDiffers = "differs"      // shown to be another
	RatioOpen    = "open"         // neither is shown: the intervals are too wide
	RatioUnknown = "unknown"      // there is none
)

// Result is what carried over from run A to run B.
type Result struct {
	Schema int     `json:"schema"`
	Study  string  `json:"study"`
	A      Run     `json:"a"`
	B      Run     `json:"b"`
	Margin float64 `json:"margin"` // share within which ratios count as the same
	// Missing are variants and loads that only one run has, e.g. because a layer
	// needs the lab.
	Missing []string `json:"missing,omitempty"`
	Rows    []Row    `json:"rows"`
}

// Run is one of the two.
type Run struct {
	ID      string    `json:"id"`
	Target  string    `json:"target"`
	Started time.Time `json:"started"`
	Blocks  int       `json:"blocks"`
	Machine string    `json:"machine"`
}

// Row is one primary metric of one variant, against the baseline, under one load.
type Row struct {
	Variant string      `json:"variant"`
	Load    string      `json:"load"`
	Metric  string      `json:"metric"`
	Unit    metric.Unit `json:"unit"`
	// A and B are the ratios to the baseline, and ValueA and ValueB the variant's
	// own estimates, for orientation.
	A      *report.Estimate `json:"a,omitempty"`
	B      *report.Estimate `json:"b,omitempty"`
	ValueA *report.Estimate `json:"value_a,omitempty"`
	ValueB *report.Estimate `json:"value_b,omitempty"`
	Order  string           `json:"order"`
	Ratio  string           `json:"ratio"`
	// Change is B's ratio over A's, with its interval.
	Change *report.Estimate `json:"change,omitempty"`
	Reason string           `json:"reason,omitempty"`
}

// Runs sets run B beside run A. margin is the share within which two ratios
// count as the same.
func Runs(a, b *report.Model, margin float64) Result {
	r := Result{Schema: Schema, Study: a.Name, A: describe(a), B: describe(b), Margin: margin, Rows: []Row{}}
	r.Missing = missing(a, b)
	for _, v := range a.Variants {
		for _, l := range a.Loads {
			for _, m := range a.Metrics {
				if v.Control || v.Baseline || !m.Primary {
					continue
				}
				ca, cb := find(a, v.Name, l.Name, m.Name), find(b, v.Name, l.Name, m.Name)
				if ca == nil || cb == nil {
					continue
				}
				r.Rows = append(r.Rows, row(a, b, ca, cb, metric.Unit(m.Unit), margin))
			}
		}
	}
	return r
}

func describe(m *report.Model) Run {
	run := Run{ID: m.Run.ID, Target: m.Run.Target, Started: m.Run.Started, Blocks: m.Run.Blocks}
	for _, p := range m.Provenance {
		if p.Key == "CPU" {
			run.Machine = p.Value
		}
	}
	return run
}

func find(m *report.Model, variant, load, name string) *report.Comparison {
	i := slices.IndexFunc(m.Comparisons, func(c report.Comparison) bool {
		return c.Variant == variant && c.Load == load && c.Metric == name
	})
	if i < 0 {
		return nil
	}
	return &m.Comparisons[i]
}

// missing names what only one run has.
func missing(a, b *report.Model) []string {
	var all []string
	names := func(m *report.Model) (all []string) {
		for _, v := range m.Variants {
			all = append(all, "variant "+v.Name)
		}
		for _, l := range m.Loads {
			all = append(all, "load "+l.Name)
		}
		return all
	}
	for _, side := range []struct{ one, other *report.Model }{{a, b}, {b, a}} {
		for _, n := range names(side.one) {
			if !slices.Contains(names(side.other), n) {
				all = append(all, n+" only in "+side.one.Run.Target)
			}
		}
	}
	return all
}

func row(a, b *report.Model, ca, cb *report.Comparison, unit metric.Unit, margin float64) Row {
	r := Row{Variant: ca.Variant, Load: ca.Load, Metric: ca.Metric, Unit: unit, A: ca.Ratio, B: cb.Ratio, Order: order(ca, cb)}
	r.ValueA, r.ValueB = value(a, ca), value(b, cb)
	for _, c := range []*report.Comparison{ca, cb} {
		if c.Reason != "" {
			r.Reason = c.Reason
		}
	}
	r.Ratio, r.Change = ratio(r.A, r.B, margin)
	return r
}

func value(m *report.Model, c *report.Comparison) *report.Estimate {
	if cell := m.Cell(c.Variant, c.Load, c.Metric); cell != nil {
		return cell.Estimate
	}
	return nil
}

// order says what became of the ordering.
func order(a, b *report.Comparison) string {
	shown := func(c *report.Comparison) bool { return c.Verdict == report.VerdictDifferent && c.Difference != nil }
	switch {
	case a.Verdict == report.VerdictUnknown || b.Verdict == report.VerdictUnknown:
		return OrderUnknown
	case shown(a) && shown(b) && (a.Difference.Value > 0) == (b.Difference.Value > 0):
		return OrderSame
	case shown(a) && shown(b):
		return OrderReversed
	case shown(a) || shown(b):
		return OrderOne
	}
	return OrderNeither
}

// ratio compares two ratios on a log scale. The runs are independent, so the
// variances of their logarithms add up; an interval's half-width stands for so
// many standard errors in both.
func ratio(a, b *report.Estimate, margin float64) (string, *report.Estimate) {
	for _, e := range []*report.Estimate{a, b} {
		if e == nil || !(e.Lo > 0) || !(e.Value > 0) || math.IsInf(e.Hi, 0) {
			return RatioUnknown, nil
		}
	}
	centre := math.Log(b.Value) - math.Log(a.Value)
	down := math.Hypot(math.Log(b.Value/b.Lo), math.Log(a.Hi/a.Value))
	up := math.Hypot(math.Log(b.Hi/b.Value), math.Log(a.Value/a.Lo))
	change := &report.Estimate{
		Value: math.Exp(centre), Lo: math.Exp(centre - down), Hi: math.Exp(centre + up), N: min(a.N, b.N),
		Method: "ratio of ratios, intervals of both combined on a log scale",
	}
	switch {
	case change.Lo > 1 || change.Hi < 1:
		if change.Lo > 1/(1+margin) && change.Hi < 1+margin {
			return RatioSame, change // another, and by less than matters
		}
		return RatioDiffers, change
	case change.Lo > 1/(1+margin) && change.Hi < 1+margin:
		return RatioSame, change
	}
	return RatioOpen, change
}

// Count is how many rows have an order and a ratio that came out like that.
func (r Result) Count(is func(Row) bool) int {
	n := 0
	for _, row := range r.Rows {
		if is(row) {
			n++
		}
	}
	return n
}
