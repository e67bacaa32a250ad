package svg

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/report"
)

const (
	left    = 190.0 // of the plots of effects: room for names
	right   = 250.0 // and for figures
	yAxis   = 66.0
	plot    = 240.0 // height of curves
	panel   = 74.0  // height of one variant over time
	hundred = 100
)

// effects is a forest plot: every variant's ratio to the baseline with its
// interval, a group of rows a metric.
func effects(m *report.Model, l report.Load) *figure {
	f := &figure{name: "effects-" + l.Name, title: "differences to " + m.Run.Baseline + " under " + l.Name}
	s, shown := ratios(m, l)
	if !shown {
		return nil
	}
	s.from, s.to = left, width-right
	all := looks(m)
	f.text(8, line, "start", bold, l.Name+": ratio to "+m.Run.Baseline)
	f.text(8, 2*line, "start", muted, l.Text+fmt.Sprintf("; %.0f %% intervals, paired by block", m.Run.Level*hundred))
	y := 3 * line
	top := y
	var rows figure
	for _, name := range l.Main {
		y = rows.effect(m, l, name, s, all, y)
	}
	for _, tick := range s.ticks(8) { //nolint:mnd // as many as have room
		f.line(s.at(tick), top, s.at(tick), y, thin)
		f.text(s.at(tick), y+line-3, "middle", "", strconv.FormatFloat(tick, 'g', 3, 64)+"×") //nolint:mnd // digits
	}
	f.line(s.at(1), top, s.at(1), y, axisC)
	f.line(s.from, y, s.to, y, axisC)
	f.body.Write(rows.body.Bytes())
	f.text((s.from+s.to)/2, y+2*line-4, "middle", muted, "less than the baseline ← ratio, log scale → more") //nolint:mnd // the middle
	f.text(8, y+3*line-4, "start", muted, "Filled: a difference is shown. Open, ~: none is. Grey: the noise floor, from the A/A control.")
	f.height = y + 3*line + 4
	return f
}

// ratios is the scale that holds all intervals of a load's metrics.
func ratios(m *report.Model, l report.Load) (s scale, shown bool) {
	s = scale{lo: 0.98, hi: 1.02, log: true}
	for _, c := range m.Comparisons {
		if c.Load == l.Name && slices.Contains(l.Main, c.Metric) && c.Ratio != nil {
			s.lo, s.hi, shown = min(s.lo, c.Ratio.Lo*0.97), max(s.hi, c.Ratio.Hi*1.03), true //nolint:mnd // room beside
		}
	}
	return s, shown
}

// effect draws one metric's rows and returns where they end.
func (f *figure) effect(m *report.Model, l report.Load, name string, s scale, all map[string]look, y float64) float64 {
	d, _ := metric.Lookup(name)
	var rows []report.Variant
	var floor *report.Estimate
	for _, v := range m.Variants {
		c := m.Comparison(v.Name, l.Name, name)
		switch {
		case c == nil || v.Baseline || c.Difference == nil && c.Reason == "":
		case v.Control:
			floor = c.Ratio
		default:
			rows = append(rows, v)
		}
	}
	if len(rows) == 0 {
		return y
	}
	if floor != nil {
		far := max(floor.Hi, 1/floor.Lo)
		f.rect(s.at(1/far), y+line, s.at(far)-s.at(1/far), float64(len(rows))*line, `fill="#999999" fill-opacity="0.35"`)
	}
	f.text(8, y+line-5, "start", bold+halo, d.Label)
	y += line
	for _, v := range rows {
		c := m.Comparison(v.Name, l.Name, name)
		middle := y + line/2 - 1
		f.text(20, y+line-5, "start", "", v.Name) //nolint:mnd // indented
		text := m.DifferenceText(v, l.Name, name)
		if c.Ratio != nil {
			style := fmt.Sprintf(`stroke="%s" stroke-width="1.8"`, all[v.Name].color)
			f.line(s.at(c.Ratio.Lo), middle, s.at(c.Ratio.Hi), middle, style)
			f.mark(s.at(c.Ratio.Value), middle, all[v.Name], c.Verdict == report.VerdictDifferent)
			text += "  " + report.FormatRatio(*c.Ratio)
		} else if c.Reason != "" && c.Difference == nil {
			text = "not compared"
		}
		f.text(width-right+12, y+line-5, "start", "", text) //nolint:mnd // room beside
		y += line
	}
	return y + 4 //nolint:mnd // room below
}

// percentiles are the curves of the response time; the axis gives each nine as
// much room.
func percentiles(m *report.Model, l report.Load) *figure {
	f := &figure{name: "percentiles-" + l.Name, title: "response time by percentile under " + l.Name}
	var curves []report.Curve
	var names []string
	x, y := scale{lo: 1, hi: 10, log: true}, scale{lo: math.Inf(1), hi: 0, log: true}
	for _, c := range m.Curves {
		if c.Load != l.Name || c.Kind != "response" || len(c.Points) == 0 {
			continue
		}
		curves, names = append(curves, c), append(names, c.Variant)
		for _, p := range c.Points {
			x.hi = max(x.hi, 1/(1-p.Q))
			if p.Lo > 0 {
				y.lo = min(y.lo, p.Lo)
			}
			y.hi = max(y.hi, p.Hi)
		}
	}
	if len(curves) == 0 || y.hi <= 0 || math.IsInf(y.lo, 1) {
		return nil
	}
	kind := "response time"
	if l.ResponseIsService {
		kind = "service time (a closed loop)"
	}
	f.text(8, line, "start", bold, l.Name+": "+kind+" by percentile")
	f.text(8, 2*line, "start", muted, l.Text+"; all blocks together, band: range over blocks")
	all := looks(m)
	top := 2*line + f.legend(3*line, names, all, false) + 10 //nolint:mnd // room
	x.from, x.to = yAxis, width-12
	y.from, y.to = top+plot, top
	f.percentileAxis(x, y)
	f.valueAxis(x, y, metric.UnitSeconds, 9) //nolint:mnd // as many as have room
	for _, c := range curves {
		var middle, band, back []point
		for _, p := range c.Points {
			at := x.at(1 / (1 - p.Q))
			middle, band, back = append(middle, point{at, y.at(p.Value)}), append(band, point{at, y.at(p.Lo)}), append(back, point{at, y.at(p.Hi)})
		}
		slices.Reverse(back)
		f.area(append(band, back...), all[c.Variant].color)
		f.curve(middle, all[c.Variant], 1.8) //nolint:mnd // the line
	}
	f.height = top + plot + 2*line + 6
	return f
}

func (f *figure) percentileAxis(x, y scale) {
	for _, tick := range []string{"0", "50", "75", "90", "99", "99.9", "99.99", "99.999"} {
		percent, _ := strconv.ParseFloat(tick, 64) // written above
		if v := 1 / (1 - percent/hundred); v <= x.hi*1.001 {
			f.line(x.at(v), y.from, x.at(v), y.to, thin)
			f.text(x.at(v), y.from+line-4, "middle", "", tick)
		}
	}
	f.line(x.from, y.from, x.to, y.from, axisC)
	f.text((x.from+x.to)/2, y.from+2*line-4, "middle", muted, "percentile") //nolint:mnd // the middle
}

// valueAxis labels the left side in a metric's unit.
func (f *figure) valueAxis(x, y scale, unit metric.Unit, most int) {
	for _, tick := range y.ticks(most) {
		f.line(x.from, y.at(tick), x.to, y.at(tick), thin)
		f.text(x.from-6, y.at(tick)+4, "end", "", tickText(unit, tick))
	}
	f.line(x.from, y.from, x.from, y.to, axisC)
}

// tickText drops the zeros of a round value: "2.00 ms" is "2 ms".
func tickText(unit metric.Unit, v float64) string {
	if v == 0 {
		return "0"
	}
	number, suffix, _ := strings.Cut(report.FormatValue(unit, v), " ")
	if strings.Contains(number, ".") {
		number = strings.TrimRight(strings.TrimRight(number, "0"), ".")
	}
	return number + " " + suffix
}
