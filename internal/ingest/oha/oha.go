// Package oha reads what oha writes with --output-format json (-j in older
// versions) or csv.
package oha

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

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Name is the format's and the tool's name.
const Name = "oha"

const (
	maxBytes  = 16 << 20
	headBytes = 64 << 10
	header    = "request-start,DNS,DNS+dialup,"
)

// Format is the catalog entry.
func Format() ingest.Format {
	return ingest.Format{
		Name: Name, Summary: "oha's JSON, and its CSV of single requests",
		Detect: func(head []byte) bool {
			return bytes.HasPrefix(head, []byte(header)) || bytes.Contains(head, []byte(`"latencyPercentiles"`)) && bytes.Contains(head, []byte(`"summary"`))
		},
		Read: readAll,
	}
}

func readAll(r io.Reader, about ingest.About) ([]ingest.Measurement, error) {
	in := bufio.NewReaderSize(r, headBytes)
	read, what := readJSON, "result"
	if head, _ := in.Peek(len(header)); string(head) == header {
		read, what = readCSV, "CSV"
	}
	m, err := read(in, about)
	if err != nil {
		return nil, fmt.Errorf("reading oha's %s: %w", what, err)
	}
	return []ingest.Measurement{*m}, nil
}

// result is what all versions have; numbers that there are none of are null.
type result struct {
	Summary struct {
		Total   float64 `json:"total"` // seconds
		Slowest float64 `json:"slowest"`
		Fastest float64 `json:"fastest"`
		Average float64 `json:"average"`
		PerSec  float64 `json:"requestsPerSec"`
		Data    float64 `json:"totalData"`
		Size    float64 `json:"sizePerRequest"`
		Success float64 `json:"successRate"`
	} `json:"summary"`
	Percentiles map[string]*float64 `json:"latencyPercentiles"`
	Statuses    map[string]uint64   `json:"statusCodeDistribution"`
	Errors      map[string]uint64   `json:"errorDistribution"`
}

func readJSON(r io.Reader, about ingest.About) (*ingest.Measurement, error) {
	data, err := ingest.ReadAll(r, maxBytes)
	if err != nil {
		return nil, err
	}
	var f result
	if err = json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if about.Duration, err = ingest.Seconds(f.Summary.Total); err != nil {
		return nil, fmt.Errorf("summary, total: %w", err)
	}
	out := ingest.NewResult(Name, about, model.BasisSent)
	if err = f.count(out); err != nil {
		return nil, err
	}
	if err = f.figures(out.Tool); err != nil {
		return nil, err
	}
	const most = 1 << 53
	if v := f.Summary.Data; v > 0 && v < most {
		out.BytesReceived = uint64(v)
	}
	t := out.Tool
	notes(t)
	t.Note(ingest.FiguresOnly)
	t.Note(ingest.NoRequests)
	t.Note("the histogram has eleven buckets of equal width: too coarse to be a distribution, it is not read")
	m := &ingest.Measurement{Result: out}
	m.Label(ingest.LabelFormat, "JSON")
	m.Label(ingest.LabelAchieved, strconv.FormatFloat(f.Summary.PerSec, 'f', 2, 64))
	return m, nil
}

func notes(t *model.Tool) {
	t.Note("latencies are of requests that were answered, with connecting where one had to be made; failures have none")
	t.Note("the result tells neither the load model (an open loop with -q, else a closed one), nor the connections, nor whether latencies count from when requests were due (--latency-correction); they are taken to count from sending")
}

// count sorts requests by what came of them. Those under way at the end are
// among oha's errors; they are no failures.
func (f *result) count(out *model.LoadResult) error {
	const bad, most = 400, 1 << 48
	for text, n := range f.Statuses {
		code, err := strconv.Atoi(text)
		if err != nil || code < 100 || code > 999 || n > most {
			return fmt.Errorf("statusCodeDistribution: %d of status %q", n, text)
		}
		out.Statuses[code] += n
		if code >= bad {
			out.Failed[model.CauseStatus] += n
			out.Tool.Note(ingest.Mixed)
			continue
		}
		out.Succeeded += n
	}
	for text, n := range f.Errors {
		if n > most {
			return fmt.Errorf("errorDistribution: %d of %.60q", n, text)
		}
		if strings.Contains(text, "aborted due to deadline") {
			out.Tool.Note(fmt.Sprintf("%d requests were under way at the end; they are left out", n))
			continue
		}
		cause, known := ingest.CauseOf(text)
		if !known {
			out.Tool.Note(fmt.Sprintf("errors such as %.100q are counted as protocol errors", text))
		}
		out.Failed[cause] += n
	}
	out.Sent = out.Succeeded + out.FailedTotal()
	out.Due = out.Sent
	if out.Due == 0 {
		return errors.New("it has no requests: neither in statusCodeDistribution nor in errorDistribution")
	}
	return nil
}

func (f *result) figures(t *model.Tool) error {
	named := map[string]float64{"mean": f.Summary.Average, "min": f.Summary.Fastest, "max": f.Summary.Slowest}
	for name, v := range f.Percentiles {
		if v != nil && len(named) < 100 {
			named[name] = *v
		}
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

// readCSV reads a line a request: start in seconds since the load began, parts
// of it, its duration, bytes and status. Only requests that were answered are there.
func readCSV(r io.Reader, about ingest.About) (*ingest.Measurement, error) {
	about.From, about.To = time.Time{}, time.Time{}
	rec := ingest.NewRecorder(Name, about, model.BasisSent)
	var log ingest.RequestLog
	n := uint64(0)
	err := ingest.Lines(r, func(line string) error {
		if strings.HasPrefix(line, header) || line == "" {
			return nil
		}
		q, err := record(line)
		if err != nil {
			return err
		}
		rec.Add(q)
		log.Add(ingest.Request{
			Seq: n, Sent: time.Unix(0, q.Sent), Latency: time.Duration(q.Done - q.Sent), Code: q.Status,
			Error: string(q.Failure), Bytes: int64(q.In), //nolint:gosec // G115: at most 2^48
		})
		n++
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := rec.Result()
	if out.Due == 0 {
		return nil, errors.New("it has no requests")
	}
	t := out.Tool
	notes(t)
	t.Note("only requests that were answered are in the CSV: how many failed is not known")
	t.Note("times count from when the load began: their order and distance are known, not when requests were sent")
	m := &ingest.Measurement{Result: out, Requests: log.Sorted(t)}
	m.Label(ingest.LabelFormat, "CSV")
	return m, nil
}

func record(line string) (q ingest.Record, err error) {
	const start, duration, size, status, columns = 0, 4, 5, 6, 7
	f := strings.Split(line, ",")
	if len(f) != columns {
		return q, fmt.Errorf("%d columns instead of %d", len(f), columns)
	}
	var at, took time.Duration
	for column, into := range map[int]*time.Duration{start: &at, duration: &took} {
		s, bad := strconv.ParseFloat(f[column], 64)
		if bad != nil {
			return q, fmt.Errorf("column %d: %w", column+1, bad)
		}
		if *into, err = ingest.Seconds(s); err != nil {
			return q, fmt.Errorf("column %d: %w", column+1, err)
		}
	}
	if q.In, err = strconv.ParseUint(f[size], 10, 48); err != nil {
		return q, fmt.Errorf("column %d: %w", size+1, err)
	}
	if q.Status, err = strconv.Atoi(f[status]); err != nil || q.Status < 0 || q.Status > 999 {
		return q, fmt.Errorf("column %d: %.20q is no status", status+1, f[status])
	}
	q.Sent, q.Done = int64(at), int64(at+took)
	if q.Status >= 400 || q.Status == 0 {
		q.Failure = model.CauseStatus
	}
	return q, nil
}
