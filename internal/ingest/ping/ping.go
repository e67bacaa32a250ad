// Package ping reads the lines that iputils' ping prints with -D.
package ping

import (
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
const Name = "ping"

// Read reads ping's lines. A line without a time stamp (-D) is taken; it then
// cannot be cut to a window.
func Read(r io.Reader, about ingest.About) (*model.LoadResult, error) {
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
	rd.losses(out)
	if out.Due+out.WarmupDue == 0 {
		return nil, errors.New("reading ping's output: no packet was sent")
	}
	return out, nil
}

type reader struct {
	rec         *ingest.Recorder
	begun       bool
	duplicates  uint64
	transmitted uint64
	received    uint64
	summary     bool
}

func (r *reader) line(line string) error {
	switch {
	case strings.HasPrefix(line, "PING "):
		r.begun = true
	case strings.Contains(line, "packets transmitted"):
		return r.totals(line)
	case strings.Contains(line, "icmp_seq="):
		return r.packet(line)
	}
	return nil
}

// packet reads "[1795272881.66] 64 bytes from 127.0.0.1: icmp_seq=1 ttl=64 time=0.108 ms".
func (r *reader) packet(line string) error {
	at, rest := int64(0), line
	if inner, after, ok := strings.Cut(line, "] "); ok && strings.HasPrefix(inner, "[") {
		s, micro, _ := strings.Cut(inner[1:], ".")
		sec, err := strconv.ParseInt(s, 10, 64)
		frac, err2 := strconv.ParseInt((micro + "000000")[:6], 10, 64)
		if err = errors.Join(err, err2); err != nil || sec < 0 || sec > 1<<33 || frac < 0 {
			return fmt.Errorf("%.100q has no time", line)
		}
		at, rest = sec*1e9+frac*1e3, after
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
	case r.transmitted > r.received:
		lost := r.transmitted - r.received
		if r.rec.Out().WarmupDue > 0 {
			out.Tool.Note("lost packets of the warm-up are counted to the window: ping does not tell when they were sent")
		}
		out.Failed[model.CauseTimeout] += lost
		out.Due += lost
		out.Sent += lost
	}
}
