// Package nighthawk reads what nighthawk_client writes with --output-format json.
package nighthawk

import (
	"bytes"
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
const Name = "nighthawk"

// maxBytes is room for a hundred workers.
const maxBytes = 256 << 20

// Format is the catalog entry.
func Format() ingest.Format {
	return ingest.Format{
		Name: Name, Summary: "nighthawk_client's JSON",
		Detect: func(head []byte) bool {
			head = bytes.TrimSpace(head)
			return bytes.HasPrefix(head, []byte("{")) &&
				(bytes.Contains(head, []byte("benchmark_http_client.")) || bytes.Contains(head, []byte(`"benchmark.http_2xx"`)) ||
					bytes.Contains(head, []byte(`"sequencer_idle_strategy"`)))
		},
		Read: func(r io.Reader, about ingest.About) ([]ingest.Measurement, error) {
			m, err := readOne(r, about)
			if err != nil {
				return nil, fmt.Errorf("reading nighthawk's result: %w", err)
			}
			return []ingest.Measurement{*m}, nil
		},
	}
}

// number is a 64-bit one, which protobuf's JSON writes as a text.
type number uint64

// UnmarshalJSON takes either.
func (n *number) UnmarshalJSON(text []byte) error {
	v, err := strconv.ParseUint(strings.Trim(string(text), `"`), 10, 48)
	if err != nil {
		return fmt.Errorf("%.30s is no count", text)
	}
	*n = number(v)
	return nil
}

// span is a duration as protobuf's JSON writes it: "0.000059131s".
type span time.Duration

// UnmarshalJSON reads one.
func (s *span) UnmarshalJSON(text []byte) error {
	v, err := strconv.ParseFloat(strings.TrimSuffix(strings.Trim(string(text), `"`), "s"), 64)
	if err != nil {
		return fmt.Errorf("%.30s is no duration", text)
	}
	d, err := ingest.Seconds(v)
	*s = span(d)
	return err
}

// output is the part of nighthawk.client.Output that is used.
type output struct {
	Timestamp time.Time `json:"timestamp"`
	Options   struct {
		Rate        float64 `json:"requests_per_second"`
		Connections float64 `json:"connections"`
		Concurrency string  `json:"concurrency"`
		Duration    span    `json:"duration"`
		OpenLoop    bool    `json:"open_loop"`
		H2          bool    `json:"h2"`
		URI         string  `json:"uri"`
		Labels      []string
	} `json:"options"`
	Results []result `json:"results"`
}

type result struct {
	Name       string      `json:"name"`
	Statistics []statistic `json:"statistics"`
	Counters   []struct {
		Name  string `json:"name"`
		Value number `json:"value"`
	} `json:"counters"`
	Duration span      `json:"execution_duration"`
	Start    time.Time `json:"execution_start"`
}

type statistic struct {
	ID          string `json:"id"`
	Count       number `json:"count"`
	Mean        *span  `json:"mean"`
	Min         *span  `json:"min"`
	Max         *span  `json:"max"`
	Percentiles []struct {
		Share    float64 `json:"percentile"`
		Count    number  `json:"count"`
		Duration *span   `json:"duration"`
	} `json:"percentiles"`
}

func readOne(r io.Reader, about ingest.About) (*ingest.Measurement, error) {
	data, err := ingest.ReadAll(r, maxBytes)
	if err != nil {
		return nil, err
	}
	var f output
	if err = json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	g, err := f.global()
	if err != nil {
		return nil, err
	}
	o := &f.Options
	workers, err := strconv.Atoi(o.Concurrency)
	if err != nil || workers < 1 || workers > 10_000 { // "auto", or not told
		workers = max(len(f.Results)-1, 1)
	}
	about.Connections = int(min(max(o.Connections, 0), 1<<20)) * workers
	about.Arrival, about.Duration = model.ArrivalClosed, time.Duration(g.Duration)
	if o.OpenLoop {
		about.Arrival, about.Rate = model.ArrivalOpen, o.Rate*float64(workers)
	}
	out := ingest.NewResult(Name, about, model.BasisSent)
	if err = g.count(out, o.OpenLoop); err != nil {
		return nil, err
	}
	if err = g.latencies(out); err != nil {
		return nil, err
	}
	t := out.Tool
	t.Note(ingest.NoDue)
	t.Note(ingest.NoRequests)
	m := &ingest.Measurement{Started: f.Timestamp, Result: out}
	if !g.Start.IsZero() {
		m.Started = g.Start
	}
	m.Label(ingest.LabelFormat, "JSON")
	m.Label(ingest.LabelURL, o.URI)
	m.Label(ingest.LabelThreads, strconv.Itoa(workers))
	m.Label(ingest.LabelAsked, strconv.FormatFloat(o.Rate*float64(workers), 'f', -1, 64))
	m.Label(ingest.LabelLabel, strings.Join(o.Labels, ", "))
	if d := time.Duration(o.Duration); d > 0 {
		m.Label(ingest.LabelPlanned, strconv.FormatFloat(d.Seconds(), 'f', -1, 64))
	}
	if s := out.Elapsed.Seconds(); s > 0 {
		m.Label(ingest.LabelAchieved, strconv.FormatFloat(float64(out.Sent)/s, 'f', 2, 64))
	}
	m.Label(ingest.LabelSockets, strconv.FormatUint(out.Sockets, 10))
	return m, nil
}

// global is what all workers have done together; a single worker has no other.
func (f *output) global() (*result, error) {
	if i := slices.IndexFunc(f.Results, func(r result) bool { return r.Name == "global" }); i >= 0 {
		return &f.Results[i], nil
	}
	if len(f.Results) == 1 {
		return &f.Results[0], nil
	}
	return nil, fmt.Errorf(`it has %d results, and none is named "global"`, len(f.Results))
}

// count takes the counters; those that are 0 are left out by nighthawk.
func (g *result) count(out *model.LoadResult, open bool) error {
	c := map[string]uint64{}
	for _, v := range g.Counters {
		c[v.Name] = uint64(v.Value)
	}
	const hundred = 100
	for class := range 6 {
		n := c[fmt.Sprintf("benchmark.http_%dxx", class)]
		switch {
		case n == 0:
			continue
		case class == 0 || class >= 4: //nolint:mnd // no status, and those that are failures
			out.Failed[model.CauseStatus] += n
			out.Tool.Note(ingest.Mixed)
		default:
			out.Succeeded += n
		}
		if class > 0 {
			out.Statuses[class*hundred] = n
			out.Tool.Note("statuses are known by their first digit only")
		}
	}
	for name, cause := range map[string]model.Cause{
		"benchmark.stream_resets": model.CauseReset, "benchmark.pool_connection_failure": model.CauseConnect,
	} {
		if c[name] > 0 {
			out.Failed[cause] += c[name]
		}
	}
	out.Sent = out.Succeeded + out.FailedTotal()
	out.Unsent = c["benchmark.pool_overflow"]
	if out.Unsent > 0 && !open {
		out.Tool.Note("requests that no connection was free for count as unsent")
	}
	out.Due = out.Sent + out.Unsent
	if out.Due == 0 {
		return errors.New("its counters tell of no request")
	}
	out.Sockets, out.BytesSent, out.BytesReceived = c["upstream_cx_total"], c["upstream_cx_tx_bytes_total"], c["upstream_cx_rx_bytes_total"]
	return nil
}

func (g *result) latencies(out *model.LoadResult) error {
	t := out.Tool
	for i := range g.Statistics {
		s := &g.Statistics[i]
		switch s.ID {
		case "benchmark_http_client.request_to_response":
			if err := s.fill(out); err != nil {
				return fmt.Errorf("%s: %w", s.ID, err)
			}
		case "sequencer.blocking":
			out.Blocked = uint64(s.Count)
			if s.Count > 0 {
				t.Note(fmt.Sprintf("nighthawk was blocked %d times: in its closed loop it sends nothing then, and latencies leave that time out", s.Count))
			}
		}
	}
	if out.Service.Count() == 0 && out.Sent > 0 {
		t.Note("distribution: the result has no benchmark_http_client.request_to_response")
	}
	if n := out.Service.Count(); n > 0 && n != out.Sent {
		t.Note(fmt.Sprintf("the distribution is of %d values, the counters are of %d requests: nighthawk leaves its warm-up out of the former only", n, out.Sent))
	}
	return nil
}

// fill takes the cumulative counts.
func (s *statistic) fill(out *model.LoadResult) error {
	points := ingest.NewSpectrum(out.Service)
	for i, p := range s.Percentiles {
		if p.Duration == nil {
			continue
		}
		if err := points.Add(time.Duration(*p.Duration), uint64(p.Count)); err != nil {
			return fmt.Errorf("percentile %d: %w", i, err)
		}
		for name, share := range map[string]float64{"p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95} {
			if p.Share == share {
				out.Tool.Figures[name] = time.Duration(*p.Duration)
			}
		}
	}
	for name, v := range map[string]*span{"mean": s.Mean, "min": s.Min, "max": s.Max} {
		if v != nil {
			out.Tool.Figures[name] = time.Duration(*v)
		}
	}
	out.Tool.Note(ingest.Coarse)
	return nil
}
