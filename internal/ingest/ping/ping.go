// Package ping reads the lines that iputils' ping prints, best with -D.
package ping

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Name is the format's and the tool's name.
const Name = "ping"

// Read reads ping's lines. A line without a time stamp (-D) is taken; it then
// cannot be cut to a window.
func Read(r io.Reader, about ingest.About) (*model.LoadResult, error) {
	m, err := measurement(r, about)
	if err != nil {
		return nil, err
	}
	return m.Result, nil
}

// Format is the catalog entry.
func Format() ingest.Format {
	return ingest.Format{
		Name: Name, Summary: "what ping prints, also with -D or -q",
		Detect: func(head []byte) bool {
			return bytes.HasPrefix(head, []byte("PING ")) || bytes.Contains(head, []byte("\nPING "))
		},
		Read: func(r io.Reader, about ingest.About) ([]ingest.Measurement, error) {
			m, err := measurement(r, about)
			if err != nil {
				return nil, err
			}
			return []ingest.Measurement{*m}, nil
		},
	}
}

func measurement(r io.Reader, about ingest.About) (*ingest.Measurement, error) {
	about.Arrival = model.ArrivalOpen
	about.Connections = max(about.Connections, 1)
	rd := reader{rec: ingest.NewRecorder(Name, about, model.BasisSent)}
	if err := ingest.Lines(r, rd.line); err != nil {
		return nil, fmt.Errorf("reading ping's output: %w", err)
	}
	if !rd.begun {
		return nil, errors.New("reading ping's output: it does not begin with a line PING")
	}
	out := rd.rec.Result()
	t := out.Tool
	t.Note("the round trip is ping's own, by the kernel's receive time; it is printed with three digits")
	t.Note(ingest.NoDue)
	if rd.received == 0 && rd.answered > 0 { // with -q
		out.Due, out.Sent, out.Succeeded = rd.answered, rd.answered, rd.answered
		out.Elapsed = rd.took
		t.Note(ingest.FiguresOnly)
		t.Note(ingest.NoRequests)
	}
	maps.Copy(t.Figures, rd.figures)
	rd.losses(out)
	if out.Due+out.WarmupDue == 0 {
		return nil, errors.New("reading ping's output: no packet was sent")
	}
	m := &ingest.Measurement{Result: out, Requests: rd.log.Sorted(t)}
	if len(m.Requests) > 0 {
		m.Started = m.Requests[0].Sent
	} else {
		t.Note("times of packets: ping tells them with -D only")
	}
	m.Label(ingest.LabelFormat, "text")
	m.Label(ingest.LabelURL, rd.target)
	return m, nil
}

type reader struct {
	rec         *ingest.Recorder
	begun       bool
	duplicates  uint64
	transmitted uint64
	received    uint64
	summary     bool
	answered    uint64 // by the summary
	took        time.Duration
	figures     map[string]time.Duration
	log         ingest.RequestLog
	target      string
}

func (r *reader) line(line string) error {
	switch {
	case strings.HasPrefix(line, "PING "):
		r.begun, r.target = true, strings.Clone(strings.TrimPrefix(line, "PING "))
	case strings.Contains(line, "packets transmitted"):
		return r.totals(line)
	case strings.HasPrefix(line, "rtt "), strings.HasPrefix(line, "round-trip "):
		return r.round(line)
	case strings.Contains(line, "icmp_seq="):
		return r.packet(line)
	}
	return nil
}

// stamp reads the time of day that -D puts before a line.
func stamp(line string) (at int64, rest string, told bool, err error) {
	inner, rest, ok := strings.Cut(line, "] ")
	if !ok || !strings.HasPrefix(inner, "[") {
		return 0, line, false, nil
	}
	s, micro, _ := strings.Cut(inner[1:], ".")
	sec, err := strconv.ParseInt(s, 10, 64)
	frac, err2 := strconv.ParseInt((micro + "000000")[:6], 10, 64)
	if err = errors.Join(err, err2); err != nil || sec < 0 || sec > 1<<33 || frac < 0 {
		return 0, line, false, fmt.Errorf("%.100q has no time", line)
	}
	return sec*1e9 + frac*1e3, rest, true, nil
}

// packet reads "[1795272881.66] 64 bytes from 127.0.0.1: icmp_seq=1 ttl=64 time=0.108 ms".
func (r *reader) packet(line string) error {
	at, rest, told, err := stamp(line)
	if err != nil {
		return err
	}
	if strings.Contains(rest, "DUP!") {
		r.duplicates++
		return nil
	}
	_, took, ok := strings.Cut(rest, " time=")
	if !ok { // e.g. "no answer yet", "Destination Host Unreachable"
		return nil
	}
	word, _, _ := strings.Cut(took, " ")
	ms, err := strconv.ParseFloat(word, 64)
	if err != nil || !(ms >= 0 && ms < 1e9) {
		return fmt.Errorf("%.100q has no round trip in milliseconds", line)
	}
	rtt := int64(ms * float64(time.Millisecond))
	if at == 0 {
		at = rtt
	}
	var size uint64
	if n, _, ok := strings.Cut(rest, " bytes from "); ok {
		size, _ = strconv.ParseUint(n, 10, 32) // of people's interest only
	}
	r.received++
	r.rec.Add(ingest.Record{Sent: at - rtt, Done: at, In: size, Out: size})
	if told {
		_, number, _ := strings.Cut(rest, "icmp_seq=")
		number, _, _ = strings.Cut(number, " ")
		seq, _ := strconv.ParseUint(number, 10, 64) // of people's interest only
		r.log.Add(ingest.Request{Seq: seq, Sent: time.Unix(0, at-rtt), Latency: time.Duration(rtt), Bytes: int64(size)})
	}
	return nil
}

// round reads "rtt min/avg/max/mdev = 0.030/0.045/0.091/0.022 ms".
func (r *reader) round(line string) error {
	names, values, ok := strings.Cut(line, " = ")
	n := strings.Split(names[strings.LastIndex(names, " ")+1:], "/")
	v := strings.Split(strings.TrimSuffix(strings.Split(values, ",")[0], " ms"), "/")
	if !ok || len(n) != len(v) {
		return fmt.Errorf("%.100q does not give round trips", line)
	}
	r.figures = map[string]time.Duration{}
	for i, name := range n {
		ms, err := strconv.ParseFloat(strings.TrimSpace(v[i]), 64)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		d, err := ingest.Seconds(ms / 1000)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		switch name {
		case "avg":
			r.figures["mean"] = d
		case "min", "max":
			r.figures[name] = d
		}
	}
	return nil
}

// totals reads "3 packets transmitted, 3 received, +1 duplicates, 0% packet loss, time 405ms".
func (r *reader) totals(line string) error {
	word, _, _ := strings.Cut(line, " ")
	n, err := strconv.ParseUint(word, 10, 48)
	if err != nil {
		return fmt.Errorf("%.100q does not say how many packets were transmitted", line)
	}
	r.summary, r.transmitted = true, n
	for part := range strings.SplitSeq(line, ", ") {
		if word, ok := strings.CutSuffix(part, " received"); ok {
			if r.answered, err = strconv.ParseUint(word, 10, 48); err != nil || r.answered > n {
				return fmt.Errorf("%.100q received of %d packets", word, n)
			}
		}
		if word, ok := strings.CutPrefix(part, "time "); ok {
			if r.took, err = time.ParseDuration(word); err != nil || r.took < 0 {
				return fmt.Errorf("%.100q is no time", word)
			}
		}
	}
	return nil
}

// losses are what was transmitted and never came back. ping does not tell when
// a lost packet was sent: they count to the window if nothing was cut off.
func (r *reader) losses(out *model.LoadResult) {
	if r.duplicates > 0 {
		out.Tool.Note(fmt.Sprintf("%d answers came twice; they are not counted", r.duplicates))
	}
	switch {
	case !r.summary:
		out.Tool.Note("ping was cut short: how many packets were lost is not known")
	case r.transmitted > max(r.received, r.answered):
		lost := r.transmitted - max(r.received, r.answered)
		if r.rec.Out().WarmupDue > 0 {
			out.Tool.Note("lost packets of the warm-up are counted to the window: ping does not tell when they were sent")
		}
		out.Failed[model.CauseTimeout] += lost
		out.Due += lost
		out.Sent += lost
	}
}
