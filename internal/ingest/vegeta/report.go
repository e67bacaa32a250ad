package vegeta

import (
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

const maxReport = 16 << 20

// figures are what a report says of an attack.
type figures struct {
	Latencies struct {
		Mean time.Duration `json:"mean"`
		P50  time.Duration `json:"50th"`
		P90  time.Duration `json:"90th"`
		P95  time.Duration `json:"95th"`
		P99  time.Duration `json:"99th"`
		Min  time.Duration `json:"min"`
		Max  time.Duration `json:"max"`
	} `json:"latencies"`
	BytesIn  total             `json:"bytes_in"`
	BytesOut total             `json:"bytes_out"`
	Earliest time.Time         `json:"earliest"`
	Duration time.Duration     `json:"duration"`
	Requests uint64            `json:"requests"`
	Rate     float64           `json:"rate"`
	Codes    map[string]uint64 `json:"status_codes"`
	Errors   []string          `json:"errors"`
}

type total struct {
	Total uint64 `json:"total"`
}

func isReportJSON(head []byte) bool {
	return head[0] == '{' && bytes.Contains(head, []byte(`"latencies"`)) && bytes.Contains(head, []byte(`"50th"`))
}

func isReportText(head []byte) bool {
	return bytes.Contains(head, []byte("[total, rate")) && bytes.Contains(head, []byte("[min, mean, 50")) ||
		bytes.Contains(head, []byte("[total, rate")) && bytes.Contains(head, []byte("[mean, 50"))
}

func readReport(r io.Reader, about ingest.About) ([]ingest.Measurement, error) {
	data, err := ingest.ReadAll(r, maxReport)
	if err != nil {
		return nil, fmt.Errorf("reading vegeta's report: %w", err)
	}
	var f figures
	if err = json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("reading vegeta's report: %w", err)
	}
	m, err := f.measurement(about, "report, JSON")
	if err != nil {
		return nil, fmt.Errorf("reading vegeta's report: %w", err)
	}
	return []ingest.Measurement{*m}, nil
}

func (f *figures) measurement(about ingest.About, format string) (*ingest.Measurement, error) {
	about.Arrival, about.Duration = model.ArrivalOpen, f.Duration
	out := ingest.NewResult(Name, about, model.BasisSent)
	t := out.Tool
	t.Note(ingest.FiguresOnly)
	t.Note(ingest.NoRequests)
	t.Note(ingest.NoDue)
	out.BytesReceived, out.BytesSent = f.BytesIn.Total, f.BytesOut.Total
	var n uint64
	for text, count := range f.Codes {
		code, err := strconv.Atoi(text)
		if err != nil || count > f.Requests-n {
			return nil, fmt.Errorf("%d answers with the code %q in %d requests", count, text, f.Requests)
		}
		n += count
		f.count(out, code, count)
	}
	if n != f.Requests || n == 0 {
		return nil, fmt.Errorf("its status codes are of %d requests, its total says %d", n, f.Requests)
	}
	out.Due, out.Sent = n, n
	if out.FailedTotal() > 0 {
		t.Note(ingest.Mixed)
	}
	l := &f.Latencies
	for name, v := range map[string]time.Duration{"mean": l.Mean, "p50": l.P50, "p90": l.P90, "p95": l.P95, "p99": l.P99, "min": l.Min, "max": l.Max} {
		if v < 0 {
			return nil, fmt.Errorf("%s is %s", name, v)
		}
		if v > 0 || name == "min" {
			t.Figures[name] = v
		}
	}
	m := &ingest.Measurement{Started: f.Earliest, Result: out}
	m.Label(ingest.LabelFormat, format)
	m.Label(ingest.LabelAchieved, strconv.FormatFloat(f.Rate, 'f', 2, 64))
	m.Label(ingest.LabelWarnings, strings.Join(f.Errors[:min(len(f.Errors), 20)], "\n"))
	return m, nil
}

// count sorts answers with a code; 0 is of requests without one.
func (f *figures) count(out *model.LoadResult, code int, n uint64) {
	const ok, bad = 200, 400
	switch {
	case code == 0:
		cause := model.CauseProtocol
		if len(f.Errors) > 0 {
			cause, _ = ingest.CauseOf(f.Errors[0])
		}
		out.Failed[cause] += n
		if len(f.Errors) > 1 {
			out.Tool.Note("requests without an answer are all counted to the first of several errors: the report does not count them")
		}
		return
	case code >= bad, code < ok:
		out.Failed[model.CauseStatus] += n
	default:
		out.Succeeded += n
	}
	out.Statuses[code] += n
}

// texts reads text reports, of which a file may hold several, with headings.
type texts struct {
	about   ingest.About
	all     []ingest.Measurement
	current *figures
	errors  bool
	heading string
}

func readText(r io.Reader, about ingest.About) ([]ingest.Measurement, error) {
	t := texts{about: about}
	err := ingest.Lines(r, t.line)
	if err == nil {
		err = t.flush()
	}
	if err != nil {
		return nil, fmt.Errorf("reading vegeta's text report: %w", err)
	}
	if len(t.all) == 0 {
		return nil, errors.New(`reading vegeta's text report: it has no line "Requests [total, rate, throughput] ..."`)
	}
	if len(t.all) == 1 {
		t.all[0].Name = ""
	}
	return t.all, nil
}

func (t *texts) flush() error {
	if t.current == nil {
		return nil
	}
	f := t.current
	t.current = nil
	if len(t.all) >= ingest.MaxMeasurements {
		return fmt.Errorf("more than %d reports", ingest.MaxMeasurements)
	}
	if f.Codes == nil {
		return errors.New(`the report has no line "Status Codes"`)
	}
	m, err := f.measurement(t.about, "report, text")
	if err != nil {
		return err
	}
	m.Name = fmt.Sprintf("report %d", len(t.all)+1)
	if t.heading != "" {
		m.Name += ": " + t.heading
	}
	t.all, t.heading = append(t.all, *m), ""
	return nil
}

func (t *texts) line(line string) error {
	name, rest, ok := strings.Cut(line, "[")
	labels, values, ok2 := strings.Cut(rest, "]")
	if name = strings.TrimSpace(name); ok && ok2 && name == "Requests" {
		err := t.flush()
		t.current, t.errors = &figures{}, false
		return errors.Join(err, t.current.requests(list(values)))
	}
	f := t.current
	switch {
	case strings.HasPrefix(line, "#"):
		err := t.flush()
		t.heading = strings.TrimSpace(strings.TrimLeft(line, "#"))
		return err
	case f == nil:
		return nil
	case strings.HasPrefix(line, "Error Set:"):
		t.errors = true
		if rest := strings.TrimSpace(strings.TrimPrefix(line, "Error Set:")); rest != "" {
			f.Errors = append(f.Errors, rest)
		}
		return nil
	case t.errors:
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "```") && len(f.Errors) < 100 {
			f.Errors = append(f.Errors, line)
		}
		return nil
	case ok && ok2:
		return f.figure(name, list(labels), list(values))
	}
	return nil
}

func list(s string) []string {
	f := strings.Split(s, ",")
	for i := range f {
		f[i] = strings.TrimSpace(f[i])
	}
	return f
}

func (f *figures) requests(values []string) (err error) {
	if len(values) < 2 { //nolint:mnd // total and rate
		return errors.New("no total and rate")
	}
	if f.Requests, err = strconv.ParseUint(values[0], 10, 48); err != nil {
		return err
	}
	f.Rate, err = strconv.ParseFloat(values[1], 64)
	return err
}

func (f *figures) figure(name string, labels, values []string) (err error) {
	switch name {
	case "Status Codes":
		f.Codes = map[string]uint64{}
		for pair := range strings.FieldsSeq(strings.Join(values, " ")) {
			code, n, _ := strings.Cut(pair, ":")
			if f.Codes[code], err = strconv.ParseUint(n, 10, 48); err != nil {
				return fmt.Errorf("%.40q is no code with its count", pair)
			}
		}
		return nil
	case "Bytes In":
		f.BytesIn.Total, err = strconv.ParseUint(values[0], 10, 63)
		return err
	case "Bytes Out":
		f.BytesOut.Total, err = strconv.ParseUint(values[0], 10, 63)
		return err
	case "Duration", "Latencies":
	default:
		return nil
	}
	if len(labels) != len(values) {
		return fmt.Errorf("%d values for %v", len(values), labels)
	}
	l := &f.Latencies
	into := map[string]*time.Duration{
		"attack": &f.Duration, "min": &l.Min, "mean": &l.Mean, "50": &l.P50, "90": &l.P90, "95": &l.P95, "99": &l.P99, "max": &l.Max,
	}
	for i, label := range labels {
		if d := into[label]; d != nil {
			if *d, err = time.ParseDuration(values[i]); err != nil {
				return fmt.Errorf("%s: %w", label, err)
			}
		}
	}
	return nil
}
