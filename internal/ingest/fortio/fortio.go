// Package fortio reads Fortio's JSON results and what it prints.
package fortio

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Name is the format's and the tool's name.
const Name = "fortio"

const (
	headBytes  = 64 << 10
	maxBytes   = 16 << 20
	maxBuckets = 100_000
)

// result is the part of Fortio's result that is used.
type result struct {
	RunType           string
	Labels            string
	StartTime         time.Time
	RequestedDuration string
	URL, Destination  string // of HTTP, of gRPC
	NoCatchUp         bool
	RequestedQPS      string
	ActualQPS         float64
	ActualDuration    time.Duration
	NumThreads        int
	Version           string
	DurationHistogram *histogram
	// ErrorsDurationHistogram is absent from old versions.
	ErrorsDurationHistogram *histogram
	RetCodes                map[string]uint64
	Sizes                   histogram
	HeaderSizes             histogram
	SocketCount             uint64
}

// histogram has seconds as its unit; Start of the first and End of the last
// bucket are the extremes, the others' are the grid's.
type histogram struct {
	Count              uint64
	Min, Max, Sum, Avg float64
	Data               []bucket
	Percentiles        []percentile
}

type bucket struct {
	Start, End float64
	Count      uint64
}

type percentile struct{ Percentile, Value float64 }

// Format is the catalog entry.
func Format() ingest.Format {
	return ingest.Format{
		Name: Name, Summary: "Fortio's JSON results, and what it printed: a log of any number of runs",
		Detect: func(head []byte) bool { return isJSON(head) || isLog(head) },
		Read: func(r io.Reader, about ingest.About) ([]ingest.Measurement, error) {
			in := bufio.NewReaderSize(r, headBytes)
			head, err := in.Peek(headBytes)
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, fmt.Errorf("reading fortio's result: %w", err)
			}
			if !isJSON(head) {
				return readLog(in, about)
			}
			m, err := readJSON(in, about)
			if err != nil {
				return nil, err
			}
			return []ingest.Measurement{*m}, nil
		},
	}
}

func isJSON(head []byte) bool {
	head = bytes.TrimSpace(head)
	return len(head) > 0 && head[0] == '{' && bytes.Contains(head, []byte(`"RunType"`)) && bytes.Contains(head, []byte(`"RequestedQPS"`))
}

func isLog(head []byte) bool {
	return bytes.Contains(head, []byte("Fortio ")) && bytes.Contains(head, []byte(" queries per second"))
}

// Read reads one result in JSON.
func Read(r io.Reader, about ingest.About) (*model.LoadResult, error) {
	m, err := readJSON(r, about)
	if err != nil {
		return nil, err
	}
	return m.Result, nil
}

func readJSON(r io.Reader, about ingest.About) (*ingest.Measurement, error) {
	data, err := ingest.ReadAll(r, maxBytes)
	if err != nil {
		return nil, fmt.Errorf("reading fortio's result: %w", err)
	}
	var f result
	if err = json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("reading fortio's result: %w", err)
	}
	m, err := f.measurement(about)
	if err != nil {
		return nil, fmt.Errorf("reading fortio's result: %w", err)
	}
	m.Label(ingest.LabelFormat, "JSON")
	return m, nil
}

// measurement adds to a result what else is told of a run.
func (f *result) measurement(about ingest.About) (*ingest.Measurement, error) {
	out, err := f.convert(about)
	if err != nil {
		return nil, err
	}
	out.Tool.Note(ingest.NoRequests)
	m := &ingest.Measurement{Started: f.StartTime, Result: out}
	m.Label(ingest.LabelLabel, f.Labels)
	m.Label(ingest.LabelURL, f.URL+f.Destination)
	m.Label(ingest.LabelProtocol, f.RunType)
	m.Label(ingest.LabelAsked, f.RequestedQPS)
	m.Label(ingest.LabelAchieved, strconv.FormatFloat(f.ActualQPS, 'f', 2, 64))
	m.Label(ingest.LabelVersion, f.Version)
	m.Label(ingest.LabelThreads, strconv.Itoa(f.NumThreads))
	if f.SocketCount > 0 {
		m.Label(ingest.LabelSockets, strconv.FormatUint(f.SocketCount, 10))
	}
	if d, err := time.ParseDuration(f.RequestedDuration); err == nil {
		m.Label(ingest.LabelPlanned, strconv.FormatFloat(d.Seconds(), 'f', -1, 64))
	}
	return m, nil
}

func (f *result) convert(about ingest.About) (*model.LoadResult, error) {
	if f.DurationHistogram == nil {
		return nil, errors.New("it has no DurationHistogram: is it one of fortio's?")
	}
	if err := errors.Join(f.DurationHistogram.check("DurationHistogram"), f.ErrorsDurationHistogram.check("ErrorsDurationHistogram")); err != nil {
		return nil, err
	}
	about.Arrival = model.ArrivalClosed
	if f.NumThreads > 0 {
		about.Connections = f.NumThreads
	}
	if f.ActualDuration > 0 {
		about.Duration = f.ActualDuration
	}
	out := ingest.NewResult(Name, about, model.BasisSent)
	out.Rate = 0
	t := out.Tool
	t.Version = f.Version
	t.Note("fortio is a closed loop, paced where a rate is asked for (" + f.RequestedQPS + " here): no request is due while its connection waits, so latencies count from sending")
	t.Note("latencies are known to fortio's buckets only, as coarse as a fifth of the value or its resolution; inside one they are spread evenly, as fortio itself does")
	out.Due, out.Sent = f.DurationHistogram.Count, f.DurationHistogram.Count
	out.Sockets = f.SocketCount
	out.BytesReceived = uint64(max(f.Sizes.Sum, 0))
	f.sizes(out)
	if err := f.codes(out); err != nil {
		return nil, err
	}
	f.latencies(out)
	if f.RequestedQPS == "max" { // in a closed loop that is not paced the two are one
		out.Response.Merge(out.Service)
	} else {
		t.Note(ingest.NoDue)
	}
	return out, f.figures(t)
}

func (h *histogram) check(name string) error {
	if h == nil {
		return nil
	}
	if len(h.Data) > maxBuckets {
		return fmt.Errorf("%s has %d buckets", name, len(h.Data))
	}
	var bad ingest.Problems
	var n uint64
	for i, b := range h.Data {
		_, lo := ingest.Seconds(b.Start)
		_, hi := ingest.Seconds(b.End)
		bad.Add(errors.Join(lo, hi))
		if b.End < b.Start || b.Count > h.Count-n {
			bad.Add(fmt.Errorf("%s, bucket %d: from %g to %g with a count of %d does not fit the rest", name, i, b.Start, b.End, b.Count))
			break
		}
		n += b.Count
	}
	if n != h.Count {
		bad.Add(fmt.Errorf("%s: its buckets hold %d values, its Count is %d", name, n, h.Count))
	}
	return bad.Err()
}

// codes sorts calls by what came of them. Codes below 100 are Fortio's own: -1
// for what was no answer at all.
func (f *result) codes(out *model.LoadResult) error {
	const bad, first = 400, 100
	var all uint64
	for text, n := range f.RetCodes {
		all += n
		code, err := strconv.Atoi(text)
		switch {
		case err != nil && (text == "SERVING" || text == "OK"): // of gRPC
			out.Succeeded += n
		case err != nil || code >= bad:
			out.Failed[model.CauseStatus] += n
		case code < first && strings.HasPrefix(f.RunType, "HTTP"):
			out.Failed[model.CauseProtocol] += n
			out.Tool.Note("calls without an answer (code " + text + ") are counted as protocol errors: fortio does not tell why they failed")
		default:
			out.Succeeded += n
		}
		if err == nil && code >= first {
			out.Statuses[code] += n
		}
	}
	if all != out.Due {
		return fmt.Errorf("RetCodes hold %d calls, DurationHistogram %d", all, out.Due)
	}
	return nil
}

// latencies takes the failures' buckets from those of all calls.
func (f *result) latencies(out *model.LoadResult) {
	all := append([]bucket(nil), f.DurationHistogram.Data...)
	if e := f.ErrorsDurationHistogram; e != nil {
		record(out.FailedResponse, e.Data)
		for _, b := range e.Data {
			if !remove(all, b) {
				out.Tool.Note(ingest.Mixed)
				break
			}
		}
	} else if out.FailedTotal() > 0 {
		out.Tool.Note(ingest.Mixed)
	}
	record(out.Service, all)
}

// remove takes a bucket's values out of the one that covers it.
func remove(from []bucket, b bucket) bool {
	middle := (b.Start + b.End) / 2 //nolint:mnd // the middle
	for i := range from {
		if from[i].Start <= middle && middle <= from[i].End && from[i].Count >= b.Count {
			from[i].Count -= b.Count
			return true
		}
	}
	return false
}

func record(h *hist.Histogram, data []bucket) {
	for _, b := range data {
		lo, _ := ingest.Seconds(b.Start) // checked
		hi, _ := ingest.Seconds(b.End)
		ingest.Spread(h, lo, hi, b.Count)
	}
}

func (f *result) sizes(out *model.LoadResult) {
	if f.Sizes.Count == 0 || f.Sizes.Max > 1<<50 || f.HeaderSizes.Max > 1<<50 || f.Sizes.Min < 0 || f.HeaderSizes.Min < 0 {
		return
	}
	out.HeaderBytesMin, out.HeaderBytesMax = int64(f.HeaderSizes.Min), int64(f.HeaderSizes.Max)
	// Sizes are of whole answers.
	out.BodyBytesMin, out.BodyBytesMax = max(int64(f.Sizes.Min-f.HeaderSizes.Max), 0), max(int64(f.Sizes.Max-f.HeaderSizes.Min), 0)
}

func (f *result) figures(t *model.Tool) error {
	h := f.DurationHistogram
	named := map[string]float64{"mean": h.Avg, "min": h.Min, "max": h.Max}
	for _, p := range h.Percentiles {
		named["p"+strconv.FormatFloat(p.Percentile, 'g', -1, 64)] = p.Value
	}
	var bad ingest.Problems
	for name, s := range named {
		d, err := ingest.Seconds(s)
		if err != nil {
			bad.Add(fmt.Errorf("%s: %w", name, err))
		}
		t.Figures[name] = d
	}
	return bad.Err()
}
