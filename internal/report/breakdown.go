package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Breakdown is where the time of requests went, of one variant under one load.
// It comes from a trial of its own, in which requests were traced, and is no part
// of any result.
type Breakdown struct {
	Variant string `json:"variant"`
	Load    string `json:"load"`
	// N of the Traced requests are broken down; a proxy's record of the others is
	// missing.
	N      int      `json:"n"`
	Traced int      `json:"traced"`
	P50    *float64 `json:"p50_s,omitempty"` // service time
	P99    *float64 `json:"p99_s,omitempty"`
	// AtMedian is the mean service time of the requests about the median: from the
	// 45th to the 55th percentile. The parts' add up to it.
	AtMedian float64 `json:"at_median_s"`
	// Measured is the median service time of the results, to hold P50 against.
	Measured *Estimate       `json:"measured,omitempty"`
	Parts    []BreakdownPart `json:"parts"`
	// Notes say what is not explained, and how far the trial can be trusted.
	Notes  []string `json:"notes,omitempty"`
	Reason string   `json:"reason,omitempty"` // why there are no parts
}

// BreakdownPart is one part of the way, in the order in which it is met. Kind is
// "proxy", "network", "app", "unexplained" or "parallel". N requests passed it,
// of which the quantiles are; quantiles of parts do not add up.
type BreakdownPart struct {
	Kind     string   `json:"kind"`
	Name     string   `json:"name"`
	Service  string   `json:"service,omitempty"`
	N        int      `json:"n"`
	P50      *float64 `json:"p50_s,omitempty"`
	P99      *float64 `json:"p99_s,omitempty"`
	Start    float64  `json:"start_s"` // where it begins in the waterfall
	AtMedian float64  `json:"at_median_s"`
}

// breakdowns are those of the trials that have traced requests.
func (b *builder) breakdowns(broken []model.Outcome, m *Model) []Breakdown {
	var all []Breakdown
	for _, l := range b.study.Loads {
		for _, v := range b.study.Variants {
			for i := range broken {
				o := &broken[i]
				if o.Trial.Variant == v.Name && o.Trial.Load == l.Name {
					all = append(all, breakdownOf(o, m))
				}
			}
		}
	}
	return all
}

func breakdownOf(o *model.Outcome, m *Model) Breakdown {
	out := Breakdown{Variant: o.Trial.Variant, Load: o.Trial.Load, Parts: []BreakdownPart{}}
	if c := m.Cell(out.Variant, out.Load, "service.p50"); c != nil {
		out.Measured = c.Estimate
	}
	switch {
	case o.Failure != nil:
		out.Reason = "the trial failed while " + o.Failure.Step + ": " + o.Failure.Error
	case o.Breakdown == nil || o.Breakdown.Traced == 0:
		out.Reason = "no traced request succeeded"
	case len(o.Breakdown.Total) == 0:
		out.Traced, out.Reason = o.Breakdown.Traced, "of every traced request a proxy's record is missing"
	}
	if out.Reason != "" {
		return out
	}
	s := metric.SharesOf(o.Breakdown)
	out.N, out.Traced, out.AtMedian, out.P50, out.P99 = s.N, s.Traced, s.AtMedian, known(s.P50), known(s.P99)
	var at float64
	for _, p := range s.Parts {
		start := at
		at += p.AtMedian
		out.Parts = append(out.Parts, BreakdownPart{
			Kind: string(p.Kind), Name: p.Name, Service: p.Service, N: p.N, P50: known(p.P50), P99: known(p.P99),
			Start: start, AtMedian: p.AtMedian,
		})
	}
	out.Notes = out.notes()
	if o.Load != nil && o.Load.Succeeded < o.Load.Due {
		out.Notes = append(out.Notes, fmt.Sprintf("Of %d requests of the trial %d did not succeed: what is shown is of the others.", o.Load.Due, o.Load.Due-o.Load.Succeeded))
	}
	return out
}

func known(q metric.Quantiled) *float64 {
	if !q.Known {
		return nil
	}
	return &q.Value
}

// Waterfall is a breakdown for the text formats.
type Waterfall struct {
	Table

	Notes []string
}

// Waterfalls are those of a model, with bars so many characters wide.
func Waterfalls(m *Model, room int) []Waterfall {
	var all []Waterfall
	for i := range m.Breakdowns {
		all = append(all, m.Breakdowns[i].waterfall(room))
	}
	if n := len(all); n > 0 {
		all[n-1].Notes = append(all[n-1].Notes, "Each part holds the way there and back. "+
			"Network is from one program's stamp to another's: the kernels at both ends, waking up and waiting for a CPU are in it.")
	}
	return all
}

func (b *Breakdown) waterfall(room int) Waterfall {
	w := Waterfall{Table: Table{
		Title: fmt.Sprintf("Where time goes: %s under %s", b.Variant, b.Load),
		Order: []int{0, 1, 2, 3, 4, 5},
	}}
	if b.Reason != "" {
		w.Caption = "not broken down: " + b.Reason
		return w
	}
	w.Caption = fmt.Sprintf("mean of the requests about the median; %d traced in a trial of their own, outside the results", b.N)
	w.Header = []string{"", "time", "share", "waterfall", "p50", "p99"}
	for _, p := range b.Parts {
		w.Rows = append(w.Rows, []string{
			p.Name, FormatValue(metric.UnitSeconds, p.AtMedian), b.share(p.AtMedian), b.bar(p, room), maybe(p.P50), maybe(p.P99),
		})
	}
	if !slices.ContainsFunc(b.Parts, func(p BreakdownPart) bool { return p.P99 != nil }) {
		w.Order = w.Order[:5] // too few requests for any
	}
	w.Rows = append(w.Rows, []string{"all of it", FormatValue(metric.UnitSeconds, b.AtMedian), b.share(b.AtMedian), "", maybe(b.P50), maybe(b.P99)})
	w.Notes = b.Notes
	return w
}

func maybe(v *float64) string {
	if v == nil {
		return "-"
	}
	return FormatValue(metric.UnitSeconds, *v)
}

// share is a part of the whole, in whole per cent.
func (b *Breakdown) share(v float64) string {
	if b.AtMedian == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*v/b.AtMedian) //nolint:mnd // per cent
}

// bar is a part's place in the whole: full where it is known what spends the
// time, light where it is not.
func (b *Breakdown) bar(p BreakdownPart, room int) string {
	if b.AtMedian <= 0 {
		return ""
	}
	at := func(v float64) int { return int(math.Round(min(max(v/b.AtMedian, 0), 1) * float64(room))) }
	from, to := at(min(p.Start, p.Start+p.AtMedian)), at(max(p.Start, p.Start+p.AtMedian))
	mark, least := "█", "▏"
	switch model.PartKind(p.Kind) {
	case model.PartUnexplained:
		mark, least = "░", "░"
	case model.PartParallel:
		mark, least = "‹", "‹"
	case model.PartApp, model.PartNetwork, model.PartProxy:
	}
	if from = min(from, room-1); to <= from {
		return strings.Repeat(" ", from) + least
	}
	return strings.Repeat(" ", from) + strings.Repeat(mark, to-from)
}

func (b *Breakdown) notes() []string {
	var medians float64
	sums := map[model.PartKind]float64{}
	for _, p := range b.Parts {
		sums[model.PartKind(p.Kind)] += p.AtMedian
		if p.P50 != nil {
			medians += *p.P50
		}
	}
	var parts, notes []string
	for _, kind := range []model.PartKind{model.PartProxy, model.PartNetwork, model.PartApp} {
		if sum, passed := sums[kind]; passed {
			parts = append(parts, fmt.Sprintf("%s %s (%s)", kind, FormatValue(metric.UnitSeconds, sum), b.share(sum)))
		}
	}
	if len(parts) > 0 && len(b.Parts) > len(parts) { // else it is the table once more
		notes = append(notes, "In sum: "+strings.Join(parts, ", ")+".")
	}
	if dark := sums[model.PartUnexplained]; dark != 0 {
		notes = append(notes, fmt.Sprintf("Unexplained: %s, %s. No stamp says how much of it is kernel, loopback, redirection or waiting for a CPU.",
			FormatValue(metric.UnitSeconds, dark), b.share(dark)))
	}
	if b.P50 != nil {
		text := fmt.Sprintf("The parts' own medians come to %s, the requests' median is %s: medians do not add up.",
			FormatValue(metric.UnitSeconds, medians), maybe(b.P50))
		if b.Measured != nil {
			text += fmt.Sprintf(" In the results it is %s: tracing and the host's noise are what lies between.", FormatEstimate(metric.UnitSeconds, *b.Measured))
		}
		notes = append(notes, text)
	}
	if b.N < b.Traced {
		notes = append(notes, fmt.Sprintf("Left out: %d of %d traced requests, of which a proxy's record is missing.", b.Traced-b.N, b.Traced))
	}
	return notes
}
