package svg

import (
	"fmt"
	"math"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/report"
)

// track is one variant over time: of the first trial that is used.
type track struct {
	variant string
	trial   report.Trial
	seconds float64
	lines   [][]point // x in seconds, y in the unit
	failed  []float64 // when requests failed that were due
}

// overTime has a panel a variant, with one scale for all: latency with its
// maxima and failures, or goodput.
func overTime(m *report.Model, l report.Load) *figure {
	f := &figure{name: "time-" + l.Name, title: "over time under " + l.Name}
	var tracks []track
	unit, what := metric.UnitSeconds, "response time, mean (thick) and maximum (thin) of each slot; ×: failures"
	y := scale{lo: math.Inf(1), hi: 0, log: true}
	if l.Kind != report.KindRequests {
		unit, what, y = metric.UnitBits, "goodput of each interval: from the generator (thick), to it (thin)", scale{}
	}
	end := 0.0
	for _, v := range m.Variants {
		t, found := trackOf(m, v.Name, l)
		if !found {
			continue
		}
		tracks = append(tracks, t)
		end = max(end, t.seconds)
		for _, points := range t.lines {
			for _, p := range points {
				y.lo, y.hi = min(y.lo, p.y), max(y.hi, p.y)
			}
		}
	}
	if len(tracks) == 0 || y.hi <= 0 || end <= 0 {
		return nil
	}
	f.text(8, line, "start", bold, l.Name+": over time")
	f.text(8, 2*line, "start", muted, what)
	x := scale{lo: 0, hi: end, from: yAxis, to: width - 12}
	y.lo, y.hi = room(y)
	top := 3*line + 4
	for _, t := range tracks {
		f.panel(t, x, y, top, unit, looks(m)[t.variant])
		top += panel + 2*line + 2
	}
	f.text((x.from+x.to)/2, top+2, "middle", muted, "seconds since the window opened") //nolint:mnd // the middle
	f.height = top + line/2
	return f
}

// room leaves some above, for the marks of failures.
func room(y scale) (lo, hi float64) {
	const above = 1.3
	if y.log {
		return y.lo / 1.1, y.hi * above
	}
	return 0, y.hi * above
}

func (f *figure) panel(t track, x, y scale, top float64, unit metric.Unit, l look) {
	y.from, y.to = top+panel, top
	f.text(x.from+6, top-3, "start", bold, t.variant)
	f.text(x.to, top-3, "end", muted, fmt.Sprintf("trial %d, block %d", t.trial.Index, t.trial.Block))
	f.valueAxis(x, y, unit, 4)         //nolint:mnd // as many as have room
	for _, tick := range x.ticks(10) { //nolint:mnd // as many as have room
		f.line(x.at(tick), y.from, x.at(tick), y.from+3, axisC)
		f.text(x.at(tick), y.from+line-4, "middle", "", fmt.Sprintf("%g", math.Round(tick*hundred)/hundred))
	}
	f.line(x.from, y.from, x.to, y.from, axisC)
	for i, points := range t.lines {
		at := make([]point, len(points))
		for k, p := range points {
			at[k] = point{x.at(p.x), y.at(p.y)}
		}
		solid := look{color: l.color}
		f.curve(at, solid, 1.8-float64(i)) //nolint:mnd // the first is thick
	}
	last := math.Inf(-1)
	for _, s := range t.failed {
		if at := x.at(s); at-last > 5 { //nolint:mnd // marks would lie on each other
			f.cross(at, top+7) //nolint:mnd // below the top
			last = at
		}
	}
}

// trackOf finds the first trial that the report uses; where there is none, the
// first that measured something.
func trackOf(m *report.Model, variant string, l report.Load) (track, bool) {
	var spare *track
	for _, t := range m.Trials {
		if t.Variant != variant || t.Load != l.Name {
			continue
		}
		out := track{variant: variant, trial: t}
		if !out.timeline(m) && !out.flow(m) {
			continue
		}
		if t.State == "done" {
			return out, true
		}
		if spare == nil {
			spare = &out
		}
	}
	if spare == nil {
		return track{}, false
	}
	return *spare, true
}

func (t *track) timeline(m *report.Model) bool {
	for _, line := range m.Timelines {
		if line.Trial != t.trial.Index {
			continue
		}
		var mean, most []point
		for i := range line.Succeeded {
			at := (float64(i) + 0.5) * line.SlotWidth //nolint:mnd // the slot's middle
			if line.Succeeded[i] > 0 && line.MeanSecond[i] > 0 {
				mean, most = append(mean, point{at, line.MeanSecond[i]}), append(most, point{at, line.MaxSecond[i]})
			}
			if line.Failed[i] > 0 {
				t.failed = append(t.failed, at)
			}
		}
		t.seconds, t.lines = float64(len(line.Succeeded))*line.SlotWidth, [][]point{mean, most}
		return true
	}
	return false
}

func (t *track) flow(m *report.Model) bool {
	for _, flow := range m.Flows {
		if flow.Trial != t.trial.Index {
			continue
		}
		var up, down []point
		for i, length := range flow.Lengths {
			at := t.seconds + length/2 //nolint:mnd // the interval's middle
			t.seconds += length
			if i < len(flow.Up) {
				up = append(up, point{at, flow.Up[i]})
			}
			if i < len(flow.Down) {
				down = append(down, point{at, flow.Down[i]})
			}
		}
		t.lines = [][]point{up, down}
		return true
	}
	return false
}
