// Package svg draws the report's figures for papers: effects, percentiles and
// what happened over time. Lines differ in dashes and marks, not in colour
// alone, so that they stay apart in print.
package svg

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/windtunnel/windtunnel/internal/report"
)

// Format is SVG: all figures one below the other; as files, one each.
type Format struct{}

// Write writes all figures as one picture.
func (Format) Write(_ context.Context, w io.Writer, m *report.Model) error {
	var body bytes.Buffer
	height := 0.0
	for _, f := range figures(m) {
		fmt.Fprintf(&body, "<g transform=\"translate(0 %s)\">\n%s</g>\n", num(height), f.body.String())
		height += f.height + gap
	}
	if _, err := w.Write(picture(m.Name, height, body.Bytes())); err != nil {
		return fmt.Errorf("writing SVG: %w", err)
	}
	return nil
}

// Files are the figures, named by what they show and their load.
func (Format) Files(_ context.Context, m *report.Model) ([]report.File, error) {
	var files []report.File
	for _, f := range figures(m) {
		files = append(files, report.File{Name: f.name + ".svg", Data: picture(m.Name+": "+f.title, f.height, f.body.Bytes())})
	}
	return files, nil
}

func figures(m *report.Model) []*figure {
	var all []*figure
	for _, l := range m.Loads {
		for _, draw := range []func(*report.Model, report.Load) *figure{effects, percentiles, overTime, waterfalls} {
			if f := draw(m, l); f != nil {
				all = append(all, f)
			}
		}
	}
	return all
}

// look is how a variant is drawn. Colours are far apart in lightness, too.
type look struct{ color, dash, mark string }

func looks(m *report.Model) map[string]look {
	palette := []look{
		{"#0072b2", "", "square"},
		{"#d55e00", "6 2", "triangle"},
		{"#009e73", "2 2", "diamond"},
		{"#cc79a7", "8 2 2 2", "circle"},
		{"#56b4e9", "10 3", "square"},
		{"#e69f00", "4 2 1 2", "triangle"},
		{"#7a5bbf", "1 2", "diamond"},
		{"#6b4a2b", "12 2 2 2 2 2", "circle"},
	}
	all := map[string]look{}
	next := 0
	for _, v := range m.Variants {
		switch {
		case v.Baseline:
			all[v.Name] = look{"#000000", "", "circle"}
		case v.Control:
			all[v.Name] = look{"#8a8a8a", "1 3", "circle"}
		default:
			all[v.Name] = palette[next%len(palette)]
			next++
		}
	}
	return all
}
