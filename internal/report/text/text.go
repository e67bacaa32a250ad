// Package text writes a report for a terminal of 100 columns or more.
package text

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/report"
)

// Format is the terminal format.
type Format struct{}

// Write writes the answer, one table a load, the findings and the gates.
func (Format) Write(_ context.Context, w io.Writer, m *report.Model) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s   %s\n%s\n\n", m.Name, m.Question, summary(m))
	for _, t := range report.Tables(m) {
		fmt.Fprintf(&b, "%s\n%s\n", t.Title, t.Caption)
		table(&b, t)
		b.WriteByte('\n')
	}
	for _, a := range m.Answer {
		b.WriteString(a + "\n")
	}
	for _, u := range m.Unavailable {
		b.WriteString(u + "\n")
	}
	findings(&b, m)
	for _, g := range m.Gates {
		verdict := "FAILED"
		if g.Passed {
			verdict = "passed"
		}
		fmt.Fprintf(&b, "gate %s: %s (%s)\n", verdict, g.Text, g.Detail)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func summary(m *report.Model) string {
	s := fmt.Sprintf("%d blocks, %d variants, %d loads, %d trials", m.Run.Blocks, len(m.Variants), len(m.Loads), m.Run.Done)
	if m.Run.TookSeconds > 0 {
		s += fmt.Sprintf(", %dm%02ds", int(m.Run.TookSeconds)/60, int(m.Run.TookSeconds)%60)
	}
	if !m.Run.Complete {
		s += fmt.Sprintf("; INCOMPLETE (%d of %d trials): %s", m.Run.Done, m.Run.Planned, m.Run.Stopped)
	}
	return s
}

// table aligns columns: names to the left, numbers too, because their units
// differ from row to row.
func table(b *strings.Builder, t report.Table) {
	rows := append([][]string{t.Header}, t.Rows...)
	width := make([]int, len(t.Header))
	for _, r := range rows {
		for i, c := range r {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	for _, r := range rows {
		line := make([]string, len(r))
		for i, c := range r {
			line[i] = c + strings.Repeat(" ", width[i]-utf8.RuneCountInString(c))
		}
		b.WriteString(strings.TrimRight("  "+strings.Join(line, "  "), " ") + "\n")
	}
}

func findings(b *strings.Builder, m *report.Model) {
	notes := 0
	for _, f := range m.Findings {
		if f.Severity == model.SeverityNote {
			notes++
			continue
		}
		fmt.Fprintf(b, "%s: %s%s: %s (%s). %s\n", f.Severity, where(f), f.Rule, f.Cause, f.Evidence, f.Advice)
	}
	if notes > 0 {
		fmt.Fprintf(b, "%d notes: see the report's findings.\n", notes)
	}
}

func where(f model.Finding) string {
	if f.Variant == "" {
		return ""
	}
	return strings.TrimSuffix(f.Variant+"/"+f.Load, "/") + ": "
}
