package history

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/windtunnel/windtunnel/internal/manifest"
	"github.com/windtunnel/windtunnel/internal/report"
)

// columns is how wide text and Markdown are at most.
const columns = 100

// Formats are the names that Write knows.
func Formats() []string { return []string{"text", "md", "json"} }

// Write writes the history. Text and Markdown list the points of series that
// changed, or of all.
func (r *Result) Write(w io.Writer, format string, points bool) error {
	var out string
	switch format {
	case "json":
		raw, err := json.MarshalIndent(r, "", " ")
		if err != nil {
			return fmt.Errorf("writing the history as json: %w", err)
		}
		out = string(raw) + "\n"
	case "md":
		out = r.markdown(points)
	default:
		out = r.text(points)
	}
	_, err := io.WriteString(w, out)
	return err
}

// Sparkline draws values as bars of eight heights, from the smallest to the
// largest; of more than there is room for, the last.
func Sparkline(values []float64, room int) string {
	const bars = "▁▂▃▄▅▆▇█"
	if len(values) > room {
		values = values[len(values)-room:]
	}
	if len(values) == 0 {
		return ""
	}
	lo, hi := slices.Min(values), slices.Max(values)
	var b strings.Builder
	for _, v := range values {
		height := 0
		if hi > lo {
			height = min(7, int((v-lo)/(hi-lo)*8))
		}
		b.WriteRune([]rune(bars)[height])
	}
	return b.String()
}

func (s Series) sparkline() string {
	values := make([]float64, len(s.Points))
	for i, p := range s.Points {
		values[i] = p.Estimate.Value
	}
	return Sparkline(values, columns/2)
}

// Headline says in one sentence what came out.
func (r *Result) Headline() string {
	changes, worse := 0, 0
	for _, s := range r.Series {
		for _, c := range s.Changes {
			changes++
			if c.Worse {
				worse++
			}
		}
	}
	text := fmt.Sprintf("%d runs, %d series, %d change points (%d for the worse)", len(r.Runs)-r.Left(), len(r.Series), changes, worse)
	if n := r.Left(); n > 0 {
		text += fmt.Sprintf("; %d runs left out", n)
	}
	return text
}

func (r *Result) text(points bool) string {
	var b strings.Builder
	first, last := r.Runs[0], r.Runs[len(r.Runs)-1]
	fmt.Fprintf(&b, "%s   %s\n%s to %s; change points have p <= %g in a permutation test\n",
		r.Study, r.Headline(), day(first), day(last), r.Alpha)
	for _, run := range r.flagged() {
		b.WriteString(run)
	}
	for _, s := range r.Series {
		fmt.Fprintf(&b, "\n%s under %s, %s\n  %s   last %s\n", s.Variant, s.Load, s.Metric, s.sparkline(), s.value(s.Points[len(s.Points)-1].Estimate))
		for _, c := range s.Changes {
			fmt.Fprintf(&b, "  %s\n", s.changeText(c))
			b.WriteString(indent(manifest.Text(c.Differs, columns-2)))
		}
		if points || len(s.Changes) > 0 {
			for i, p := range s.Points {
				fmt.Fprintf(&b, "  %s %s\n", s.mark(i), fit(r.pointText(s, p), columns-4))
			}
		}
	}
	return b.String()
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("  " + line)
	}
	return b.String()
}

// flagged are the runs that differ from the last in more than versions.
func (r *Result) flagged() []string {
	var all []string
	for _, run := range r.Runs {
		if len(run.Changes) == 0 {
			continue
		}
		what := "differs from the last run"
		if run.Left {
			what = "left out: it differs from the last run (--anyway keeps it)"
		}
		all = append(all, fit(run.Dir+" "+what, columns)+"\n"+indent(manifest.Text(run.Changes, columns-2)))
	}
	return all
}

func day(r Run) string { return r.Started.UTC().Format("2006-01-02 15:04") }

func (s Series) value(e report.Estimate) string { return report.FormatEstimate(s.Unit, e) }

// mark is * where a new level begins.
func (s Series) mark(point int) string {
	if slices.ContainsFunc(s.Changes, func(c Change) bool { return c.Point == point }) {
		return "*"
	}
	return " "
}

func (r *Result) pointText(s Series, p Point) string {
	run := r.Runs[p.Run]
	return fmt.Sprintf("%s  %-14s %s", day(run), run.Version, s.value(p.Estimate))
}

// changeText says when, with which version and by how much.
func (s Series) changeText(c Change) string {
	version := "windtunnel " + c.Version
	if c.Since != c.Version {
		version += " (was " + c.Since + ")"
	}
	direction := "better"
	if c.Worse {
		direction = "worse"
	}
	size := fmt.Sprintf("%s to %s", report.FormatValue(s.Unit, c.Before), report.FormatValue(s.Unit, c.After))
	switch {
	case c.Ratio != nil:
		size += ", " + report.FormatRatio(*c.Ratio)
	case c.Difference != nil:
		size += ", " + report.FormatDifference(s.Unit, *c.Difference)
	}
	return fit(fmt.Sprintf("* %s  %s: %s", c.Date.UTC().Format("2006-01-02 15:04"), version, direction), columns-16) + "\n    " + size + fmt.Sprintf(", p %.2g", c.P)
}

// fit cuts what is too long.
func fit(text string, room int) string {
	if utf8.RuneCountInString(text) <= room {
		return text
	}
	return string([]rune(text)[:max(0, room-2)]) + ".."
}

// escape keeps text from becoming markup.
func escape(s string) string {
	return strings.NewReplacer("|", "/", "<", "(", ">", ")", "*", "x", "`", "'").Replace(s)
}

func (r *Result) markdown(points bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n**%s**\n", escape(r.Study), r.Headline())
	if flagged := r.flagged(); len(flagged) > 0 {
		b.WriteString("\n```\n" + strings.Join(flagged, "") + "```\n")
	}
	for _, s := range r.Series {
		fmt.Fprintf(&b, "\n### %s\n\n`%s` last %s\n", fit(escape(s.Variant+" under "+s.Load+", "+s.Metric), columns-4), s.sparkline(), s.value(s.Points[len(s.Points)-1].Estimate))
		for i, c := range s.Changes {
			if i == 0 {
				b.WriteByte('\n')
			}
			b.WriteString("* **change** " + escape(strings.TrimPrefix(s.changeText(c), "* ")) + "\n")
		}
		if !points && len(s.Changes) == 0 {
			continue
		}
		b.WriteString("\n|  | run | version | estimate, interval |\n|---|---|---|---|\n")
		for i, p := range s.Points {
			run := r.Runs[p.Run]
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", map[string]string{"*": "change"}[s.mark(i)], day(run), escape(fit(run.Version, 20)), s.value(p.Estimate))
		}
	}
	return b.String()
}
