package svg

import (
	"slices"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/report"
)

// waterfalls draw where the time goes under a load: a panel a variant, all on one
// scale.
func waterfalls(m *report.Model, l report.Load) *figure {
	f := &figure{name: "breakdown-" + l.Name, title: "where time goes under " + l.Name}
	s := scale{from: wide, to: width - numbers}
	var shown []report.Breakdown
	for _, b := range m.Breakdowns {
		if b.Load == l.Name && len(b.Parts) > 0 {
			shown = append(shown, b)
			s.hi = max(s.hi, b.AtMedian)
			for _, p := range b.Parts {
				s.hi = max(s.hi, p.Start, p.Start+p.AtMedian)
			}
		}
	}
	if len(shown) == 0 || s.hi <= 0 {
		return nil
	}
	f.text(8, line, "start", bold, l.Name+": where time goes")
	f.text(8, 2*line, "start", muted, "mean of the requests about the median, traced in trials of their own; light: no stamp says what spends it")
	y := 2*line + 8 //nolint:mnd // room
	top := y
	var rows figure
	for _, b := range shown {
		y = rows.waterfall(b, s, y)
	}
	for _, tick := range s.ticks(8) { //nolint:mnd // as many as have room
		f.line(s.at(tick), top, s.at(tick), y, thin)
		f.text(s.at(tick), y+line-3, "middle", "", tickText(metric.UnitSeconds, tick))
	}
	f.line(s.from, y, s.to, y, axisC)
	f.body.Write(rows.body.Bytes())
	f.height = y + line + 6 //nolint:mnd // room below
	return f
}

const (
	wide    = 250.0 // room for the names of parts
	numbers = 130.0 // and for figures
)

// waterfall draws one variant's parts and returns where they end.
func (f *figure) waterfall(b report.Breakdown, s scale, y float64) float64 {
	f.text(8, y+line-4, "start", bold+halo, b.Variant)
	f.text(width-8, y+line-4, "end", bold+halo, report.FormatValue(metric.UnitSeconds, b.AtMedian))
	y += line
	for _, p := range b.Parts {
		from, to := p.Start, p.Start+p.AtMedian
		x := s.at(min(from, to))
		f.rect(x, y+3, max(s.at(max(from, to))-x, 1), line-6, partStyle(p.Kind)) //nolint:mnd // room above and below
		f.text(20, y+line-5, "start", "", p.Name)                                //nolint:mnd // indented
		f.text(width-8, y+line-5, "end", halo, report.FormatValue(metric.UnitSeconds, p.AtMedian))
		y += line
	}
	return y + 4 //nolint:mnd // room below
}

// partStyle tells kinds of parts apart, in print by how dark they are.
func partStyle(kind string) string {
	dark := []model.PartKind{model.PartApp, model.PartProxy, model.PartNetwork}
	styles := []string{`fill="#000000"`, `fill="#d55e00"`, `fill="#56b4e9"`}
	if i := slices.Index(dark, model.PartKind(kind)); i >= 0 {
		return styles[i]
	}
	if kind == string(model.PartParallel) {
		return `fill="none" stroke="#555555" stroke-dasharray="3 2"`
	}
	return `fill="#e4e4e4" stroke="#8a8a8a" stroke-width="0.7"`
}
