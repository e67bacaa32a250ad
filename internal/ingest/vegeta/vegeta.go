// Package vegeta reads the results of vegeta attacks: the gob that `attack`
// writes, the JSON lines or CSV of `encode`, and the JSON and text of `report`.
package vegeta

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Name is the format's and the tool's name.
const Name = "vegeta"

const (
	headBytes = 4096
	// maxKept bounds the results that are held to find the schedule: 256 MB.
	maxKept = 4 << 20
	// maxAttacks bounds the attacks of one file.
	maxAttacks = 100
)

// Format is the catalog entry.
func Format() ingest.Format {
	return ingest.Format{
		Name: Name, Summary: "results of vegeta (gob, JSON lines, CSV) and its reports (JSON, text)",
		Detect: func(head []byte) bool {
			_, ok := shapeOf(head)
			return ok || isReportJSON(head) || isReportText(head)
		},
		Read: ReadAll,
	}
}

// ReadAll reads any of vegeta's formats. An attack that has a name is a
// measurement of its own.
func ReadAll(r io.Reader, about ingest.About) ([]ingest.Measurement, error) {
	in := bufio.NewReaderSize(r, headBytes)
	head, err := in.Peek(headBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading vegeta's results: %w", err)
	}
	s, ok := shapeOf(head)
	switch {
	case ok:
	case isReportJSON(head):
		return readReport(in, about)
	default:
		return readText(in, about)
	}
	attacks := map[string]*attack{}
	err = each(s.next(in), func(v *result) error {
		a := attacks[v.Attack]
		if a == nil {
			if len(attacks) >= maxAttacks {
				return fmt.Errorf("more than %d attacks", maxAttacks)
			}
			a = newAttack(about)
			attacks[v.Attack] = a
		}
		return a.add(v)
	})
	if err != nil {
		return nil, fmt.Errorf("reading vegeta's results: %w", err)
	}
	var all []ingest.Measurement
	for _, name := range slices.Sorted(maps.Keys(attacks)) {
		m, err := attacks[name].end()
		if err != nil {
			return nil, fmt.Errorf("reading vegeta's results: %w", err)
		}
		m.Label(ingest.LabelFormat, s.name)
		m.Label(ingest.LabelLabel, name)
		if len(attacks) > 1 {
			m.Name = name
		}
		all = append(all, *m)
	}
	if len(all) == 0 {
		return nil, errors.New("reading vegeta's results: there are none")
	}
	return all, nil
}

// Read reads an attack's results, of all attacks if there are several. Where
// About has a rate, requests' due times are derived from their numbers.
func Read(r io.Reader, about ingest.About) (*model.LoadResult, error) {
	in := bufio.NewReaderSize(r, headBytes)
	head, err := in.Peek(headBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading vegeta's results: %w", err)
	}
	s, ok := shapeOf(head)
	if !ok {
		return nil, fmt.Errorf("reading vegeta's results: %.40q is not how they begin", head)
	}
	a := newAttack(about)
	if err = each(s.next(in), a.add); err != nil {
		return nil, fmt.Errorf("reading vegeta's results: %w", err)
	}
	m, err := a.end()
	if err != nil {
		return nil, fmt.Errorf("reading vegeta's results: %w", err)
	}
	return m.Result, nil
}

// each takes results until there are no more.
func each(next func() (result, error), do func(*result) error) error {
	for n := 1; ; n++ {
		v, err := next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("result %d: %w", n, err)
		}
		if y := v.Timestamp.Year(); y < 1971 || y > 2200 || v.Latency < 0 || v.Latency > 24*time.Hour {
			return fmt.Errorf("result %d: sent at %s with a latency of %s: that is no result of vegeta", n, v.Timestamp, v.Latency)
		}
		if err := do(&v); err != nil {
			return fmt.Errorf("result %d: %w", n, err)
		}
	}
}

// attack adds up one. Where the rate is known, its requests are held until the
// schedule is: vegeta's constant pacer sends request k at k whole periods after
// its start, which is taken to be the latest with which no request is early.
type attack struct {
	rec      *ingest.Recorder
	log      ingest.RequestLog
	latency  digest
	total    float64
	period   int64 // 0: no rate
	start    int64
	held     []ingest.Record
	seqs     []uint64
	response map[string]string
	methods  string
	n        uint64
	counted  uint64 // in the window
	first    time.Time
	last     time.Time
}

func newAttack(about ingest.About) *attack {
	if about.Arrival == "" {
		about.Arrival = model.ArrivalOpen
	}
	a := &attack{rec: ingest.NewRecorder(Name, about, model.BasisSent), start: math.MaxInt64}
	if about.Rate > 0 {
		a.period = int64(float64(time.Second) / about.Rate) // vegeta cuts it to whole nanoseconds, too
		a.rec.Out().Tool.Note("response times are derived: request k of vegeta's constant pacer is due k periods after the start")
	} else {
		a.rec.Out().Tool.Note(ingest.NoDue)
	}
	return a
}

func (a *attack) add(v *result) error {
	sent := v.Timestamp.UnixNano()
	q := ingest.Record{Sent: sent, Done: sent + v.Latency.Nanoseconds(), Status: int(v.Code), In: v.BytesIn, Out: v.BytesOut}
	q.Failure = failure(v, a.rec.Out().Tool)
	if a.rec.Measured(sent) {
		a.figure(v.Latency)
	}
	a.log.Add(ingest.Request{
		Seq: v.Seq, Sent: v.Timestamp, Latency: v.Latency, Code: int(v.Code), Error: v.Error,
		Bytes: int64(min(v.BytesIn, math.MaxInt64)), Payload: ingest.Payload(v.Body),
	})
	if q.Failure == "" && a.response == nil && len(v.Headers) > 0 {
		a.response = map[string]string{}
		for name, values := range v.Headers {
			a.response[name] = strings.Join(values, ", ")
		}
	}
	a.span(v)
	if a.period == 0 {
		a.rec.Add(q)
		return nil
	}
	return a.hold(q, v.Seq)
}

// span notes what was asked, and from when to when.
func (a *attack) span(v *result) {
	if a.methods == "" && v.URL != "" {
		a.methods = v.Method + " " + v.URL
	}
	if a.n == 0 || v.Timestamp.Before(a.first) {
		a.first = v.Timestamp
	}
	if v.Timestamp.After(a.last) {
		a.last = v.Timestamp
	}
	a.n++
}

// hold keeps a request until the schedule is known.
func (a *attack) hold(q ingest.Record, seq uint64) error {
	if len(a.held) == maxKept {
		return fmt.Errorf("more than %d results; read them without a rate", maxKept)
	}
	if seq > 1<<40 || a.period > int64(time.Hour) || seq > uint64(math.MaxInt64/2/max(a.period, 1)) {
		return fmt.Errorf("result number %d with a period of %s lies beyond any attack", seq, time.Duration(a.period))
	}
	a.held, a.seqs = append(a.held, q), append(a.seqs, seq)
	a.start = min(a.start, q.Sent-int64(seq)*a.period)
	return nil
}

func (a *attack) due(seq uint64) int64 {
	return a.start + int64(seq)*a.period //nolint:gosec // G115: checked in add
}

func (a *attack) end() (*ingest.Measurement, error) {
	for i, q := range a.held {
		q.HasDue, q.Due = true, a.due(a.seqs[i])
		a.rec.Add(q)
	}
	out := a.rec.Result()
	if out.Due+out.WarmupDue == 0 {
		return nil, errors.New("there are none")
	}
	a.figures(out.Tool)
	requests := a.log.Sorted(out.Tool)
	for i := range requests {
		if a.period > 0 {
			requests[i].Due = time.Unix(0, a.due(requests[i].Seq))
		}
	}
	m := &ingest.Measurement{Started: a.first, Result: out, Requests: requests, Response: a.response}
	m.Label(ingest.LabelURL, a.methods)
	if span := a.last.Sub(a.first).Seconds(); span > 0 { // as vegeta has it
		m.Label(ingest.LabelAchieved, strconv.FormatFloat(float64(a.n)/span, 'f', 2, 64))
	}
	return m, nil
}

// figure adds a latency to what vegeta's report would say.
func (a *attack) figure(v time.Duration) {
	a.latency.add(v)
	a.total += float64(v)
	a.counted++
}

func (a *attack) figures(t *model.Tool) {
	if a.counted == 0 {
		return
	}
	t.Note("the figures are those of vegeta's own report: estimates, of successes and failures together")
	t.Figures["min"], t.Figures["max"] = time.Duration(a.latency.min), time.Duration(a.latency.max)
	t.Figures["mean"] = time.Duration(a.total / float64(a.counted))
	for name, q := range map[string]float64{"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99} {
		t.Figures[name] = a.latency.quantile(q)
	}
}

// failure is empty for a status below 400 and a body that came whole.
func failure(v *result, tool *model.Tool) model.Cause {
	const bad = 400
	switch {
	case v.Code >= bad:
		return model.CauseStatus
	case v.Error == "" && v.Code >= 100:
		return ""
	case v.Error == "":
		tool.Note("some failures have neither a status nor an error; they are counted as protocol errors")
		return model.CauseProtocol
	}
	cause, known := ingest.CauseOf(v.Error)
	if !known {
		tool.Note(fmt.Sprintf("errors such as %.100q are counted as protocol errors", v.Error))
	}
	return cause
}
