package k6

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
)

const maxSummary = 64 << 20

// summary is any of the three forms of an end-of-test summary: that of
// --summary-export, of handleSummary, and of --new-machine-readable-summary.
type summary struct {
	Metrics  map[string]json.RawMessage `json:"metrics"`
	State    struct{ TestRunDurationMs float64 }
	Config   struct{ Duration float64 } // seconds
	Metadata struct {
		Version   string    `json:"k6_version"`
		Generated time.Time `json:"generated_at"`
	}
	Results struct {
		Metrics []struct {
			Name   string
			Values map[string]float64
		}
	}
}

func isSummary(head string) bool {
	return strings.HasPrefix(head, "{") && strings.Contains(head, `"metrics"`) &&
		(strings.Contains(head, `"root_group"`) || strings.Contains(head, `"k6_version"`) || strings.Contains(head, `"http_req_duration"`))
}

func readSummary(r io.Reader, about ingest.About) ([]ingest.Measurement, error) {
	data, err := ingest.ReadAll(r, maxSummary)
	if err != nil {
		return nil, fmt.Errorf("reading k6's summary: %w", err)
	}
	var s summary
	if err = json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("reading k6's summary: %w", err)
	}
	values, err := s.values()
	if err != nil {
		return nil, fmt.Errorf("reading k6's summary: %w", err)
	}
	m, err := s.measurement(values, about)
	if err != nil {
		return nil, fmt.Errorf("reading k6's summary: %w", err)
	}
	return []ingest.Measurement{*m}, nil
}

// values are the numbers of each metric, wherever the form has them.
func (s *summary) values() (map[string]map[string]float64, error) {
	out := map[string]map[string]float64{}
	for _, m := range s.Results.Metrics {
		out[m.Name] = m.Values
	}
	for name, raw := range s.Metrics {
		var nested struct{ Values map[string]float64 }
		if json.Unmarshal(raw, &nested) == nil && nested.Values != nil {
			out[name] = nested.Values
			continue
		}
		var flat map[string]any // thresholds are among the numbers
		if err := json.Unmarshal(raw, &flat); err != nil {
			return nil, fmt.Errorf("metric %s: %w", name, err)
		}
		out[name] = map[string]float64{}
		for k, v := range flat {
			if f, ok := v.(float64); ok {
				out[name][k] = f
			}
		}
	}
	return out, nil
}

func (s *summary) measurement(v map[string]map[string]float64, about ingest.About) (*ingest.Measurement, error) {
	n, err := count(v["http_reqs"]["count"])
	if err != nil || n == 0 {
		return nil, errors.Join(errors.New("http_reqs: the summary has no HTTP requests"), err)
	}
	about.Arrival = model.ArrivalClosed
	dropped, err := count(v["dropped_iterations"]["count"])
	if err != nil {
		return nil, fmt.Errorf("dropped_iterations: %w", err)
	}
	if dropped > 0 {
		about.Arrival = model.ArrivalOpen
	}
	out := ingest.NewResult(Name, about, model.BasisSent)
	t := out.Tool
	t.Version = s.Metadata.Version
	failed, err := failures(v["http_req_failed"], n)
	if err != nil {
		return nil, err
	}
	out.Sent, out.Succeeded, out.Unsent, out.Due = n, n-failed, dropped, n+dropped
	if failed > 0 {
		out.Failed[model.CauseStatus] = failed
		t.Note("failures are all counted as bad statuses: the summary does not tell why they failed")
		t.Note(ingest.Mixed)
	}
	if out.Elapsed, err = s.elapsed(v["http_reqs"], n); err != nil {
		return nil, err
	}
	in, err := count(v["data_received"]["count"])
	sent, err2 := count(v["data_sent"]["count"])
	if err = errors.Join(err, err2); err != nil {
		return nil, err
	}
	out.BytesReceived, out.BytesSent = in, sent
	if err := figures(t, v["http_req_duration"]); err != nil {
		return nil, err
	}
	t.Note("latency is k6's http_req_duration, from the first byte sent to the last received; connecting is not in it")
	connections(out, v["vus_max"]["max"])
	t.Note(ingest.FiguresOnly)
	t.Note(ingest.NoRequests)
	t.Note("the load model is not told: it is taken for open if iterations were dropped, else for closed")
	m := &ingest.Measurement{Result: out}
	if !s.Metadata.Generated.IsZero() {
		m.Started = s.Metadata.Generated.Add(-out.Elapsed)
	}
	m.Label(ingest.LabelFormat, "summary")
	m.Label(ingest.LabelVersion, t.Version)
	m.Label(ingest.LabelAchieved, strconv.FormatFloat(float64(n)/out.Elapsed.Seconds(), 'f', 2, 64))
	if vus := v["vus_max"]["max"]; vus > 0 {
		m.Label("virtual users", strconv.FormatFloat(vus, 'f', -1, 64))
	}
	if checks, ok := v["checks"]; ok {
		m.Label("checks failed", strconv.FormatFloat(checks["fails"], 'f', -1, 64))
	}
	return m, nil
}

func count(v float64) (uint64, error) {
	const most = 1 << 53
	if !(v >= 0 && v < most) {
		return 0, fmt.Errorf("a count of %g", v)
	}
	return uint64(v), nil
}

// failures are the "passes" of http_req_failed, a rate that is true of failures;
// where only their share is told ("value", "rate"), they are n times that.
func failures(rate map[string]float64, n uint64) (uint64, error) {
	for _, name := range []string{"matches", "passes"} {
		if v, ok := rate[name]; ok {
			k, err := count(v)
			if err != nil || k > n {
				return 0, fmt.Errorf("http_req_failed: %g of %d requests", v, n)
			}
			return k, nil
		}
	}
	for _, name := range []string{"rate", "value"} {
		if v := rate[name]; v >= 0 && v <= 1 {
			return uint64(math.Round(v * float64(n))), nil
		}
	}
	return 0, nil
}

// elapsed is the test's duration, or follows from the rate of its requests.
func (s *summary) elapsed(reqs map[string]float64, n uint64) (time.Duration, error) {
	seconds := s.State.TestRunDurationMs / 1000
	if s.Config.Duration > 0 {
		seconds = s.Config.Duration
	}
	if seconds == 0 && reqs["rate"] > 0 {
		seconds = float64(n) / reqs["rate"]
	}
	d, err := ingest.Seconds(seconds)
	if err == nil && d == 0 {
		err = errors.New("it tells neither how long the test took nor the rate of its requests")
	}
	return d, err
}

// figures renames k6's: "p(95)" or "p95", "med", "avg", all in milliseconds.
func figures(t *model.Tool, trend map[string]float64) error {
	if trend == nil {
		return errors.New("http_req_duration: it is missing")
	}
	var bad ingest.Problems
	for name, ms := range trend {
		switch {
		case name == "avg":
			name = "mean"
		case name == "med":
			name = "p50"
		case name == "min", name == "max":
		case strings.HasPrefix(name, "p"):
			name = "p" + strings.Trim(name[1:], "()")
		default:
			continue
		}
		d, err := ingest.Seconds(ms / 1000)
		if err != nil {
			bad.Add(fmt.Errorf("http_req_duration, %s: %w", name, err))
		}
		t.Figures[name] = d
	}
	return bad.Err()
}
