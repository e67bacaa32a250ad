package summary

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/model"
)

// JSONSchema is the version of the object that WriteJSON writes: it rises when
// a key changes its meaning or goes away.
const JSONSchema = 1

// object is the JSON of a load. Every time is in the unit that its key ends
// with; every latency in milliseconds.
type object struct {
	Schema    int                    `json:"schema"`
	Version   string                 `json:"version"`
	Command   string                 `json:"command"`
	Started   time.Time              `json:"started"`
	URL       string                 `json:"url"`
	Addresses []string               `json:"addresses"`
	Protocol  string                 `json:"protocol"`
	Asked     asked                  `json:"asked"`
	Stopped   bool                   `json:"stopped_early"`
	Elapsed   float64                `json:"elapsed_s"`
	Rate      float64                `json:"rate_per_s"`
	SentRate  float64                `json:"sent_per_s"`
	Success   float64                `json:"success"`
	Due       uint64                 `json:"due"`
	Sent      uint64                 `json:"sent"`
	Succeeded uint64                 `json:"succeeded"`
	Failed    map[model.Cause]uint64 `json:"failed"`
	Unsent    uint64                 `json:"unsent"`
	Blocked   uint64                 `json:"blocked"`

	Response       map[string]any `json:"response"`
	Service        map[string]any `json:"service"`
	FailedResponse map[string]any `json:"failed_response"`

	Statuses     map[int]uint64    `json:"statuses"`
	Servers      map[string]uint64 `json:"servers"`
	Unidentified uint64            `json:"unidentified"`
	Bytes        bytesJSON         `json:"bytes"`
	Opened       uint64            `json:"connections_opened"`
	Messages     uint64            `json:"messages,omitempty"`
	Warmup       warmupJSON        `json:"warmup"`
	Generator    generatorJSON     `json:"generator"`
	Timeline     []slotJSON        `json:"timeline"`
	Stream       *streamJSON       `json:"stream,omitempty"`
	Datagrams    *datagramsJSON    `json:"datagrams,omitempty"`
	Findings     []model.Finding   `json:"findings"`
	FailIf       []string          `json:"fail_if"`
}

type asked struct {
	Model       model.Arrival `json:"model"`
	Rate        float64       `json:"rate_per_s,omitempty"`
	Connections int           `json:"connections"`
	Duration    float64       `json:"duration_s"`
	Warmup      float64       `json:"warmup_s"`
	Timeout     float64       `json:"timeout_s"`
	Seed        uint64        `json:"seed"`
}

type bytesJSON struct {
	Sent     uint64 `json:"sent"`
	Received uint64 `json:"received"`
	BodyMin  int64  `json:"body_min"`
	BodyMax  int64  `json:"body_max"`
}

type warmupJSON struct {
	Due    uint64 `json:"due"`
	Failed uint64 `json:"failed"`
}

type generatorJSON struct {
	Lateness map[string]any    `json:"lateness"`
	CPU      float64           `json:"cpu_s"`
	CPUShare float64           `json:"cpu_share"`
	PerReq   float64           `json:"cpu_us_per_request"`
	Turn     float64           `json:"turnaround_us_per_request"`
	Idle     float64           `json:"idle"`
	Workers  int               `json:"workers"`
	IdleCPUs string            `json:"idle_cpus"`
	CPUs     model.CPUDistance `json:"cpu_distance"`
	Clock    string            `json:"clock"`
}

type slotJSON struct {
	At        float64 `json:"at_s"`
	Succeeded uint64  `json:"succeeded"`
	Failed    uint64  `json:"failed"`
	Mean      float64 `json:"mean_ms"`
	Max       float64 `json:"max_ms"`
}

type streamJSON struct {
	*model.StreamResult

	UpRate   float64 `json:"up_gbit_per_s"`
	DownRate float64 `json:"down_gbit_per_s"`
}

type datagramsJSON struct {
	*model.DatagramResult

	Loss float64 `json:"loss"`
}

// WriteJSON writes the load as one JSON object.
func (l *Load) WriteJSON(w io.Writer) error {
	r := l.Result
	o := object{
		Schema: JSONSchema, Version: l.Version, Command: l.Command, Started: l.Started.UTC(), URL: l.URL, Addresses: []string{},
		Protocol: l.Load.Protocol, Stopped: l.Stopped, Elapsed: r.Elapsed.Seconds(),
		Asked: asked{
			Model: l.Load.Arrival, Rate: l.Load.Rate, Connections: l.Load.Connections, Duration: l.Load.Duration.Seconds(),
			Warmup: l.Warmup.Seconds(), Timeout: l.Load.Timeout.Seconds(), Seed: l.Seed,
		},
		Rate: round(l.rate(), 3), SentRate: round(l.sent(), 3), Success: l.success(),
		Due: r.Due, Sent: r.Sent, Succeeded: r.Succeeded, Failed: orEmpty(r.Failed), Unsent: r.Unsent, Blocked: r.Blocked,
		Response: latencies(r.Response), Service: latencies(r.Service), FailedResponse: latencies(r.FailedResponse),
		Statuses: orEmpty(r.Statuses), Servers: orEmpty(r.Responders), Unidentified: r.Unidentified,
		Bytes:  bytesJSON{r.BytesSent, r.BytesReceived, r.BodyBytesMin, r.BodyBytesMax},
		Opened: r.Sockets, Messages: r.Messages, Warmup: warmupJSON{r.WarmupDue, r.WarmupFailed},
		Generator: generatorJSON{
			Lateness: latencies(r.Lateness), CPU: r.GeneratorCPU.Seconds(), CPUShare: round(l.cpuShare(), 4),
			Idle: round(r.GeneratorIdle, 4), Workers: r.Workers, IdleCPUs: l.IdleCPUs, CPUs: l.CPUs, Clock: r.Clock,
		},
		Timeline: []slotJSON{}, Findings: l.Findings(), FailIf: l.Failed,
	}
	if o.Findings == nil {
		o.Findings = []model.Finding{}
	}
	if o.FailIf == nil {
		o.FailIf = []string{}
	}
	if r.Sent > 0 {
		o.Generator.PerReq = round(float64(r.GeneratorCPU.Microseconds())/float64(r.Sent), 3)
		o.Generator.Turn = round(float64(r.Turnaround.Microseconds())/float64(r.Sent), 3)
	}
	for _, a := range l.Addresses {
		o.Addresses = append(o.Addresses, a.String())
	}
	for i, s := range r.Timeline.Slots {
		at := (time.Duration(i) * r.Timeline.SlotWidth).Seconds()
		o.Timeline = append(o.Timeline, slotJSON{at, s.Succeeded, s.Failed, ms(s.Mean), ms(s.Max)})
	}
	if s := r.Stream; s != nil {
		o.Stream = &streamJSON{s, round(gbit(s.Up, r.Elapsed), 4), round(gbit(s.Down, r.Elapsed), 4)}
	}
	if d := r.Datagrams; d != nil {
		o.Datagrams = &datagramsJSON{d, share(d.Lost, d.Sent)}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	e.SetEscapeHTML(false)
	if err := e.Encode(o); err != nil {
		return fmt.Errorf("writing the load as JSON: %w", err)
	}
	return nil
}

// latencies are the numbers of a histogram, in milliseconds. What there is no
// sample for is null: the key is always there.
func latencies(h *hist.Histogram) map[string]any {
	n := count(h)
	m := map[string]any{"count": n, "min_ms": nil, "mean_ms": nil, "max_ms": nil}
	if n > 0 {
		m["min_ms"], m["mean_ms"], m["max_ms"] = ms(h.Min()), ms(h.Mean()), ms(h.Max())
	}
	for _, q := range quantiles() {
		key := strings.ReplaceAll(quantileName(q), ".", "_") + "_ms"
		m[key] = nil
		if Carries(n, q) {
			m[key] = ms(h.Quantile(q))
		}
	}
	return m
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

func gbit(bytes uint64, d time.Duration) float64 { return perSecond(bytes, d) * 8 / 1e9 }

func share(n, of uint64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

func round(v float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(v*scale) / scale
}

func orEmpty[K comparable](m map[K]uint64) map[K]uint64 {
	if m == nil {
		return map[K]uint64{}
	}
	return m
}
