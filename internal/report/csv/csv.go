// Package csv writes every value of every trial, one a line, for other tools.
package csv

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/report"
)

// Format is RFC 4180 CSV with a header line.
type Format struct{}

// Write writes the columns trial, block, order, variant, load, metric, unit,
// value and valid; values are in SI units.
func (Format) Write(_ context.Context, w io.Writer, m *report.Model) error {
	out := csv.NewWriter(w)
	unit := map[string]string{}
	for _, d := range m.Metrics {
		unit[d.Name] = d.Unit
	}
	order := map[int]int{}
	for _, t := range m.Trials {
		order[t.Index] = t.Order
	}
	rows := [][]string{{"trial", "block", "order", "variant", "load", "metric", "unit", "value", "valid"}}
	for _, c := range m.Cells {
		for _, v := range c.Values {
			rows = append(rows, []string{
				strconv.Itoa(v.Trial), strconv.Itoa(v.Block), strconv.Itoa(order[v.Trial]), c.Variant, c.Load, c.Metric, unit[c.Metric],
				strconv.FormatFloat(v.Value, 'g', -1, 64), strconv.FormatBool(!v.Invalid),
			})
		}
	}
	if err := out.WriteAll(rows); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	return nil
}
