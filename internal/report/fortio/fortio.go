// Package fortio writes results that Fortio's own page shows: one file a
// variant, load and kind of latency, merged over the blocks.
package fortio

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/report"
)

// Format is Fortio's JSON, a result a line; as files, a result each.
type Format struct{}

// result has the fields that Fortio's page and its importers use, by its names.
type result struct {
	RunType                 string
	Labels                  string
	StartTime               time.Time
	RequestedQPS            string
	RequestedDuration       string
	ActualQPS               float64
	ActualDuration          time.Duration
	NumThreads              int
	Version                 string
	DurationHistogram       histogram
	ErrorsDurationHistogram *histogram `json:",omitempty"`
	Exactly                 int64
	RetCodes                map[string]uint64
	Sizes                   histogram
	HeaderSizes             histogram
	SocketCount             uint64
	URL                     string // shown as what was loaded
	Jitter, Uniform         bool
}

// histogram is in seconds.
type histogram struct {
	Count                      uint64
	Min, Max, Sum, Avg, StdDev float64
	Data                       []bucket
	Percentiles                []percentile `json:",omitempty"`
}

type bucket struct {
	Start, End, Percent float64
	Count               uint64
}

type percentile struct{ Percentile, Value float64 }

// Write writes one result a line.
func (f Format) Write(ctx context.Context, w io.Writer, m *report.Model) error {
	files, err := f.Files(ctx, m)
	if err != nil {
		return err
	}
	for _, file := range files {
		var line bytes.Buffer
		if err = json.Compact(&line, file.Data); err == nil {
			_, err = w.Write(append(line.Bytes(), '\n'))
		}
		if err != nil {
			return fmt.Errorf("writing Fortio's JSON: %w", err)
		}
	}
	return nil
}

// Files are what `fortio report -data-dir` serves. Where response and service
// time are not the same, both are written: Fortio's own is the service time.
func (Format) Files(_ context.Context, m *report.Model) ([]report.File, error) {
	var files []report.File
	for _, v := range m.Variants {
		for _, l := range m.Loads {
			kinds := []string{"service", "response"}
			if l.ResponseIsService {
				kinds = kinds[:1]
			}
			for _, kind := range kinds {
				r, found := merge(m, v, l, kind)
				if !found {
					continue
				}
				data, err := json.MarshalIndent(r, "", "  ")
				if err != nil {
					return nil, fmt.Errorf("writing Fortio's JSON: %w", err)
				}
				files = append(files, report.File{Name: fmt.Sprintf("%s-%s-%s.json", l.Name, v.Name, kind), Data: append(data, '\n')})
			}
		}
	}
	return files, nil
}

// merge joins the trials that the report uses.
func merge(m *report.Model, v report.Variant, l report.Load, kind string) (result, bool) {
	good, bad := &hist.Histogram{}, &hist.Histogram{}
	out := result{RunType: "HTTP", RetCodes: map[string]uint64{}, RequestedQPS: "max", Version: "windtunnel " + m.Run.Version, URL: l.Text}
	blocks := 0
	for _, r := range m.Results {
		h := r.Load.Service
		if kind == "response" {
			h = r.Load.Response
		}
		if r.Variant != v.Name || r.Trial.Load != l.Name || r.State != "done" || h == nil || h.Count() == 0 {
			continue
		}
		if blocks == 0 {
			out.first(r)
		}
		blocks++
		good.Merge(h)
		if r.Load.FailedResponse != nil {
			bad.Merge(r.Load.FailedResponse)
		}
		out.ActualDuration += r.Load.Elapsed
		out.SocketCount += r.Load.Sockets
		for code, n := range r.Load.Statuses {
			out.RetCodes[strconv.Itoa(code)] += n
		}
	}
	if blocks == 0 {
		return out, false
	}
	out.codes(good.Count(), bad.Count())
	out.DurationHistogram = histogramOf(good, bad)
	if bad.Count() > 0 {
		errors := histogramOf(bad)
		out.ErrorsDurationHistogram = &errors
	}
	out.RequestedDuration = out.ActualDuration.String()
	if s := out.ActualDuration.Seconds(); s > 0 {
		out.ActualQPS = float64(good.Count()) / s
	}
	out.Labels = fmt.Sprintf("%s, %s, %s time, %d blocks merged (windtunnel %s)", v.Name, l.Name, kind, blocks, m.Run.ID)
	return out, true
}

// first takes from the first block what is the same in all.
func (r *result) first(of report.Result) {
	r.StartTime, r.NumThreads = of.Started, of.Load.Connections
	if of.Load.Rate > 0 {
		r.RequestedQPS = strconv.FormatFloat(of.Load.Rate, 'f', -1, 64)
	}
}

// codes makes the codes add up to the calls: what had no status is OK or, in
// Fortio's way, -1. Protocols without statuses are shown as Fortio's TCP runs.
func (r *result) codes(good, bad uint64) {
	var succeeded, failed uint64
	const isFailure = 400
	for code, n := range r.RetCodes {
		if number, err := strconv.Atoi(code); err == nil && number < isFailure {
			succeeded += n
		} else {
			failed += n
		}
	}
	if succeeded != good || failed > bad { // no statuses, or not of the same requests
		r.RunType, r.RetCodes, failed = "TCP", map[string]uint64{"OK": good}, 0
	}
	if bad > failed {
		r.RetCodes["-1"] += bad - failed
	}
}

// growth is how much wider each bucket's end is at least than its start: one
// per cent, far finer than Fortio's own.
const growth = 1.01

// histogramOf joins histograms in Fortio's form: buckets without gaps between
// values, of which the first starts at the minimum and the last ends at the
// maximum.
func histogramOf(all ...*hist.Histogram) histogram {
	total := &hist.Histogram{}
	for _, h := range all {
		total.Merge(h)
	}
	n := float64(total.Count())
	out := histogram{Count: total.Count(), Min: total.Min().Seconds(), Max: total.Max().Seconds(), Avg: total.Mean().Seconds(), Data: []bucket{}}
	out.Sum = out.Avg * n
	var squares float64
	var seen uint64
	for b := range total.Each {
		middle := (b.Low + b.High).Seconds() / 2 //nolint:mnd // the middle
		squares += (middle - out.Avg) * (middle - out.Avg) * float64(b.Count)
		seen += b.Count
		last := len(out.Data) - 1
		end := math.Min((b.High + 1).Seconds(), out.Max)
		if last < 0 || b.Low.Seconds() > out.Data[last].Start*growth {
			start := math.Max(b.Low.Seconds(), out.Min)
			out.Data, last = append(out.Data, bucket{Start: start}), last+1
		}
		out.Data[last].End = math.Max(end, out.Data[last].Start)
		out.Data[last].Count += b.Count
		out.Data[last].Percent = float64(seen) / n * 100 //nolint:mnd // per cent
	}
	out.StdDev = math.Sqrt(squares / math.Max(n, 1))
	for _, p := range []float64{50, 75, 90, 99, 99.9} {
		out.Percentiles = append(out.Percentiles, percentile{p, total.Quantile(p / 100).Seconds()}) //nolint:mnd // per cent
	}
	return out
}
