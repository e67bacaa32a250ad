package model

import (
	"context"
	"math"
	"net/netip"
	"strconv"
	"strings"
)

// Breakdown is where the time of traced requests went: one value a request and
// part. For each request the parts add up to its total.
type Breakdown struct {
	// Total is each request's service time, by the generator's stamps.
	Total []int64 `json:"total_ns"`
	Parts []Part  `json:"parts"`
	// Traced is how many requests of the window were traced and succeeded. Those of
	// which a proxy's record is missing are not broken down.
	Traced int `json:"traced"`
}

// Part is one part of the way of a request, in the order in which it begins.
type Part struct {
	Kind PartKind `json:"kind"`
	Name string   `json:"name"` // e.g. "client's sidecar"
	// Service is the one that is asked, in an app of several; it has been asked for
	// by then.
	Service string `json:"service,omitempty"`
	// Took is one value a request, in the order of Total; NoTime: it did not pass here.
	Took []int64 `json:"took_ns"`
}

// PartKind says what has spent the time.
type PartKind string

// The kinds of parts.
const (
	PartProxy   PartKind = "proxy"   // inside a proxy, by its own stamps
	PartNetwork PartKind = "network" // between two programs that both have stamps
	PartApp     PartKind = "app"     // inside the app, by its own stamps
	// PartUnexplained is time that no stamp accounts for.
	PartUnexplained PartKind = "unexplained"
	// PartParallel is negative: what other parts have spent at the same time.
	PartParallel PartKind = "parallel"
)

// NoTime is in the place of a time that there is none of: of a part that a
// request did not pass, or an app that did not say.
const NoTime = math.MinInt64

// Traced are the requests of a window that carried a number, as the generator
// saw them; successes only.
type Traced struct {
	Number  []uint64 `json:"number"`
	Service []int64  `json:"service_ns"`
	// App is what the app said that it had spent; NoTime: it did not say.
	App []int64 `json:"app_ns"`
	// Told is all that the app said (see HeaderTiming), where it told the parts of it.
	Told []string `json:"told,omitempty"`
}

// AddTraced adds the requests that another worker has traced.
func (r *LoadResult) AddTraced(t *Traced) {
	if r.Traced == nil {
		r.Traced = &Traced{}
	}
	r.Traced.merge(t)
}

func (t *Traced) merge(o *Traced) {
	t.Number = append(t.Number, o.Number...)
	t.Service = append(t.Service, o.Service...)
	for told := len(t.Told)+len(o.Told) > 0; told && len(t.Told) < len(t.App); {
		t.Told = append(t.Told, "")
	}
	t.App = append(t.App, o.App...)
	t.Told = append(t.Told, o.Told...)
}

// Span is what a proxy has recorded of a traced request.
type Span struct {
	Request uint64
	Pod     string // where the proxy is
	Service string // that was asked
	Inbound bool   // to its own pod's app; otherwise from it
	// Local is, of an inbound span, the address that was asked; Peer, of an
	// outbound one, that it was sent on to.
	Local, Peer netip.AddrPort
	// Start is when the request began to come in, in nanoseconds of the proxy's
	// clock; Took from then until its answer was handed on; Upstream how much of
	// that passed between sending it on and having the whole answer.
	Start, Took, Upstream int64
	// App is what the app said that it had spent, and Own how much of that it had not
	// waited for whom it has asked; NoTime: it did not say.
	App, Own int64
}

// Tracer is a layer whose proxies can record traced requests. Trace asks for it
// and comes before Deploy; Spans is what has been recorded so far.
type Tracer interface {
	Trace()
	Spans(ctx context.Context) ([]Span, error)
}

// HeaderRequestID carries the number of a traced request. Apps hand it on, and
// proxies keep the one that they get.
const HeaderRequestID = "x-request-id"

// HeaderTiming is where an app says what it has spent (W3C Server Timing).
const HeaderTiming = "server-timing"

// TracedPrefix begins the request id of a traced request; then comes its number
// in TracedDigits hexadecimal digits.
const (
	TracedPrefix = "windtunnel-"
	TracedDigits = 16
)

// TracedNumber reads a request id; false: it is of no traced request.
func TracedNumber(id string) (uint64, bool) {
	digits, ok := strings.CutPrefix(id, TracedPrefix)
	if !ok || len(digits) != TracedDigits {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 16, 64)
	return n, err == nil && n > 0
}

// Metrics of HeaderTiming. TimingApp is the first, all that the app has spent on
// the request, with whom it has asked; in milliseconds, as that header has it. An
// app of several services may tell the parts of it after that, by service.
const (
	TimingApp      = "app"
	TimingOwn      = ".app"      // of a service: without whom it has asked
	TimingWay      = ".network"  // to a service: the call without what that says it has spent
	TimingParallel = ".parallel" // of a service: calls at the same time as others
)

const duration = ";dur="

// AppendTiming appends one metric of HeaderTiming.
func AppendTiming(dst []byte, name string, nanoseconds int64) []byte {
	const perMillisecond, digits = 1e6, 6
	return strconv.AppendFloat(append(append(dst, name...), duration...), float64(nanoseconds)/perMillisecond, 'f', digits, 64)
}

// Timing reads what an app says that it has spent; NoTime: it does not say.
func Timing(value string) int64 {
	first, _, _ := strings.Cut(value, ",")
	if t := timed(first); t.Name == TimingApp {
		return t.Took
	}
	return NoTime
}

// OwnTiming reads what an app says that it has spent without whom it has asked;
// NoTime: it has asked nobody, or does not say.
func OwnTiming(value string) int64 {
	if all := Timings(value); len(all) > 0 && strings.HasSuffix(all[0].Name, TimingOwn) {
		return all[0].Took
	}
	return NoTime
}

// Timed is a metric of HeaderTiming.
type Timed struct {
	Name string
	Took int64 // nanoseconds
}

// Timings reads the parts after the first metric.
func Timings(value string) []Timed {
	_, rest, _ := strings.Cut(value, ",")
	var all []Timed
	for text := range strings.SplitSeq(rest, ",") {
		if t := timed(text); t.Name != "" {
			all = append(all, t)
		}
	}
	return all
}

// timed reads one metric; without a name: it is none of ours.
func timed(text string) Timed {
	const perMillisecond, mostMilliseconds = 1e6, 1e9
	name, number, _ := strings.Cut(strings.TrimSpace(text), duration)
	ms, err := strconv.ParseFloat(number, 64)
	if err != nil || !(ms >= 0 && ms < mostMilliseconds) {
		return Timed{}
	}
	return Timed{name, int64(ms*perMillisecond + 0.5)} //nolint:mnd // rounds
}
