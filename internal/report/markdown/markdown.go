// Package markdown writes a report that pastes into a pull request.
package markdown

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/windtunnel/windtunnel/internal/report"
)

// Format is GitHub-flavoured Markdown.
type Format struct{}

// Write writes question, answer, one table a load, findings, gates and ledger.
func (Format) Write(_ context.Context, w io.Writer, m *report.Model) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n**%s**\n\n", escape(m.Name), escape(m.Question))
	for _, a := range m.Answer {
		fmt.Fprintf(&b, "* %s\n", escape(a))
	}
	for _, t := range report.Tables(m) {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n", escape(t.Title), escape(t.Caption))
		table(&b, t.Header, t.Rows)
	}
	strips(&b, m)
	waterfalls(&b, m)
	fleet(&b, m)
	if len(m.Findings) > 0 {
		b.WriteString("\n### Findings\n\n")
		for _, f := range m.Findings {
			fmt.Fprintf(&b, "* **%s** %s %s: %s. %s. _%s_\n", f.Severity, escape(strings.Trim(f.Variant+"/"+f.Load, "/")), escape(f.Rule), escape(f.Cause), escape(f.Evidence), escape(f.Advice))
		}
	}
	for _, g := range m.Gates {
		mark := "❌"
		if g.Passed {
			mark = "✅"
		}
		fmt.Fprintf(&b, "\n%s gate `%s` %s\n", mark, g.Text, escape(g.Detail))
	}
	published(&b, m)
	ledger(&b, m)
	fmt.Fprintf(&b, "\nplan `%s`, run `%s`, windtunnel %s\n", m.Run.PlanDigest, m.Run.ID, m.Run.Version)
	_, err := io.WriteString(w, b.String())
	return err
}

// strips draw who answered over time, of loads under a fault.
func strips(b *strings.Builder, m *report.Model) {
	const columns = 80
	for _, s := range report.StripsOf(m, columns) {
		fmt.Fprintf(b, "\n### %s\n\n%s\n\n", escape(s.Title), escape(s.Key))
		for _, l := range s.Lines {
			// Indented, not fenced: whatever a variant is called, it stays in its block.
			fmt.Fprintf(b, "    %-20s %s\n", strings.ReplaceAll(l[0], "\n", " "), l[1])
		}
	}
}

// waterfalls are where the time goes.
func waterfalls(b *strings.Builder, m *report.Model) {
	const bar = 30
	for _, w := range report.Waterfalls(m, bar) {
		fmt.Fprintf(b, "\n### %s\n\n%s\n", escape(w.Title), escape(w.Caption))
		if len(w.Rows) > 0 {
			b.WriteByte('\n')
			for i := range w.Rows {
				// A cell's spaces at its ends are cut off, those of a figure are not.
				w.Rows[i][3] = strings.ReplaceAll(w.Rows[i][3], " ", "\u2007")
			}
			table(b, w.Header, w.Rows)
			b.WriteByte('\n')
		}
		for _, n := range w.Notes {
			fmt.Fprintf(b, "* %s\n", escape(n))
		}
	}
}

// fleet is what the variants would cost a fleet.
func fleet(b *strings.Builder, m *report.Model) {
	t := report.FleetTable(m)
	if len(t.Rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\n### %s\n\n%s\n\n", escape(t.Title), escape(t.Caption))
	table(b, t.Header, t.Rows)
	b.WriteByte('\n')
	for _, a := range m.Fleet.Assumed {
		fmt.Fprintf(b, "* %s\n", escape(a))
	}
}

func published(b *strings.Builder, m *report.Model) {
	for _, p := range m.Published {
		t := report.PublishedTable(m, p)
		fmt.Fprintf(b, "\n### Published: %s\n", escape(t.Title))
		if p.URL != "" {
			fmt.Fprintf(b, "\n<%s>\n", strings.NewReplacer("<", "%3C", ">", "%3E", "\n", "").Replace(p.URL))
		}
		if len(t.Rows) > 0 {
			fmt.Fprintf(b, "\n%s\n\n", escape(t.Caption))
			for i, c := range p.Cells {
				t.Rows[i] = append(t.Rows[i], c.Detail)
			}
			table(b, append(t.Header, "detail"), t.Rows)
		}
		if len(p.Claims) > 0 {
			b.WriteByte('\n')
		}
		for _, c := range p.Claims {
			fmt.Fprintf(b, "* **%s**: “%s” (%s). %s\n", c.Verdict, escape(c.Text), escape(c.Sentence()), escape(c.Detail))
		}
	}
}

func ledger(b *strings.Builder, m *report.Model) {
	if len(m.Ledger) == 0 {
		return
	}
	b.WriteString("\n### What each variant really did\n\n")
	header := []string{"observed"}
	for _, v := range m.Variants {
		header = append(header, v.Name)
	}
	var rows [][]string
	for _, r := range m.Ledger {
		row := []string{r.Key}
		for _, c := range r.Cells {
			row = append(row, strings.Join(c.Values, "; "))
		}
		rows = append(rows, row)
	}
	table(b, header, rows)
}

func table(b *strings.Builder, header []string, rows [][]string) {
	line := func(cells []string) {
		for _, c := range cells {
			b.WriteString("| " + escape(c) + " ")
		}
		b.WriteString("|\n")
	}
	line(header)
	b.WriteString(strings.Repeat("|---", len(header)) + "|\n")
	for _, r := range rows {
		line(r)
	}
}

// escape keeps text from becoming markup.
func escape(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "\n", " ", "*", `\*`, "_", `\_`, "`", "'").Replace(s)
}
