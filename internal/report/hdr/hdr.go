// Package hdr writes the latencies of every trial as an HdrHistogram log.
package hdr

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/report"
)

// Format is an HdrHistogram log (.hlog), version 1.3.
type Format struct{}

// Write writes one interval a trial and kind. Its tag is
// variant/load/kind/trial/state, where kind is response, service or failed.
func (Format) Write(_ context.Context, w io.Writer, m *report.Model) error {
	var all []hist.Tagged
	for _, r := range m.Results {
		for _, k := range []struct {
			name string
			of   *hist.Histogram
		}{{"response", r.Load.Response}, {"service", r.Load.Service}, {"failed", r.Load.FailedResponse}} {
			if k.of == nil || k.of.Count() == 0 {
				continue
			}
			tag := fmt.Sprintf("%s/%s/%s/%d/%s", r.Variant, r.Trial.Load, k.name, r.Index, r.State)
			all = append(all, hist.Tagged{Tag: tag, Start: r.Started, Interval: r.Load.Elapsed, Histogram: k.of})
		}
	}
	slices.SortStableFunc(all, func(a, b hist.Tagged) int { return a.Start.Compare(b.Start) })
	if err := hist.WriteLog(w, all); err != nil {
		return fmt.Errorf("writing the histogram log: %w", err)
	}
	return nil
}
