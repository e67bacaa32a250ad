package summary

import (
	"fmt"
	"io"
	"strings"
)

// WriteText writes the load for a terminal, in at most 100 columns.
func (l *Load) WriteText(w io.Writer) error {
	var b strings.Builder
	r := l.Result
	fmt.Fprintf(&b, "%.1f/s, %.3f %% of %d succeeded", l.rate(), l.success()*100, r.Due)
	if r.Succeeded > 0 {
		fmt.Fprintf(&b, "; response p50 %s, p99 %s", r.Response.Quantile(0.5), r.Response.Quantile(0.99))
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}
