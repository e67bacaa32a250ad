package report

import (
	"fmt"
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
}

// Tables returns one table a load: the answer first.
func Tables(m *Model) []Table {
	var tables []Table
	for _, l := range m.Loads {
		t := Table{Title: l.Name + "   " + l.Text, Caption: caption(m, l), Header: header(l)}
		for _, v := range m.Variants {
			t.Rows = append(t.Rows, row(m, v, l))
		}
		tables = append(tables, t)
	}
	return tables
}

func header(l Load) []string {
	latency := "response"
	if l.ResponseIsService {
		latency = "service"
	}
	h := []string{"", latency + " p50", "p99", "difference p50"}
	if l.ResponseIsService {
		h = append(h, "rate")
	}
	h = append(h, "CPU per 1k req", "memory")
	return append(h, "success", "findings")
}

func caption(m *Model, l Load) string {
	text := fmt.Sprintf("against %s, paired per block, %.0f %% interval", m.Run.Baseline, m.Run.Level*100)
	if c := m.Comparison(controlName(m), l.Name, "response.p50"); c != nil && c.Difference != nil {
		text += ", noise floor (A/A) ±" + FormatValue(metric.UnitSeconds, c.Floor)
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

func row(m *Model, v Variant, l Load) []string {
	cells := []string{v.Name, m.cellText(v.Name, l.Name, "response.p50"), m.cellText(v.Name, l.Name, "response.p99"), m.DifferenceText(v, l.Name, "response.p50")}
	if l.ResponseIsService {
		cells = append(cells, m.cellText(v.Name, l.Name, "rate"))
	}
	return append(cells,
		m.cellText(v.Name, l.Name, "cpu.total"), m.cellText(v.Name, l.Name, "memory.total"),
		m.cellText(v.Name, l.Name, "success"), m.findingsText(v.Name, l.Name))
}

// cellText is a metric's value alone; "-" with no reason here, because the
// reasons are listed once below the tables.
func (m *Model) cellText(variant, load, name string) string {
	c := m.Cell(variant, load, name)
	def, _ := metric.Lookup(name)
	switch {
	case c != nil && c.Text != "":
		return c.Text
	case c != nil && c.Estimate != nil:
	case len(m.Unavailable) > 0 && (def.Unit == metric.UnitCPUPer1k || def.Unit == metric.UnitBytes):
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
		return "(A/A) " + FormatDifference(def.Unit, *c.Difference)
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
	if word == "note" && n > 1 {
		return "notes"
	}
	return word
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
