package summary

import (
	_ "embed" // the page's template
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

//go:embed page.html
var pageTemplate string

// plot is a picture with one or several lines, in pixels.
type plot struct {
	Title, Note    string
	Lines          []polyline
	XTicks, YTicks []tick
}

type polyline struct{ Name, Class, Points string }

type tick struct {
	At   float64
	Text string
}

// Where the axes are in the picture; page.html draws the grid by the same.
const (
	plotWidth, plotHeight = 820.0, 220.0
	plotLeft, plotTop     = 70.0, 12.0
)

// WriteHTML writes the load as one page that needs nothing else: the pictures,
// and the summary as in a terminal.
func (l *Load) WriteHTML(w io.Writer) error {
	t, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		return fmt.Errorf("reading the page's template: %w", err)
	}
	var text strings.Builder
	if err := l.WriteText(&text); err != nil {
		return err
	}
	data := struct {
		*Load
		Text     string
		Findings []model.Finding
		Plots    []plot
		Width    float64
	}{l, text.String(), l.Findings(), l.plots(), plotLeft + plotWidth + 20}
	if err := t.Execute(w, data); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

func (l *Load) plots() []plot {
	r := l.Result
	var all []plot
	if count(r.Response) > 0 {
		all = append(all, l.percentiles())
	}
	parts := moments(r.Timeline, r.Elapsed, 100)
	if len(parts) < 2 {
		return all
	}
	rate, failed := series{name: "successes", class: "a"}, series{name: "failures", class: "bad"}
	p50, p99, most := series{name: "p50", class: "a"}, series{name: "p99", class: "b"}, series{name: "max", class: "c"}
	for _, m := range parts {
		x := (m.at + m.length/2).Seconds()
		rate.add(x, float64(m.succeeded)/m.length.Seconds())
		failed.add(x, float64(m.failed)/m.length.Seconds())
		if m.succeeded > 0 {
			p50.add(x, float64(m.p50))
			p99.add(x, float64(m.p99))
			most.add(x, float64(m.most))
		}
	}
	seconds := axis{to: r.Elapsed.Seconds(), format: func(v float64) string { return tickTime(v * 1e9) }}
	if len(p50.x) > 1 {
		all = append(all, draw("Response time over time", "by when requests were due; p50 and p99 within 12 %",
			seconds, logTime(p50, p99, most), p50, p99, most))
	}
	lines := []series{rate}
	if r.FailedTotal()+r.Unsent > 0 {
		lines = append(lines, failed)
	}
	high := 1.0
	for _, s := range lines {
		for _, v := range s.y {
			high = max(high, v)
		}
	}
	return append(all, draw("Rate over time", "requests per second, by when they were due", seconds,
		axis{to: high * 1.1, format: rateText}, lines...))
}

// percentiles draws latency by percentile, on an axis of nines.
func (l *Load) percentiles() plot {
	response, service := series{name: "response", class: "a"}, series{name: "service", class: "b"}
	n := l.Result.Response.Count()
	nines := math.Log10(float64(max(n, 10)))
	for i := 0.0; i <= 200; i++ {
		x := nines * i / 200
		q := 1 - math.Pow(10, -x)
		response.add(x, float64(l.Result.Response.Quantile(q)))
		service.add(x, float64(l.Result.Service.Quantile(q)))
	}
	at := axis{to: nines}
	for _, q := range append([]float64{0}, quantiles()...) {
		if Carries(n, q) {
			at.ticks = append(at.ticks, tick{-math.Log10(1 - q), quantileName(q)})
		}
	}
	lines := []series{response, service}
	if l.sameTimes() {
		lines = lines[1:]
	}
	return draw("Latency by percentile", "response: from when a request was due; service: from when it was sent", at, logTime(response, service), lines...)
}

// tickTime writes a round time in as few letters as it needs.
func tickTime(v float64) string {
	if v == 0 {
		return "0"
	}
	return strings.Replace(FormatTime(time.Duration(v)), ".0 ", " ", 1)
}

type series struct {
	name, class string
	x, y        []float64
}

func (s *series) add(x, y float64) { s.x, s.y = append(s.x, x), append(s.y, y) }

// axis goes from one value to another; of a logarithmic one both are above 0.
type axis struct {
	from, to float64
	log      bool
	format   func(float64) string
	ticks    []tick // at values; none: chosen
}

// logTime is an axis that holds all times of some lines.
func logTime(lines ...series) axis {
	a := axis{from: math.Inf(1), log: true, format: tickTime}
	for _, s := range lines {
		for _, v := range s.y {
			a.from, a.to = min(a.from, max(v, 1)), max(a.to, v)
		}
	}
	a.from, a.to = a.from/1.2, max(a.to, 2)*1.2
	return a
}

// place is where a value is on the axis, from 0 to 1.
func (a *axis) place(v float64) float64 {
	if a.log {
		return math.Log(max(v, a.from)/a.from) / math.Log(a.to/a.from)
	}
	return (v - a.from) / (a.to - a.from)
}

// marks are the axis' ticks: round values.
func (a *axis) marks() []tick {
	if a.ticks != nil {
		return a.ticks
	}
	var all []tick
	if a.log {
		steps := []float64{1, 2, 5}
		if a.to/a.from > 1000 {
			steps = steps[:1]
		}
		for decade := math.Pow(10, math.Floor(math.Log10(a.from))); decade <= a.to; decade *= 10 {
			for _, s := range steps {
				if v := decade * s; v >= a.from && v <= a.to {
					all = append(all, tick{v, a.format(v)})
				}
			}
		}
		return all
	}
	step := math.Pow(10, math.Floor(math.Log10(a.to/4)))
	for _, s := range []float64{1, 2, 5, 10} {
		if a.to/(step*s) <= 6 {
			step *= s
			break
		}
	}
	for v := a.from; v <= a.to; v += step {
		all = append(all, tick{v, a.format(v)})
	}
	return all
}

func draw(title, note string, x, y axis, lines ...series) plot {
	p := plot{Title: title, Note: note}
	for _, t := range x.marks() {
		p.XTicks = append(p.XTicks, tick{plotLeft + plotWidth*x.place(t.At), t.Text})
	}
	for _, t := range y.marks() {
		p.YTicks = append(p.YTicks, tick{plotTop + plotHeight*(1-y.place(t.At)), t.Text})
	}
	for _, s := range lines {
		var b strings.Builder
		for i := range s.x {
			fmt.Fprintf(&b, "%.1f,%.1f ", plotLeft+plotWidth*x.place(s.x[i]), plotTop+plotHeight*(1-y.place(s.y[i])))
		}
		p.Lines = append(p.Lines, polyline{s.name, s.class, b.String()})
	}
	return p
}
