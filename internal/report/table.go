package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Table is a plain table for the text formats: the same cells in the terminal
// and in Markdown.
type Table struct {
	Title   string // e.g. "steady  1,000/s open loop, 32 connections"
	Caption string // how to read it: what is compared, level, noise floor
	Header  []string
	Rows    [][]string
	// Order lists the columns, the most important first: what has no room in a
	// narrow place goes below from its end. Columns are shown in their own order.
	Order []int
}

// Tables returns one table a load: the answer first.
func Tables(m *Model) []Table {
	var tables []Table
	for _, l := range m.Loads {
		t := Table{Title: l.Name + "   " + l.Text, Caption: caption(m, l)}
		columns := slices.DeleteFunc(columnsOf(l), func(c column) bool { return c.empty(m) })
		for _, c := range columns {
			t.Header = append(t.Header, c.head)
		}
		for _, v := range m.Variants {
			row := make([]string, len(columns))
			for i, c := range columns {
				row[i] = c.cell(m, v)
			}
			t.Rows = append(t.Rows, row)
		}
		t.Order = order(columns)
		tables = append(tables, t)
	}
	return tables
}

// column is one column of a load's table.
type column struct {
	head string
	rank int // 0: cannot be missed
	cell func(m *Model, v Variant) string
}

// empty says whether a column that can be missed has nothing to show: memory,
// where it was not sampled.
func (c column) empty(m *Model) bool {
	return c.rank > 0 && !slices.ContainsFunc(m.Variants, func(v Variant) bool { return c.cell(m, v) != "-" })
}

// columnsOf are the load's main metrics, the difference of the first one beside
// it, and the findings.
func columnsOf(l Load) []column {
	columns := []column{{"", 0, func(_ *Model, v Variant) string { return v.Name }}}
	compared := false
	compare := func() {
		head := "difference"
		if _, part, found := strings.Cut(l.Main[0], "."); found {
			head += " " + part
		}
		columns = append(columns, column{head, 0, func(m *Model, v Variant) string { return m.DifferenceText(v, l.Name, l.Main[0]) }})
		compared = true
	}
	for i, name := range l.Main {
		if i > 0 && !compared && group(name) != group(l.Main[0]) {
			compare()
		}
		rank := i
		if group(name) == "memory" {
			rank = len(l.Main)
		}
		columns = append(columns, column{head(l, i), rank, func(m *Model, v Variant) string { return m.cellText(v.Name, l.Name, name) }})
	}
	if !compared && len(l.Main) > 0 {
		compare()
	}
	return append(columns, column{"findings", 0, func(m *Model, v Variant) string { return m.findingsText(v.Name, l.Name) }})
}

func order(columns []column) []int {
	all := make([]int, len(columns))
	for i := range all {
		all[i] = i
	}
	slices.SortStableFunc(all, func(a, b int) int { return columns[a].rank - columns[b].rank })
	return all
}

// group is the first part of a metric's name.
func group(name string) string {
	first, _, _ := strings.Cut(name, ".")
	return first
}

// head names the load's i-th main metric: "response p50", then only "p99".
func head(l Load, i int) string {
	name := l.Main[i]
	kind, part, _ := strings.Cut(name, ".")
	switch {
	case name == "cpu.total":
		return "CPU/1k req"
	case name == "cpu.gbit.total":
		return "CPU/Gbit"
	case kind == "memory" || kind == "throttled":
		return kind
	case name == "rate.highest":
		return "highest rate"
	case kind == "response" && i > 0 && group(l.Main[i-1]) == kind:
		return part
	case kind == "response" && l.ResponseIsService:
		return "service " + part
	}
	return strings.TrimSpace(kind + " " + part)
}

// headline is what the load's answer is about; the median response time where
// nothing was measured.
func (l Load) headline() metric.Metric {
	name := "response.p50"
	if len(l.Main) > 0 {
		name = l.Main[0]
	}
	d, _ := metric.Lookup(name)
	return d
}

func caption(m *Model, l Load) string {
	text := fmt.Sprintf("against %s, paired per block, %.0f %% interval", m.Run.Baseline, m.Run.Level*100)
	d := l.headline()
	if c := m.Comparison(controlName(m), l.Name, d.Name); c != nil && c.Difference != nil {
		text += ", noise floor (A/A) ±" + FormatValue(d.Unit, c.Floor)
	}
	return text
}

func controlName(m *Model) string {
	for _, v := range m.Variants {
		if v.Control {
			return v.Name
		}
	}
	return ""
}

// cellText is a metric's value alone; "-" with no reason here, because the
// reasons are listed once below the tables.
func (m *Model) cellText(variant, load, name string) string {
	c := m.Cell(variant, load, name)
	def, _ := metric.Lookup(name)
	switch {
	case c != nil && c.Text != "":
		short, _, _ := strings.Cut(c.Text, " (")
		return short
	case c != nil && c.Estimate != nil:
	case len(m.Unavailable) > 0 && (group(name) == "cpu" || group(name) == "memory"):
		return "not available here"
	default:
		return "-"
	}
	return FormatValue(def.Unit, c.Estimate.Value)
}

// DifferenceText is the comparison of a variant with the baseline in one cell:
// "-" for the baseline itself, "~" where no difference is shown.
func (m *Model) DifferenceText(v Variant, load, name string) string {
	if v.Baseline {
		return "-"
	}
	c := m.Comparison(v.Name, load, name)
	def, _ := metric.Lookup(name)
	switch {
	case c == nil || c.Difference == nil:
		return "?"
	case v.Control:
		return "A/A ±" + FormatValue(def.Unit, c.Floor)
	case c.Verdict == VerdictNone:
		return "~"
	case c.Verdict == VerdictEquivalent:
		return "~ (equivalent)"
	}
	return FormatDifference(def.Unit, *c.Difference)
}

func (m *Model) findingsText(variant, load string) string {
	count := map[model.Severity]int{}
	for _, f := range m.Findings {
		if f.Variant == variant && (f.Load == load || f.Load == "") {
			count[f.Severity]++
		}
	}
	var parts []string
	for _, s := range []model.Severity{model.SeverityInvalid, model.SeveritySuspect, model.SeverityNote} {
		if n := count[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, plural(string(s), n)))
		}
	}
	return strings.Join(parts, ", ")
}

func plural(word string, n int) string {
	if n == 1 || word == string(model.SeveritySuspect) || word == string(model.SeverityInvalid) {
		return word
	}
	return word + "s"
}

// Cell finds a cell; nil if there is none.
func (m *Model) Cell(variant, load, name string) *Cell {
	for i := range m.Cells {
		if c := &m.Cells[i]; c.Variant == variant && c.Load == load && c.Metric == name {
			return c
		}
	}
	return nil
}

// Comparison finds a comparison; nil if there is none.
func (m *Model) Comparison(variant, load, name string) *Comparison {
	for i := range m.Comparisons {
		if c := &m.Comparisons[i]; c.Variant == variant && c.Load == load && c.Metric == name {
			return c
		}
	}
	return nil
}
