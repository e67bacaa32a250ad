// Package text writes a report for a terminal of 100 columns.
package text

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/report"
)

// columns is the width that everything fits into.
const columns = 100

// Format is the terminal format.
type Format struct{}

// Write writes the answer, one table a load, the findings and the gates.
func (Format) Write(_ context.Context, w io.Writer, m *report.Model) error {
	var b strings.Builder
	say(&b, m.Name+"   "+m.Question)
	say(&b, summary(m))
	for _, t := range report.Tables(m) {
		b.WriteByte('\n')
		say(&b, t.Title)
		say(&b, t.Caption)
		table(&b, t)
	}
	strips(&b, m)
	waterfalls(&b, m)
	fleet(&b, m)
	b.WriteByte('\n')
	for _, a := range m.Answer {
		say(&b, a)
	}
	for _, u := range m.Unavailable {
		say(&b, u)
	}
	findings(&b, m)
	for _, g := range m.Gates {
		verdict := "FAILED"
		if g.Passed {
			verdict = "passed"
		}
		say(&b, fmt.Sprintf("gate %s: %s (%s)", verdict, g.Text, g.Detail))
	}
	published(&b, m)
	_, err := io.WriteString(w, b.String())
	return err
}

// say writes one line, broken between words where it is too long.
func say(b *strings.Builder, text string) {
	room := columns
	for utf8.RuneCountInString(text) > room {
		runes := []rune(text)
		at := room
		for at > 1 && !breaks(runes, at) {
			at--
		}
		if at <= 1 {
			break // one long word, such as a path, stays whole
		}
		b.WriteString(strings.TrimRight(string(runes[:at]), " ") + "\n  ")
		text, room = strings.TrimLeft(string(runes[at:]), " "), columns-2
	}
	b.WriteString(text + "\n")
}

// breaks says whether a line may end at a place: at a space, but not between a
// number and its unit.
func breaks(text []rune, at int) bool {
	return text[at] == ' ' && (at+1 == len(text) || !unicode.IsDigit(text[at-1]) || !unicode.IsLetter(text[at+1]))
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

// table writes the columns that fit beside each other, the most important
// first, and the rest below, each line with the variant's name.
func table(b *strings.Builder, t report.Table) {
	rows := append([][]string{t.Header}, t.Rows...)
	width := make([]int, len(t.Header))
	for _, r := range rows {
		for i, c := range r {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	left := slices.DeleteFunc(slices.Clone(t.Order), func(i int) bool { return i == 0 })
	for len(left) > 0 {
		shown, room := []int{0}, columns-2-width[0]
		rest := []int{}
		for _, i := range left {
			if need := 2 + width[i]; need <= room || len(shown) == 1 {
				shown, room = append(shown, i), room-need
			} else {
				rest = append(rest, i)
			}
		}
		slices.Sort(shown)
		lines(b, rows, shown, width)
		left = rest
	}
}

// lines aligns columns: names to the left, numbers too, because their units
// differ from row to row.
func lines(b *strings.Builder, rows [][]string, shown, width []int) {
	for _, r := range rows {
		line := make([]string, len(shown))
		for k, i := range shown {
			line[k] = r[i] + strings.Repeat(" ", width[i]-utf8.RuneCountInString(r[i]))
		}
		b.WriteString(strings.TrimRight("  "+strings.Join(line, "  "), " ") + "\n")
	}
}

// strips draw who answered over time, of loads under a fault.
func strips(b *strings.Builder, m *report.Model) {
	const marks = 8 // of harm and heal, beside the strip
	names := 0
	for _, v := range m.Variants {
		names = max(names, utf8.RuneCountInString(v.Name))
	}
	const narrow = 20
	for _, s := range report.StripsOf(m, max(narrow, columns-marks-names-4)) {
		b.WriteByte('\n')
		say(b, s.Title)
		say(b, s.Key)
		for _, l := range s.Lines {
			fmt.Fprintf(b, "  %s%s  %s\n", l[0], strings.Repeat(" ", names-utf8.RuneCountInString(l[0])), l[1])
		}
	}
}

// waterfalls are where the time goes.
func waterfalls(b *strings.Builder, m *report.Model) {
	const bar = 20
	for _, w := range report.Waterfalls(m, bar) {
		b.WriteByte('\n')
		say(b, w.Title)
		say(b, w.Caption)
		if len(w.Rows) > 0 {
			table(b, w.Table)
		}
		for _, n := range w.Notes {
			say(b, "  "+n)
		}
	}
}

// fleet is what the variants would cost a fleet.
func fleet(b *strings.Builder, m *report.Model) {
	t := report.FleetTable(m)
	if len(t.Rows) == 0 {
		return
	}
	b.WriteByte('\n')
	say(b, t.Title)
	say(b, t.Caption)
	table(b, t)
	for _, a := range m.Fleet.Assumed {
		say(b, "  "+a)
	}
}

func findings(b *strings.Builder, m *report.Model) {
	notes := 0
	for _, f := range m.Findings {
		if f.Severity == model.SeverityNote {
			notes++
			continue
		}
		say(b, fmt.Sprintf("%s: %s%s: %s (%s). %s", f.Severity, where(f), f.Rule, f.Cause, f.Evidence, f.Advice))
	}
	if notes > 0 {
		fmt.Fprintf(b, "%d notes: see the report's findings.\n", notes)
	}
}

func published(b *strings.Builder, m *report.Model) {
	for _, p := range m.Published {
		b.WriteByte('\n')
		t := report.PublishedTable(m, p)
		say(b, t.Title)
		if len(t.Rows) > 0 {
			say(b, t.Caption)
			table(b, t)
		}
		for _, c := range p.Claims {
			say(b, fmt.Sprintf("%s: %q (%s). %s", c.Verdict, c.Text, c.Sentence(), c.Detail))
		}
	}
}

func where(f model.Finding) string {
	if f.Variant == "" && f.Load == "" {
		return ""
	}
	return strings.Trim(f.Variant+"/"+f.Load, "/") + ": "
}
