// Package k6 reads the points that k6 writes with --out json or --out csv, also
// compressed, and its summaries at the end of a test.
package k6

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Name is the format's and the tool's name.
const Name = "k6"

// point is one value of one metric.
type point struct {
	metric, status, code string
	err, url, proto      string // with the first point of a request
	at                   int64  // nanoseconds since 1970
	value                float64
}

// Format is the catalog entry.
func Format() ingest.Format {
	return ingest.Format{
		Name: Name, Summary: "k6's points (JSON lines, CSV) and summaries (--summary-export, handleSummary, machine-readable)",
		Detect: func(head []byte) bool { return isPoints(string(head)) || isSummary(string(head)) },
		Read: func(r io.Reader, about ingest.About) ([]ingest.Measurement, error) {
			in := bufio.NewReaderSize(r, headBytes)
			head, err := in.Peek(headBytes)
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, fmt.Errorf("reading k6's result: %w", err)
			}
			if !isPoints(string(head)) {
				return readSummary(in, about)
			}
			m, err := readPoints(in, about)
			if err != nil {
				return nil, err
			}
			return []ingest.Measurement{*m}, nil
		},
	}
}

const headBytes = 64 << 10

func isPoints(head string) bool {
	first, _, _ := strings.Cut(head, "\n")
	return strings.HasPrefix(first, "metric_name,timestamp,") ||
		strings.HasPrefix(first, "{") && strings.Contains(first, `"metric"`) && (strings.Contains(first, `"Metric"`) || strings.Contains(first, `"Point"`))
}

// Read reads a run's points. A request is made of the points with one time that
// follow one another, as k6 writes them.
func Read(r io.Reader, about ingest.About) (*model.LoadResult, error) {
	m, err := readPoints(r, about)
	if err != nil {
		return nil, err
	}
	return m.Result, nil
}

func readPoints(r io.Reader, about ingest.About) (*ingest.Measurement, error) {
	if about.Arrival == "" {
		about.Arrival = model.ArrivalClosed
	}
	in, err := ingest.Unzip(r)
	if err != nil {
		return nil, fmt.Errorf("reading k6's points: %w", err)
	}
	rd := reader{rec: ingest.NewRecorder(Name, about, model.BasisSent)}
	parse := rd.csv
	if head, _ := in.Peek(1); len(head) > 0 && head[0] == '{' {
		parse = parseJSON
	}
	err = ingest.Lines(in, func(line string) error {
		p, ok, bad := parse(line)
		if bad != nil || !ok {
			return bad
		}
		return rd.take(p)
	})
	if err == nil {
		err = rd.finish()
	}
	if err != nil {
		return nil, fmt.Errorf("reading k6's points: %w", err)
	}
	out := rd.rec.Result()
	connections(out, rd.users)
	out.Tool.Note("latency is k6's http_req_duration, from the first byte sent to the last received; connecting is not in it")
	if about.Arrival == model.ArrivalOpen {
		out.Tool.Note(ingest.NoDue)
		out.Tool.Note("k6 drops an iteration that no virtual user is free for: those count as unsent")
	} else {
		out.Response.Merge(out.Service)
	}
	out.Tool.Note(ingest.NoBytes)
	m := &ingest.Measurement{Result: out, Requests: rd.log.Sorted(out.Tool)}
	if len(m.Requests) > 0 {
		m.Started = m.Requests[0].Sent
	}
	m.Label(ingest.LabelFormat, "points")
	m.Label(ingest.LabelURL, rd.url)
	m.Label(ingest.LabelProtocol, rd.proto)
	return m, nil
}

// connections are the virtual users': each has its own.
func connections(out *model.LoadResult, users float64) {
	const most = 1 << 30
	if out.Connections == 0 && users >= 1 && users < most {
		out.Connections = int(users)
		out.Tool.Note("connections: a virtual user has one of its own to each host; their highest number is taken")
	}
}

type reader struct {
	rec     *ingest.Recorder
	log     ingest.RequestLog
	n       uint64
	url     string
	proto   string
	users   float64 // virtual, the most at a time
	columns []string
	current *request
}

// request is what is known of one so far.
type request struct {
	at               int64 // of all its points: its end
	status, code     string
	err              string
	duration         float64 // ms
	complete, failed bool
}

// take adds a point to its request. http_reqs comes first, http_req_failed or
// another request's http_reqs after it.
func (r *reader) take(p point) error {
	switch p.metric {
	case "dropped_iterations":
		return r.dropped(p)
	case "vus":
		r.users = max(r.users, p.value)
		return nil
	}
	if p.metric == "http_reqs" {
		if err := r.finish(); err != nil {
			return err
		}
		r.current = &request{at: p.at, status: p.status, code: p.code, err: p.err}
		if r.url == "" {
			r.url, r.proto = strings.Clone(p.url), strings.Clone(p.proto)
		}
		return nil
	}
	if r.current == nil || r.current.at != p.at || !strings.HasPrefix(p.metric, "http_req_") {
		return nil
	}
	if !(p.value >= 0 && p.value < 1e9) {
		return fmt.Errorf("%s of %g ms", p.metric, p.value)
	}
	switch p.metric {
	case "http_req_duration":
		r.current.duration, r.current.complete = p.value, true
	case "http_req_failed":
		r.current.failed = p.value > 0
	}
	return nil
}

// dropped counts iterations that no virtual user was free for.
func (r *reader) dropped(p point) error {
	if !(p.value >= 0 && p.value < 1e12) {
		return fmt.Errorf("%g dropped iterations", p.value)
	}
	if r.rec.Measured(p.at) {
		r.rec.Unsent(uint64(p.value))
	}
	return nil
}

// finish counts the request whose points have all been seen.
func (r *reader) finish() error {
	q := r.current
	r.current = nil
	if q == nil {
		return nil
	}
	if !q.complete {
		return fmt.Errorf("a request that ended at %s has no http_req_duration", time.Unix(0, q.at).UTC().Format(time.RFC3339Nano))
	}
	status := 0
	if q.status != "" {
		var err error
		if status, err = strconv.Atoi(q.status); err != nil || status < 0 || status > 999 {
			return fmt.Errorf("status %q", q.status)
		}
	}
	d := int64(q.duration * 1e6) //nolint:mnd // milliseconds
	one := ingest.Record{Sent: q.at - d, Done: q.at, Status: status}
	if q.failed || q.code != "" {
		one.Failure = cause(q.code, status)
	}
	r.rec.Add(one)
	r.log.Add(ingest.Request{Seq: r.n, Sent: time.Unix(0, q.at-d), Latency: time.Duration(d), Code: status, Error: q.reason(one.Failure)})
	r.n++
	return nil
}

// reason is why a request failed, as k6 says it.
func (q *request) reason(failure model.Cause) string {
	switch {
	case failure == "":
		return ""
	case q.err != "":
		return q.err
	case q.code != "":
		return "k6's error code " + q.code
	}
	return string(failure)
}

// cause sorts k6's error codes; see its documentation, "Error codes".
func cause(code string, status int) model.Cause {
	n, err := strconv.Atoi(code)
	switch {
	case err != nil && status == 0:
		return model.CauseProtocol
	case err != nil, n >= 1400 && n < 1600:
		return model.CauseStatus
	case n == 1050, n == 1211:
		return model.CauseTimeout
	case n == 1212:
		return model.CauseRefused
	case n == 1220:
		return model.CauseReset
	case n >= 1100 && n < 1300:
		return model.CauseConnect
	case n >= 1300 && n < 1400:
		return model.CauseTLS
	}
	return model.CauseProtocol
}

// csv takes the first line for the columns' names.
func (r *reader) csv(line string) (p point, ok bool, err error) {
	f := strings.Split(line, ",")
	if r.columns == nil {
		r.columns = f
		for _, need := range []string{"metric_name", "timestamp", "metric_value", "status", "error_code"} {
			if !slices.Contains(f, need) {
				return p, false, fmt.Errorf("k6's CSV has a column %s", need)
			}
		}
		return p, false, nil
	}
	if len(f) < len(r.columns) {
		return p, false, fmt.Errorf("%d columns instead of %d", len(f), len(r.columns))
	}
	for i, name := range r.columns {
		if text := p.text(name); text != nil {
			*text = f[i]
			continue
		}
		switch name {
		case "timestamp":
			p.at, err = strconv.ParseInt(f[i], 10, 64)
			if err == nil && p.at < 1e15 {
				err = errors.New("its time is in whole seconds: run k6 with K6_CSV_TIME_FORMAT=unix_nano")
			}
		case "metric_value":
			var bad error
			if p.value, bad = strconv.ParseFloat(f[i], 64); bad != nil {
				return p, false, bad
			}
		}
	}
	return p, err == nil, err
}

// text is where a column goes that is no number.
func (p *point) text(column string) *string {
	return map[string]*string{
		"metric_name": &p.metric, "status": &p.status, "error_code": &p.code, "error": &p.err, "url": &p.url, "proto": &p.proto,
	}[column]
}

func parseJSON(line string) (p point, ok bool, err error) {
	var raw struct {
		Type   string
		Metric string
		Data   struct {
			Time  time.Time
			Value float64
			Tags  struct {
				Status string
				Code   string `json:"error_code"`
				Error  string
				URL    string
				Proto  string
			}
		}
	}
	if !strings.Contains(line, `"Point"`) {
		return p, false, nil
	}
	if err := json.Unmarshal([]byte(line), &raw); err != nil {
		return p, false, err
	}
	if y := raw.Data.Time.Year(); y < 1971 || y > 2200 {
		return p, false, fmt.Errorf("it is of the year %d", y)
	}
	tags := &raw.Data.Tags
	return point{
		metric: raw.Metric, status: tags.Status, code: tags.Code, err: tags.Error, url: tags.URL, proto: tags.Proto,
		at: raw.Data.Time.UnixNano(), value: raw.Data.Value,
	}, raw.Type == "Point", nil
}
