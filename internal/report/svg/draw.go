package svg

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Sizes in pixels of 1/96 inch: 720 are 19 cm, a page's width.
const (
	width    = 720.0
	gap      = 16.0
	line     = 18.0 // of text
	glyph    = 6.0  // about how wide a letter is
	fontSize = 11
)

// figure is one picture under way. Its title and height are set when it is done.
type figure struct {
	name, title string
	height      float64
	body        bytes.Buffer
}

func picture(title string, height float64, body []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %s %s" font-family="Helvetica, Arial, sans-serif" font-size="%d">`+"\n",
		num(width), num(height), num(width), num(height), fontSize)
	fmt.Fprintf(&b, "<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n", escape(title))
	b.Write(body)
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func num(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

func escape(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a Buffer takes everything
	return b.String()
}

// text writes text at a place. anchor is start, middle or end.
func (f *figure) text(x, y float64, anchor, style, text string) {
	if style != "" {
		style = " " + style
	}
	fmt.Fprintf(&f.body, "<text x=\"%s\" y=\"%s\" text-anchor=\"%s\"%s>%s</text>\n", num(x), num(y), anchor, style, escape(text))
}

const (
	bold  = `font-weight="bold"`
	muted = `fill="#555555"`
	halo  = ` stroke="#ffffff" stroke-width="3" paint-order="stroke"` // keeps lines off text
	thin  = `stroke="#cccccc" stroke-width="0.7"`
	axisC = `stroke="#333333" stroke-width="1"`
)

func (f *figure) line(x1, y1, x2, y2 float64, style string) {
	fmt.Fprintf(&f.body, "<line x1=\"%s\" y1=\"%s\" x2=\"%s\" y2=\"%s\" %s/>\n", num(x1), num(y1), num(x2), num(y2), style)
}

func (f *figure) rect(x, y, w, h float64, style string) {
	fmt.Fprintf(&f.body, "<rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" %s/>\n", num(x), num(y), num(max(w, 0)), num(max(h, 0)), style)
}

type point struct{ x, y float64 }

func path(points []point) string {
	var b strings.Builder
	for i, p := range points {
		command := "L"
		if i == 0 {
			command = "M"
		}
		b.WriteString(command + num(p.x) + " " + num(p.y))
	}
	return b.String()
}

func (f *figure) curve(points []point, l look, strokeWidth float64) {
	if len(points) == 0 {
		return
	}
	dash := ""
	if l.dash != "" {
		dash = ` stroke-dasharray="` + l.dash + `"`
	}
	fmt.Fprintf(&f.body, "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"%s\" stroke-linejoin=\"round\"%s/>\n", path(points), l.color, num(strokeWidth), dash)
}

func (f *figure) area(points []point, color string) {
	if len(points) > 0 {
		fmt.Fprintf(&f.body, "<path d=\"%sZ\" fill=\"%s\" fill-opacity=\"0.15\" stroke=\"none\"/>\n", path(points), color)
	}
}

// mark draws a variant's mark: filled where a difference is shown.
func (f *figure) mark(x, y float64, l look, filled bool) {
	fill := "#ffffff"
	if filled {
		fill = l.color
	}
	style := fmt.Sprintf(`fill="%s" stroke="%s" stroke-width="1.3"`, fill, l.color)
	switch l.mark {
	case "square":
		f.rect(x-3.5, y-3.5, 7, 7, style)
	case "triangle":
		fmt.Fprintf(&f.body, "<path d=\"%sZ\" %s/>\n", path([]point{{x, y - 4.5}, {x + 4.3, y + 3.3}, {x - 4.3, y + 3.3}}), style)
	case "diamond":
		fmt.Fprintf(&f.body, "<path d=\"%sZ\" %s/>\n", path([]point{{x, y - 5}, {x + 4, y}, {x, y + 5}, {x - 4, y}}), style)
	default:
		fmt.Fprintf(&f.body, "<circle cx=\"%s\" cy=\"%s\" r=\"3.8\" %s/>\n", num(x), num(y), style)
	}
}

func (f *figure) cross(x, y float64) {
	const r = 3.0
	style := `stroke="#000000" stroke-width="1.4"`
	f.line(x-r, y-r, x+r, y+r, style)
	f.line(x-r, y+r, x+r, y-r, style)
}

// scale maps values to pixels, evenly or by their logarithm.
type scale struct {
	lo, hi   float64
	from, to float64
	log      bool
}

func (s scale) at(v float64) float64 {
	lo, hi := s.lo, s.hi
	if s.log {
		v, lo, hi = math.Log(max(v, s.lo)), math.Log(lo), math.Log(hi)
	}
	if hi == lo {
		return (s.from + s.to) / 2 //nolint:mnd // the middle
	}
	return s.from + (min(max(v, lo), hi)-lo)/(hi-lo)*(s.to-s.from)
}

// ticks are round values within the scale: 1, 2, 5 of every decade, or fewer
// where that is too many.
func (s scale) ticks(most int) []float64 {
	const narrow = 1.7
	if !s.log || s.hi < s.lo*narrow {
		return s.even(most)
	}
	var all []float64
	for _, steps := range [][]float64{{1, 1.1, 1.2, 1.3, 1.5, 1.7, 2, 2.5, 3, 4, 5, 7}, {1, 1.5, 2, 3, 5, 7}, {1, 2, 5}, {1, 3}, {1}} {
		all = nil
		for e := math.Floor(math.Log10(s.lo)); e <= math.Log10(s.hi); e++ {
			for _, step := range steps {
				if v := step * math.Pow(10, e); v >= s.lo*0.999 && v <= s.hi*1.001 { //nolint:mnd // rounding
					all = append(all, v)
				}
			}
		}
		if len(all) <= most {
			return all
		}
	}
	return all
}

func (s scale) even(most int) []float64 {
	span := s.hi - s.lo
	if span <= 0 {
		return []float64{s.lo}
	}
	unit := math.Pow(10, math.Floor(math.Log10(span/float64(most))))
	for _, step := range []float64{1, 2, 5, 10} {
		if span/(unit*step) <= float64(most) {
			unit *= step
			break
		}
	}
	var all []float64
	for v := math.Ceil(s.lo/unit) * unit; v <= s.hi*1.0001; v += unit { //nolint:mnd // rounding
		all = append(all, v)
	}
	return all
}

// legend writes the variants' names with their looks, and returns how high it is.
func (f *figure) legend(y float64, names []string, all map[string]look, marks bool) float64 {
	x, rows := 8.0, 1.0
	const sample = 26
	for _, name := range names {
		need := sample + 8 + float64(len([]rune(name)))*glyph + 14 //nolint:mnd // room around
		if x > 8 && x+need > width {
			x, rows = 8, rows+1
		}
		at := y + (rows-1)*line
		f.curve([]point{{x, at - 4}, {x + sample, at - 4}}, all[name], 1.8) //nolint:mnd // as in the figure
		if marks {
			f.mark(x+sample/2, at-4, all[name], true)
		}
		f.text(x+sample+6, at, "start", "", name)
		x += need
	}
	return rows * line
}
