package compare

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/windtunnel/windtunnel/internal/manifest"
	"github.com/windtunnel/windtunnel/internal/report"
)

// columns is how wide text and Markdown are at most.
const columns = 100

// Formats are the names that Write knows.
func Formats() []string { return []string{"text", "md", "junit", "json"} }

// Write writes the result in a format.
func (r Result) Write(w io.Writer, format string) error {
	var out []byte
	var err error
	switch format {
	case "json":
		out, err = json.MarshalIndent(r, "", " ")
		out = append(out, '\n')
	case "junit":
		out, err = r.junit()
	case "md":
		out = []byte(r.markdown())
	default:
		out = []byte(r.text())
	}
	if err != nil {
		return fmt.Errorf("writing the comparison as %s: %w", format, err)
	}
	_, err = w.Write(out)
	return err
}

// fit cuts what is too long.
func fit(text string, room int) string {
	text = strings.ReplaceAll(text, "\n", " ")
	if utf8.RuneCountInString(text) <= room {
		return text
	}
	return string([]rune(text)[:max(0, room-2)]) + ".."
}

// Headline says in one sentence what came out.
func (r Result) Headline() string {
	improved := r.count(func(c Comparison) bool { return c.Verdict == Improvement })
	unknown := r.count(func(c Comparison) bool { return c.Verdict == Unknown })
	text := fmt.Sprintf("%s, %s in %s", number(r.Regressions(), "regression"), number(improved, "improvement"), number(len(r.Comparisons), "comparison"))
	if unknown > 0 {
		text += fmt.Sprintf(", of which %d cannot be told", unknown)
	}
	return text + "."
}

// Doubts are what the verdicts leave open.
func (r Result) Doubts() []string {
	var all []string
	if r.Undeclared {
		all = append(all, "More differs than the declared factor: what changed cannot be put down to it.")
	}
	if n := r.Open(); n > 0 {
		all = append(all, fmt.Sprintf("%s cannot rule out a change for the worse of more than %s: more blocks would tell.", number(n, "comparison"), percent(r.Allow)))
	}
	if !r.Corrected && len(r.Comparisons) > 0 {
		all = append(all, "So few blocks reach no verdict corrected for so many comparisons: they are uncorrected.")
	}
	return append(all, "Intervals are about the blocks of these two runs. What changes from run to run anyway is not in",
		"them: `windtunnel history` of several runs of one version shows how much that is.")
}

func number(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func percent(share float64) string {
	return strings.TrimPrefix(signed(share), "+") + " %"
}

// signed is a share as a percentage with its sign and three significant digits.
func signed(share float64) string {
	v := share * 100
	places := 2
	if a := math.Abs(v); a >= 99.95 {
		places = 0
	} else if a >= 9.995 {
		places = 1
	}
	text := strconv.FormatFloat(v, 'f', places, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	switch {
	case text == "-0":
		return "0"
	case v > 0 && text != "0":
		return "+" + text
	}
	return text
}

// ChangeText is the change with its interval, e.g. "+5.2 % [+4.1, +6.3]".
func (c Comparison) ChangeText() string {
	switch {
	case c.Ratio != nil:
		return fmt.Sprintf("%s %% [%s, %s]", signed(c.Ratio.Value-1), signed(c.Ratio.Lo-1), signed(c.Ratio.Hi-1))
	case c.Difference != nil:
		return report.FormatDifference(c.Unit, *c.Difference)
	}
	return "-"
}

func (c Comparison) worseText() string {
	switch {
	case c.Verdict == Unknown:
		return "-"
	case c.Worse == nil:
		return "from 0"
	case *c.Worse <= 0:
		return "no worse"
	}
	return signed(*c.Worse) + " %"
}

func (c Comparison) value(e *report.Estimate) string {
	if e == nil {
		return "-"
	}
	return report.FormatValue(c.Unit, e.Value)
}

func header() []string {
	return []string{"variant", "metric", "A", "B", "change", "at worst", "verdict"}
}

func (c Comparison) row(mark func(string) string) []string {
	return []string{c.Variant, c.Metric, c.value(c.A), c.value(c.B), c.ChangeText(), c.worseText(), mark(c.Verdict)}
}

// loads are the loads in order.
func (r Result) loads() []string {
	var all []string
	for _, c := range r.Comparisons {
		if !slices.Contains(all, c.Load) {
			all = append(all, c.Load)
		}
	}
	return all
}

// tables has one table a load, as wide as there is room for: variants' names
// and then metrics' are cut where they must be.
func (r Result) table(load string, room int, mark func(string) string) [][]string {
	rows := [][]string{header()}
	for _, c := range r.Comparisons {
		if c.Load == load {
			rows = append(rows, c.row(mark))
		}
	}
	for _, column := range []int{0, 1} {
		const least = 8
		over := -room
		for _, w := range widths(rows) {
			over += w
		}
		if over > 0 {
			w := max(least, widths(rows)[column]-over)
			for _, row := range rows {
				row[column] = fit(row[column], w)
			}
		}
	}
	return rows
}

func widths(rows [][]string) []int {
	w := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			w[i] = max(w[i], utf8.RuneCountInString(cell))
		}
	}
	return w
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

func (r Result) reasons() []string {
	var all []string
	for _, c := range r.Comparisons {
		if c.Verdict == Unknown {
			all = append(all, fit(fmt.Sprintf("%s.%s.%s: %s", c.Variant, c.Load, c.Metric, c.Reason), columns-2))
		}
	}
	return all
}

// String names the run in one line.
func (r Run) String() string {
	return fmt.Sprintf("%s   %s   windtunnel %s   %s", r.Dir, r.Started.UTC().Format("2006-01-02 15:04 UTC"), r.Version, number(r.Blocks, "block"))
}

func (r Result) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s   %s\n%s\n%s\n", r.Study, r.Headline(), fit("A  "+r.A.String(), columns), fit("B  "+r.B.String(), columns))
	fmt.Fprintf(&b, "declared factor: %s; %s worse is allowed; B against A, unpaired, %.0f %% intervals\n", r.Factor, percent(r.Allow), r.Level*100)
	b.WriteString(manifest.Text(r.Changes, columns))
	for _, load := range r.loads() {
		const gap = 2
		rows := r.table(load, columns-gap*len(header()), func(v string) string { return v })
		w := widths(rows)
		fmt.Fprintf(&b, "\n%s\n", fit(load, columns))
		for _, row := range rows {
			padded := make([]string, len(row))
			for i, cell := range row {
				padded[i] = pad(cell, w[i])
			}
			b.WriteString("  " + strings.TrimRight(strings.Join(padded, "  "), " ") + "\n")
		}
	}
	b.WriteByte('\n')
	for _, text := range append(r.reasons(), r.Doubts()...) {
		b.WriteString(text + "\n")
	}
	return b.String()
}

// escape keeps text from becoming markup.
func escape(s string) string {
	return strings.NewReplacer("|", "/", "<", "(", ">", ")", "*", "x", "`", "'").Replace(s)
}

func (r Result) markdown() string {
	var b strings.Builder
	mark := func(v string) string {
		return map[string]string{Regression: "❌ " + v, Improvement: "✅ " + v}[v] + map[string]string{None: v, Unknown: v}[v]
	}
	fmt.Fprintf(&b, "## %s: B against A\n\n**%s**\n\n", escape(r.Study), r.Headline())
	fmt.Fprintf(&b, "%s\n%s\n\n", fit("* A: "+escape(r.A.String()), columns), fit("* B: "+escape(r.B.String()), columns))
	fmt.Fprintf(&b, "Declared factor: %s. %s worse is allowed. Unpaired, %.0f %% intervals.\n", r.Factor, percent(r.Allow), r.Level*100)
	for _, load := range r.loads() {
		const frame = 3
		rows := r.table(load, columns-frame*len(header())-1, mark)
		rows = slices.Insert(rows, 1, slices.Repeat([]string{"---"}, len(header())))
		fmt.Fprintf(&b, "\n### %s\n\n", fit(escape(load), columns-4))
		for _, row := range rows {
			for _, cell := range row {
				b.WriteString("| " + escape(cell) + " ")
			}
			b.WriteString("|\n")
		}
	}
	if len(r.Changes) > 0 {
		b.WriteString("\n### What differs between the runs\n\n```\n" + manifest.Text(r.Changes, columns) + "```\n")
	}
	b.WriteByte('\n')
	for _, text := range append(r.reasons(), r.Doubts()...) {
		if text != "" {
			b.WriteString(fit(escape(text), columns) + "\n")
		}
	}
	return b.String()
}

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string   `xml:"classname,attr"`
	Name    string   `xml:"name,attr"`
	Failure *message `xml:"failure"`
	Skipped *message `xml:"skipped"`
	Out     string   `xml:"system-out"`
}

type message struct {
	Text string `xml:"message,attr"`
}

// junit has a test case a comparison: a regression is a failure, what cannot be
// told is skipped.
func (r Result) junit() ([]byte, error) {
	s := junitSuite{Name: "windtunnel compare " + r.Study, Tests: len(r.Comparisons), Failures: r.Regressions()}
	for _, c := range r.Comparisons {
		one := junitCase{Class: r.Study + "." + c.Variant + "." + c.Load, Name: c.Metric}
		one.Out = fmt.Sprintf("%s: %s to %s, %s, at worst %s", c.Verdict, c.value(c.A), c.value(c.B), c.ChangeText(), c.worseText())
		switch c.Verdict {
		case Regression:
			one.Failure = &message{fmt.Sprintf("%s, beyond the %s that are allowed", c.ChangeText(), percent(r.Allow))}
		case Unknown:
			one.Skipped = &message{c.Reason}
			s.Skipped++
		}
		s.Cases = append(s.Cases, one)
	}
	out, err := xml.MarshalIndent(s, "", "  ")
	return append([]byte(xml.Header), append(out, '\n')...), err
}
