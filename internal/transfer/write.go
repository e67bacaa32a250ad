package transfer

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/windtunnel/windtunnel/internal/report"
)

// Formats are the names that Write knows.
func Formats() []string { return []string{"text", "md", "json"} }

// Write writes the result in a format.
func (r Result) Write(w io.Writer, format string) error {
	var out []byte
	var err error
	switch format {
	case "json":
		out, err = json.MarshalIndent(r, "", " ")
		out = append(out, '\n')
	case "md":
		out = []byte(r.markdown())
	default:
		out = []byte(r.text())
	}
	if err != nil {
		return fmt.Errorf("writing the transfer as %s: %w", format, err)
	}
	if _, err := w.Write(out); err != nil {
		return fmt.Errorf("writing the transfer as %s: %w", format, err)
	}
	return nil
}

// Headline says in one sentence what came out.
func (r Result) Headline() string {
	same := r.Count(func(w Row) bool { return w.Order == OrderSame || w.Order == OrderNeither })
	reversed := r.Count(func(w Row) bool { return w.Order == OrderReversed })
	ratios := r.Count(func(w Row) bool { return w.Ratio == RatioSame })
	differ := r.Count(func(w Row) bool { return w.Ratio == RatioDiffers })
	open := r.Count(func(w Row) bool { return w.Ratio == RatioOpen || w.Ratio == RatioUnknown })
	return fmt.Sprintf("From %s to %s: %d of %d orderings agree, %d are reversed; %d ratios carried over within %.0f %%, %d differ, %d are open.",
		r.A.Target, r.B.Target, same, len(r.Rows), reversed, ratios, r.Margin*100, differ, open) //nolint:mnd // per cent
}

// rows are the table's, the heading first.
func (r Result) rows() [][]string {
	all := [][]string{{"variant/load", "metric", r.A.Target + " ratio", r.B.Target + " ratio", "ordering", "ratio"}}
	for _, w := range r.Rows {
		all = append(all, []string{w.Variant + "/" + w.Load, w.Metric, estimate(w.A), estimate(w.B), w.Order, w.Ratio})
	}
	return all
}

func estimate(e *report.Estimate) string {
	if e == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f [%.2f, %.2f]", e.Value, e.Lo, e.Hi)
}

func (r Result) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s   %s\n\n", r.Study, r.Headline())
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range r.rows() {
		_, _ = io.WriteString(w, strings.Join(row, "\t")+"\n") // a strings.Builder does not fail
	}
	_ = w.Flush()
	b.WriteByte('\n')
	for _, n := range r.notes() {
		fmt.Fprintln(&b, n)
	}
	return b.String()
}

func (r Result) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s** %s\n\n", r.Study, r.Headline())
	for i, row := range r.rows() {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	b.WriteByte('\n')
	for _, n := range r.notes() {
		fmt.Fprintf(&b, "- %s\n", n)
	}
	return b.String()
}

func (r Result) notes() []string {
	all := []string{fmt.Sprintf("Ratios are to the baseline of the same run, 95 %% intervals, of %d and %d blocks. Absolute values are not compared.", r.A.Blocks, r.B.Blocks)}
	return append(all, r.Missing...)
}
