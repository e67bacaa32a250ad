// Package compare sets two runs of one study beside each other: what differs
// between them besides the declared factor, and how every primary metric
// changed. It is the regression gate of `windtunnel compare`.
package compare

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/manifest"
	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/report"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/store"
)

// Schema is the version of Result that this program writes.
const Schema = 1

// Verdicts of a comparison of two runs.
const (
	Regression  = "regression"  // shown to be worse, by more than is allowed
	Improvement = "improvement" // shown to be better
	None        = "~"           // neither
	Unknown     = "unknown"     // cannot be told; Reason says why
)

// ratesDiffer is how far, as a share, two calibrated rates may be apart for
// results under them to be compared.
const ratesDiffer = 0.01

// Side is one run, with its results and what it was made of.
type Side struct {
	Run      *store.Run
	Model    *report.Model
	Manifest manifest.Manifest
}

// Result is the comparison of two runs: A is before, B after. Values are in SI
// units.
type Result struct {
	Schema  int               `json:"schema"`
	Study   string            `json:"study"`
	A       Run               `json:"a"`
	B       Run               `json:"b"`
	Factor  manifest.Factor   `json:"factor"`
	Allow   float64           `json:"allow"` // share by which a metric may get worse
	Level   float64           `json:"level"`
	Changes []manifest.Change `json:"changes"`
	// Undeclared says that something else than the factor differs, and that the
	// comparison was asked for anyway.
	Undeclared bool `json:"undeclared"`
	// Corrected says that p-values were corrected by Holm; without, so few blocks
	// could not have shown anything in so large a family.
	Corrected   bool         `json:"corrected"`
	Comparisons []Comparison `json:"comparisons"`
}

// Run is one of the two.
type Run struct {
	Dir     string    `json:"dir"`
	ID      string    `json:"id"`
	Started time.Time `json:"started"`
	Version string    `json:"version"`
	Blocks  int       `json:"blocks"`
}

// Comparison is one primary metric of one variant under one load.
type Comparison struct {
	Variant    string           `json:"variant"`
	Load       string           `json:"load"`
	Metric     string           `json:"metric"`
	Unit       metric.Unit      `json:"unit"`
	A          *report.Estimate `json:"a,omitempty"`
	B          *report.Estimate `json:"b,omitempty"`
	Difference *report.Estimate `json:"difference,omitempty"` // B - A
	Ratio      *report.Estimate `json:"ratio,omitempty"`      // B / A
	P          float64          `json:"p"`
	PHolm      float64          `json:"p_holm"`
	// Floor is the larger of both runs' noise floors, an absolute difference.
	Floor float64 `json:"floor"`
	// Worse is the unfavourable end of the change, as a share of A: 0.03 says
	// that it may have got 3 % worse. nil: A is zero, and B is worse.
	Worse *float64 `json:"worse,omitempty"`
	// RuledOut says that a change for the worse beyond what is allowed is not
	// within the interval.
	RuledOut bool   `json:"ruled_out"`
	Verdict  string `json:"verdict"`
	Reason   string `json:"reason,omitempty"`
}

// Runs compares the primary metrics of every variant but the control under
// every load that both runs have. Between runs nothing is paired: intervals and
// p-values are Mann and Whitney's.
func Runs(a, b *Side, factor manifest.Factor, allow float64) Result {
	r := Result{
		Schema: Schema, Study: b.Model.Name, A: describe(a), B: describe(b), Factor: factor, Allow: allow, Level: stats.Level,
		Changes: manifest.Diff(a.Manifest, b.Manifest), Comparisons: []Comparison{},
	}
	r.Undeclared = len(manifest.Undeclared(r.Changes, factor)) > 0
	for _, v := range b.Model.Variants {
		for _, l := range b.Model.Loads {
			for _, m := range b.Model.Metrics {
				if !v.Control && m.Primary && (a.Model.Cell(v.Name, l.Name, m.Name) != nil || b.Model.Cell(v.Name, l.Name, m.Name) != nil) {
					r.Comparisons = append(r.Comparisons, compare(a, b, v.Name, l.Name, m))
				}
			}
		}
	}
	r.judge()
	return r
}

func describe(s *Side) Run {
	return Run{Dir: s.Run.Dir, ID: s.Model.Run.ID, Started: s.Model.Run.Started, Version: s.Model.Run.Version, Blocks: s.Model.Run.Blocks}
}

// compare estimates; the verdict needs the whole family.
func compare(a, b *Side, variant, load string, m report.Metric) Comparison {
	c := Comparison{Variant: variant, Load: load, Metric: m.Name, Unit: metric.Unit(m.Unit), P: 1, PHolm: 1, Verdict: Unknown}
	ca, cb := a.Model.Cell(variant, load, m.Name), b.Model.Cell(variant, load, m.Name)
	for _, cell := range []*report.Cell{ca, cb} {
		switch {
		case cell == nil:
			c.Reason = "only one of the runs has it"
		case cell.Estimate == nil:
			c.Reason = cell.Reason
		case cell.Pooled:
			c.Reason = "one trial has fewer than ten samples beyond this quantile: not compared"
		}
	}
	if ca != nil && cb != nil {
		c.A, c.B = ca.Estimate, cb.Estimate
	}
	if c.Reason == "" {
		c.Reason = ratesApart(a.Run.Frozen, b.Run.Frozen, variant, load)
	}
	if c.Reason != "" {
		return c
	}
	s, err := stats.Unpaired(values(ca), values(cb))
	if err != nil {
		c.Reason = err.Error()
		return c
	}
	c.Verdict, c.P = None, s.P
	c.Difference = estimate(s.Difference)
	if s.NoRatio == nil {
		c.Ratio = estimate(s.Ratio)
	}
	c.Floor = max(floor(a.Model, load, m.Name), floor(b.Model, load, m.Name))
	c.Worse = worse(&c, m.Better)
	return c
}

// values are those of the trials that may be used.
func values(c *report.Cell) []float64 {
	var all []float64
	for _, v := range c.Values {
		if !v.Invalid {
			all = append(all, v.Value)
		}
	}
	return all
}

func estimate(e stats.Estimate) *report.Estimate {
	return &report.Estimate{Value: e.Value, Lo: e.Lo, Hi: e.Hi, N: e.N, Method: e.Method}
}

// floor is what the run's own A/A control shows of the metric.
func floor(m *report.Model, load, name string) float64 {
	for _, v := range m.Variants {
		if !v.Control {
			continue
		}
		if c := m.Comparison(v.Name, load, name); c != nil {
			return c.Floor
		}
	}
	return 0
}

// ratesApart says that a load which is a share of another's result had another
// rate in each run: its results are of two different loads.
func ratesApart(a, b *model.Frozen, variant, load string) string {
	rate := func(f *model.Frozen) float64 {
		if f == nil {
			return 0
		}
		i := slices.IndexFunc(f.Rates, func(r model.FrozenRate) bool { return r.Load == load && r.Variant == variant })
		if i < 0 {
			return 0
		}
		return f.Rates[i].Rate
	}
	ra, rb := rate(a), rate(b)
	if math.Abs(ra-rb) <= ratesDiffer*max(ra, rb) {
		return ""
	}
	return fmt.Sprintf("the calibration gave the load %g/s in one run and %g/s in the other: give it a fixed rate", ra, rb)
}

// worse is the unfavourable end of the change as a share.
func worse(c *Comparison, better string) *float64 {
	higher := better == string(metric.BetterHigher)
	share := 0.0
	switch {
	case c.Ratio != nil && higher:
		share = 1 - c.Ratio.Lo
	case c.Ratio != nil:
		share = c.Ratio.Hi - 1
	default:
		end := c.Difference.Hi
		if higher {
			end = -c.Difference.Lo
		}
		if c.A.Value == 0 && end > 0 {
			return nil
		}
		share = end / max(math.Abs(c.A.Value), math.SmallestNonzeroFloat64)
	}
	return &share
}

// judge corrects the p-values of the family and gives the verdicts: a
// regression is shown (the interval does not hold zero, the estimate is outside
// the noise floor, and p is at most 5 %), and its unfavourable end is beyond
// what is allowed.
func (r *Result) judge() {
	var family []*Comparison
	var p []float64
	smallest := 1.0
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		if c.Verdict != Unknown {
			family, p = append(family, c), append(p, c.P)
			smallest = min(smallest, stats.SmallestRankSumP(c.A.N, c.B.N))
		}
	}
	r.Corrected = smallest*float64(len(p)) <= 1-stats.Level
	for i, corrected := range stats.Holm(p) {
		c := family[i]
		c.PHolm = corrected
		judged := corrected
		if !r.Corrected {
			judged = c.P
		}
		c.RuledOut = c.Worse != nil && *c.Worse <= r.Allow
		d := stats.Estimate{Value: c.Difference.Value, Lo: c.Difference.Lo, Hi: c.Difference.Hi}
		if stats.Judge(stats.Comparison{Difference: d, P: judged}, c.Floor, false) != stats.VerdictDifferent {
			continue
		}
		m, _ := metric.Lookup(c.Metric)
		gotWorse := (d.Value > 0) == (m.Better == metric.BetterLower)
		switch {
		case !gotWorse:
			c.Verdict = Improvement
		case !c.RuledOut:
			c.Verdict = Regression
		}
	}
}

// Regressions is how many comparisons show one.
func (r Result) Regressions() int {
	return r.count(func(c Comparison) bool { return c.Verdict == Regression })
}

// Open is how many comparisons show no regression and cannot rule out one
// beyond what is allowed.
func (r Result) Open() int {
	return r.count(func(c Comparison) bool { return c.Verdict != Regression && !c.RuledOut })
}

func (r Result) count(is func(Comparison) bool) int {
	n := 0
	for _, c := range r.Comparisons {
		if is(c) {
			n++
		}
	}
	return n
}
