// Package latex writes the report's tables for papers: estimates with their
// intervals, differences with their verdicts, and the findings as notes.
package latex

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/report"
)

// Format is a LaTeX document; as files, one table each to \input. They need
// the package booktabs and nothing else.
type Format struct{}

const preamble = `\documentclass{article}
\usepackage{booktabs}
\usepackage[margin=2cm]{geometry}
\begin{document}
`

// Write writes a document with all tables.
func (f Format) Write(ctx context.Context, w io.Writer, m *report.Model) error {
	files, err := f.Files(ctx, m)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(preamble + `\section*{` + Escape(m.Name) + "}\n" + Escape(m.Question) + "\n\n")
	for _, a := range m.Answer {
		b.WriteString(Escape(a) + "\n\n")
	}
	for _, file := range files {
		b.WriteString("% " + file.Name + "\n" + string(file.Data) + "\n")
	}
	b.WriteString("\\end{document}\n")
	if _, err = io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing LaTeX: %w", err)
	}
	return nil
}

// Files are one table a load, and one a published source.
func (Format) Files(_ context.Context, m *report.Model) ([]report.File, error) {
	var files []report.File
	for _, l := range m.Loads {
		files = append(files, report.File{Name: l.Name + ".tex", Data: []byte(results(m, l))})
	}
	for i, p := range m.Published {
		files = append(files, report.File{Name: fmt.Sprintf("published-%d.tex", i+1), Data: []byte(published(m, p))})
	}
	return files, nil
}

// results is the table of a load: a group of rows a metric.
func results(m *report.Model, l report.Load) string {
	notes := notesOf(m, l)
	var rows []string
	for _, name := range l.Main {
		var group []string
		for _, v := range m.Variants {
			if c := m.Cell(v.Name, l.Name, name); c != nil && (c.Estimate != nil || c.Reason != "") {
				group = append(group, row(m, v, l, *c, notes))
			}
		}
		if len(group) > 0 {
			head := `\multicolumn{5}{l}{\emph{` + Escape(label(m, name)) + `}} \\`
			rows = append(rows, head+"\n"+strings.Join(group, "\n"))
		}
	}
	caption := fmt.Sprintf("%s (%s). %d blocks; %.0f %% intervals; differences against %s, paired by block. ~: no difference shown.", l.Name, l.Text, m.Run.Blocks, m.Run.Level*100, m.Run.Baseline) //nolint:mnd // per cent
	return float(caption, "tab:"+l.Name, "lrrrl", `variant & estimate & difference & ratio & verdict \\`, strings.Join(rows, "\n\\addlinespace\n"), notes.text)
}

func label(m *report.Model, name string) string {
	i := slices.IndexFunc(m.Metrics, func(d report.Metric) bool { return d.Name == name })
	if i < 0 {
		return name
	}
	text := m.Metrics[i].Label
	if m.Metrics[i].Primary {
		text += " (primary)"
	}
	return text
}

func row(m *report.Model, v report.Variant, l report.Load, c report.Cell, n notes) string {
	d, _ := metric.Lookup(c.Metric)
	cells := []string{Escape(v.Name) + n.marks(v.Name), "--", "--", "--", ""}
	switch {
	case c.Text != "":
		cells[1] = Escape(c.Text)
	case c.Estimate != nil:
		cells[1] = Escape(report.FormatEstimate(d.Unit, *c.Estimate))
	}
	if c.Pooled && c.Estimate != nil {
		cells[1] += `\textsuperscript{p}`
	}
	compared := m.Comparison(v.Name, l.Name, c.Metric)
	switch {
	case v.Baseline:
		cells[4] = "baseline"
	case compared == nil || compared.Difference == nil:
	default:
		cells[2] = Escape(report.FormatDifference(d.Unit, *compared.Difference))
		if compared.Ratio != nil {
			cells[3] = Escape(report.FormatRatio(*compared.Ratio))
		}
		cells[4] = Escape(compared.Verdict)
		if v.Control {
			cells[4] = "A/A control"
		}
	}
	return strings.Join(cells, " & ") + ` \\`
}

// notes are the findings of a load, by letter.
type notes struct {
	by   map[string][]string // letters by variant; "" is the whole load
	text []string
}

func notesOf(m *report.Model, l report.Load) notes {
	n := notes{by: map[string][]string{}}
	at := map[string]string{} // letter by what it says
	for _, f := range m.Findings {
		if f.Load != "" && f.Load != l.Name || !about(m, f, l) {
			continue
		}
		key := string(f.Severity) + f.Rule + f.Cause
		if at[key] == "" {
			at[key] = letter(len(at))
			n.text = append(n.text, `\textsuperscript{`+at[key]+`}\,`+Escape(string(f.Severity)+": "+f.Cause+" ("+f.Evidence+")."))
		}
		if !slices.Contains(n.by[f.Variant], at[key]) {
			n.by[f.Variant] = append(n.by[f.Variant], at[key])
		}
	}
	if slices.ContainsFunc(m.Cells, func(c report.Cell) bool { return c.Load == l.Name && c.Pooled && c.Estimate != nil }) {
		n.text = append(n.text, `\textsuperscript{p}\,`+Escape("pooled over all trials, because one has too few samples; not compared."))
	}
	return n
}

// about says whether a finding of single trials is about a load's.
func about(m *report.Model, f model.Finding, l report.Load) bool {
	if len(f.Trials) == 0 {
		return true
	}
	return slices.ContainsFunc(m.Trials, func(t report.Trial) bool { return t.Load == l.Name && slices.Contains(f.Trials, t.Index) })
}

func (n notes) marks(variant string) string {
	letters := append(slices.Clone(n.by[variant]), n.by[""]...)
	if len(letters) == 0 {
		return ""
	}
	return `\textsuperscript{` + strings.Join(letters, ",") + `}`
}

// letter counts a, b, ... z, aa, ab, ...
func letter(n int) string {
	const letters = 26
	text := string(rune('a' + n%letters))
	if n >= letters {
		text = letter(n/letters-1) + text
	}
	return text
}

func published(m *report.Model, p report.Published) string {
	t := report.PublishedTable(m, p)
	var rows []string
	for _, r := range t.Rows {
		for i := range r {
			r[i] = Escape(r[i])
		}
		rows = append(rows, strings.Join(r, " & ")+` \\`)
	}
	var claims []string
	for _, c := range p.Claims {
		claims = append(claims, `\emph{`+Escape(c.Verdict)+`}: `+Escape(c.Text)+" ("+Escape(c.Sentence())+"). "+Escape(c.Detail)+".")
	}
	if p.URL != "" {
		claims = append(claims, `\texttt{`+Escape(p.URL)+`}`)
	}
	if len(rows) == 0 {
		rows = []string{`\multicolumn{6}{l}{claims only} \\`}
	}
	return float(p.Source+", "+t.Caption, "", "lllrrl", `variant & load & metric & published & ours & agreement \\`, strings.Join(rows, "\n"), claims)
}

// float is a table with its caption and notes.
func float(caption, name, columns, head, rows string, notes []string) string {
	var b strings.Builder
	b.WriteString("\\begin{table}[htbp]\n\\centering\\footnotesize\n\\caption{" + Escape(caption) + "}\n")
	if name != "" {
		b.WriteString(`\label{` + name + "}\n")
	}
	b.WriteString("\\begin{tabular}{@{}" + columns + "@{}}\n\\toprule\n" + head + "\n\\midrule\n" + rows + "\n\\bottomrule\n\\end{tabular}\n")
	for _, n := range notes {
		b.WriteString("\n\\smallskip\\parbox{\\linewidth}{\\raggedright\\scriptsize " + n + "}\n")
	}
	return b.String() + "\\end{table}\n"
}
