package claims

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/windtunnel/windtunnel/internal/audit"
	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// State is what the runs say of one printed figure.
type State string

// The states.
const (
	Same    State = "same"              // to the printed digit
	Differs State = "differs"           // the runs at hand give another
	Missing State = "runs are missing"  // the runs at hand are fewer than the figure rests on
	Unknown State = "no raw data here"  // no run is of that row
	Several State = "row is not unique" // runs of several loads fit
)

// Cell is one printed figure and what the runs give for it.
type Cell struct {
	Row     string `json:"row"`
	Column  string `json:"column"`
	Metric  string `json:"metric"`
	Printed string `json:"printed"`
	Raw     string `json:"raw,omitempty"`
	Runs    int    `json:"runs"`
	State   State  `json:"state"`
	Note    string `json:"note,omitempty"`
}

// Match is a printed table held against runs.
type Match struct {
	Table string `json:"table"`
	Cells []Cell `json:"cells"`
	// Words are how words of the table were understood, "printed = of the runs".
	Words []string `json:"words,omitempty"`
	// Problems are of the table itself, by row.
	Problems []string `json:"problems,omitempty"`
}

// Count is how many figures are in a state.
func (m *Match) Count(s State) int {
	n := 0
	for _, c := range m.Cells {
		if c.State == s {
			n++
		}
	}
	return n
}

func (m *Match) verdict() (Verdict, string) {
	same, differs, missing := m.Count(Same), m.Count(Differs), m.Count(Missing)
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{
		{same, "are found again to the printed digit"},
		{differs, "do not match the raw data"},
		{missing, "rest on more runs than are at hand"},
		{m.Count(Unknown), "have no raw data here"},
		{m.Count(Several), "cannot be told apart from other rows"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	why := fmt.Sprintf("of %d figures, %s", len(m.Cells), strings.Join(parts, ", "))
	switch {
	case differs > 0:
		return Contradicted, why
	case same > 0:
		return Supported, why
	}
	return CannotTell, why
}

// Compare holds every figure of a table against the runs of its row. names says
// which word of the runs a word of the table stands for; others are found by
// likeness. runs is on how many repetitions the figures rest, 0 if not known.
func Compare(t Table, e audit.Evidence, names map[string]string, runs int) Match {
	m := Match{Table: t.Name}
	all := subjects(e)
	w := newMatcher(t, all, names)
	for _, r := range t.rows(w.isLoad) {
		for _, f := range r.figures {
			c := Cell{Row: r.label, Column: f.column, Metric: f.metric, Printed: f.text()}
			chosen, note, state := w.choose(r, f)
			c.Runs, c.Note, c.State = len(chosen), note, state
			if state == "" {
				compareFigure(&c, f, chosen, runs)
			}
			if f.odd != "" {
				m.Problems = append(m.Problems, fmt.Sprintf("%s: the unit of %q is none", r.label, f.text()))
			}
			m.Cells = append(m.Cells, c)
		}
		if note := w.rateConflict(r); note != "" {
			m.Problems = append(m.Problems, note)
		}
	}
	m.Words = w.explained
	return m
}

// compareFigure says whether the runs give what is printed.
func compareFigure(c *Cell, f figure, chosen []subject, runs int) {
	var values []float64
	for _, s := range chosen {
		if v, ok := s.forTable(f.metric); ok {
			values = append(values, v)
		}
	}
	switch {
	case len(values) == 0:
		c.State, c.Note = Unknown, "the runs do not tell it"
	case f.ranged:
		compareRange(c, f, values, runs)
	default:
		v := aggregate(f.metric, values)
		c.Raw, c.State = asPrinted(v, f.lo, f.metric), Same
		if !f.lo.is(v) {
			c.State, c.Note = Differs, off(f.lo.value, v)
			if digitsOf(c.Raw) == digitsOf(c.Printed) {
				c.Note += "; the same digits in another order"
			}
			excuse(c, f, chosen, v, runs)
		}
	}
}

func compareRange(c *Cell, f figure, values []float64, runs int) {
	lo, hi := slices.Min(values), slices.Max(values)
	c.Raw, c.State = asPrinted(lo, f.lo, f.metric)+" - "+asPrinted(hi, f.hi, f.metric), Same
	if f.lo.is(lo) && f.hi.is(hi) {
		return
	}
	c.State, c.Note = Differs, swapped(f, lo, hi)
	inside := lo >= f.lo.value-f.lo.digit/2 && hi <= f.hi.value+f.hi.digit
	if inside && runs != len(values) {
		c.State, c.Note = Missing, "all runs at hand lie inside; the ends are of others"
	}
}

// excuse says that runs which are not at hand can make a mean what is printed.
func excuse(c *Cell, f figure, chosen []subject, v float64, runs int) {
	if f.metric == "success" {
		if times := moreRequests(f.lo, chosen); times > 1 {
			c.State, c.Note = Missing, fmt.Sprintf("no number of successes among the requests at hand gives it; of %d times as many one does", times)
		}
	}
	n := len(chosen)
	if runs <= n || f.metric == "min" || f.metric == "max" {
		return
	}
	others := (f.lo.value*float64(runs) - v*float64(n)) / float64(runs-n)
	if others > 0 && (f.metric != "success" || others <= 1) {
		c.State, c.Note = Missing, fmt.Sprintf("%d of %d runs are at hand; the others would have to average %s", n, runs, asPrinted(others, f.lo, f.metric))
	}
}

// forTable is a metric as the tool printed it, if it did: tables are made of that.
func (s subject) forTable(name string) (float64, bool) {
	if name == metricBehind {
		late, known := s.run.Number(ingest.LabelBehind)
		const warned = 5 // percent: Fortio warns above
		if known && late > warned {
			return 1, true
		}
		return 0, true
	}
	if v, ok := s.printed(name); ok {
		return v, true
	}
	return s.value(name)
}

func aggregate(name string, values []float64) float64 {
	switch name {
	case "min":
		return slices.Min(values)
	case "max":
		return slices.Max(values)
	case metricBehind:
		return stats.Mean(values) * float64(len(values))
	}
	return stats.Mean(values)
}

// asPrinted writes a value with the digits and the unit of what is printed.
func asPrinted(v float64, like printed, name string) string {
	n, unitText, _ := leadingNumber(like.text)
	scale := 1.0
	if n != 0 {
		scale = like.value / n
	}
	decimals := max(0, int(math.Round(-math.Log10(like.digit/scale))))
	if name == metricBehind {
		unitText = ""
	}
	return strconv.FormatFloat(v/scale, 'f', decimals, 64) + unitText
}

func off(printed, raw float64) string {
	if raw == 0 {
		return ""
	}
	return fmt.Sprintf("off by %+.2g %%", (printed/raw-1)*100)
}

// swapped says how the two ends of a range went wrong.
func swapped(f figure, lo, hi float64) string {
	rawLo, rawHi := asPrinted(lo, f.lo, f.metric), asPrinted(hi, f.hi, f.metric)
	for _, p := range []printed{f.lo, f.hi} {
		for _, raw := range []string{rawLo, rawHi} {
			if raw != p.text && digitsOf(raw) == digitsOf(p.text) {
				return fmt.Sprintf("%s has the digits of %s in another order", p.text, raw)
			}
		}
	}
	return strings.Join(slices.DeleteFunc([]string{
		map[bool]string{false: "low end " + off(f.lo.value, lo)}[f.lo.is(lo)],
		map[bool]string{false: "high end " + off(f.hi.value, hi)}[f.hi.is(hi)],
	}, func(s string) bool { return s == "" }), ", ")
}

// digitsOf are the digits of a number, sorted.
func digitsOf(text string) string {
	digits := []rune(strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return r
		}
		return -1
	}, text))
	slices.Sort(digits)
	return string(digits)
}

// moreRequests is how many times as many requests as are at hand would make a
// printed share possible: 1 if these do, 0 if none does. A share of n requests is
// a multiple of 1/n.
func moreRequests(p printed, chosen []subject) int {
	var n uint64
	for _, s := range chosen {
		n += s.outcome.Load.Succeeded + s.outcome.Load.FailedTotal() + s.outcome.Load.Unsent
	}
	const most = 10
	for times := 1; times <= most; times++ {
		all := float64(n) * float64(times)
		if k := math.Round(p.value * all); p.is(k / all) {
			return times
		}
	}
	return 0
}
