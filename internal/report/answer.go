package report

import (
	"fmt"
	"strings"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
)

// answer says in sentences what the comparisons show, most important first.
func answer(m *Model) []string {
	var out []string
	for _, l := range m.Loads {
		for _, v := range m.Variants {
			if !v.Baseline && !v.Control {
				out = append(out, m.sentence(v, l))
			}
		}
	}
	if m.Run.Failed > 0 {
		out = append(out, fmt.Sprintf("%d of %d trials failed; they are shown, and their blocks are used without them.", m.Run.Failed, m.Run.Done))
	}
	if n := invalidTrials(m); n > 0 {
		out = append(out, fmt.Sprintf("%d trials are invalid and not used: see the findings.", n))
	}
	return out
}

func invalidTrials(m *Model) int {
	n := 0
	for _, t := range m.Trials {
		if t.State == "invalid" {
			n++
		}
	}
	return n
}

func (m *Model) sentence(v Variant, l Load) string {
	d := l.headline()
	c := m.Comparison(v.Name, l.Name, d.Name)
	head := fmt.Sprintf("%s under %s: ", v.Name, l.Name)
	switch {
	case c == nil || c.Difference == nil:
		reason := "not measured"
		if c != nil {
			reason = c.Reason
		}
		return head + "cannot be compared (" + reason + ")."
	case c.Verdict == VerdictDifferent:
		text := head + FormatDifference(d.Unit, *c.Difference) + " " + about(d.Name)
		if c.Ratio != nil {
			text += ", " + FormatRatio(*c.Ratio)
		}
		return text + m.alsoCPU(v, l) + "."
	case c.Verdict == VerdictEquivalent:
		return head + "equivalent to " + m.Run.Baseline + " " + about(d.Name) + ", within the study's margin" + m.alsoCPU(v, l) + "."
	}
	return head + fmt.Sprintf("no difference shown %s (one of %s would have been)", about(d.Name), FormatValue(d.Unit, c.Detectable)) + m.alsoCPU(v, l) + "."
}

// about says in a sentence which number it speaks of.
func about(name string) string {
	switch name {
	case "response.p50":
		return "at the median"
	case "rate.highest":
		return "in the highest rate"
	}
	return "in " + strings.ReplaceAll(name, ".", " ")
}

func (m *Model) alsoCPU(v Variant, l Load) string {
	name, text := "cpu.total", "; CPU per 1,000 requests "
	if l.Kind != KindRequests {
		name, text = "cpu.gbit.total", "; CPU per Gbit "
	}
	c := m.Comparison(v.Name, l.Name, name)
	if c == nil || c.Difference == nil || c.Verdict != VerdictDifferent {
		return ""
	}
	return text + FormatDifference(metric.UnitCPUPer1k, *c.Difference)
}

// gates judges the study's gates by the interval's unfavourable end: noise does
// not pass a build, and a gate that fails may only need more blocks.
func gates(s model.Study, m *Model) []Gate {
	out := []Gate{}
	for _, g := range s.Gates {
		for _, l := range s.Loads {
			if g.Load == "" || g.Load == l.Name {
				out = append(out, m.gate(g, l.Name))
			}
		}
	}
	return out
}

func (m *Model) gate(g model.Gate, load string) Gate {
	out := Gate{Text: g.Text}
	c := m.Cell(g.Variant, load, g.Metric)
	if c == nil || c.Estimate == nil {
		out.Detail = load + ": not measured"
		if c != nil && c.Reason != "" {
			out.Detail += " (" + c.Reason + ")"
		}
		return out
	}
	def, _ := metric.Lookup(g.Metric)
	switch g.Op {
	case "<":
		out.Value = c.Estimate.Hi
		out.Passed = out.Value < g.Value
	case "<=":
		out.Value = c.Estimate.Hi
		out.Passed = out.Value <= g.Value
	case ">":
		out.Value = c.Estimate.Lo
		out.Passed = out.Value > g.Value
	default:
		out.Value = c.Estimate.Lo
		out.Passed = out.Value >= g.Value
	}
	out.Detail = fmt.Sprintf("%s: %s, unfavourable end %s", load, strings.TrimSpace(FormatEstimate(def.Unit, *c.Estimate)), FormatValue(def.Unit, out.Value))
	return out
}

// Failed says whether a gate of the study failed.
func (m *Model) Failed() bool {
	for _, g := range m.Gates {
		if !g.Passed {
			return true
		}
	}
	return false
}

// Narrow says whether every primary interval's half-width is under the share
// of its estimate that the study's stop rule asks for. Where nothing can be
// compared yet, nothing is narrow, nor where trials that broke have left too few
// pairs of one comparison. A metric that cannot have a ratio (loss where there
// is none, CPU where it is not accounted) is left out.
func (m *Model) Narrow(width float64) bool {
	compared := 0
	for _, c := range m.Comparisons {
		switch {
		case c.Exploratory:
			continue
		case c.Few:
			return false
		case c.Ratio == nil:
			continue
		}
		compared++
		if (c.Ratio.Hi-c.Ratio.Lo)/2 > width*c.Ratio.Value {
			return false
		}
	}
	return compared > 0
}
