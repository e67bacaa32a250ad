// Package sockperf reads what sockperf writes with --full-log and --full-rtt, a
// line a packet, and what it prints.
package sockperf

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
const Name = "sockperf"

// Read reads a full log. Its times are of a clock of their own, so that it
// cannot be cut to a window.
func Read(r io.Reader, about ingest.About) (*model.LoadResult, error) {
	rd, err := scan(r, &about)
	if err != nil {
		return nil, err
	}
	if rd.column < 0 || !rd.table {
		return nil, errors.New("reading sockperf's log: it has no line \"packet, txTime(sec), rxTime(sec), rtt(usec)\"; run sockperf with --full-rtt and --full-log")
	}
	return rd.packets(about)
}

// scan reads all lines. The log's times are of a clock of their own.
func scan(r io.Reader, about *ingest.About) (*reader, error) {
	if about.Arrival == "" {
		about.Arrival = model.ArrivalClosed
	}
	cut := *about
	cut.Duration, cut.From, cut.To = 0, time.Time{}, time.Time{}
	rd := reader{rec: ingest.NewRecorder(Name, cut, model.BasisSent), numbers: map[string]float64{}, figures: map[string]time.Duration{}}
	if err := ingest.Lines(r, rd.line); err != nil {
		return nil, fmt.Errorf("reading sockperf's output: %w", err)
	}
	return &rd, nil
}

func (r *reader) packets(about ingest.About) (*model.LoadResult, error) {
	out := r.rec.Result()
	if out.Due == 0 {
		return nil, errors.New("reading sockperf's log: it has no packets")
	}
	if v := r.numbers["RunTime"]; v > 0 {
		out.Elapsed, _ = ingest.Seconds(v)
	} else if about.Duration > 0 {
		out.Elapsed = about.Duration
	}
	r.count(out)
	t := out.Tool
	t.Note(valid)
	if out.Arrival == model.ArrivalClosed {
		out.Response.Merge(out.Service)
	} else {
		t.Note(ingest.NoDue)
	}
	return out, nil
}

const valid = "sockperf measures the valid part of its run only: without its warm-up of 400 ms and the last 50 ms"

type reader struct {
	rec     *ingest.Recorder
	numbers map[string]float64
	figures map[string]time.Duration
	log     ingest.RequestLog
	n       uint64
	table   bool
	column  int
	rtt     bool // the figures are of round trips, not of half of them
	version string
}

// line reads a packet, or one of the summary's lines before the packets.
func (r *reader) line(line string) error {
	switch {
	case strings.HasPrefix(line, "packet,"):
		r.table = true
		if !strings.Contains(line, "rtt(usec)") {
			r.column = -1
		}
		return nil
	case !r.table && strings.Contains(line, "--->"):
		return r.figure(line)
	case !r.table:
		line = plain(line)
		r.other(line)
		r.summary(line)
		return nil
	case strings.HasPrefix(line, "---") || line == "":
		return nil
	}
	f := strings.Split(line, ",")
	const columns = 4
	if len(f) != columns {
		return fmt.Errorf("%.100q is no packet: %d columns instead of %d", line, len(f), columns)
	}
	return r.packet(f)
}

// packet reads a number, when it was sent and when it came back, and the round trip.
func (r *reader) packet(f []string) error {
	var at [2]int64
	for i := range at {
		s, err := strconv.ParseFloat(strings.TrimSpace(f[i+1]), 64)
		if err != nil || !(s >= 0 && s < 1e9) {
			return fmt.Errorf("%q is no time in seconds", f[i+1])
		}
		at[i] = int64(s * 1e9) //nolint:mnd // nanoseconds
	}
	// The round trip has more digits than the difference of the times.
	rtt, err := strconv.ParseFloat(strings.TrimSpace(f[3]), 64)
	if err != nil || !(rtt >= 0 && rtt < 1e12) {
		return fmt.Errorf("%q is no round trip in microseconds", f[3])
	}
	took := int64(rtt * 1e3) //nolint:mnd // microseconds
	r.rec.Add(ingest.Record{Sent: at[0], Done: at[0] + took})
	r.log.Add(ingest.Request{Seq: r.n, Sent: time.Unix(0, at[0]), Latency: time.Duration(took)})
	r.n++
	return nil
}

// summary reads "[Valid Duration] RunTime=0.550 sec; SentMessages=1796; ..." and
// "# dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0".
func (r *reader) summary(line string) {
	if strings.Contains(line, "[Total Run]") || len(r.numbers) > 100 { // only the valid part is measured
		return
	}
	line = line[strings.IndexByte(line, ']')+1:]
	for part := range strings.SplitSeq(line, ";") {
		name, value, ok := strings.Cut(part, "=")
		word, _, _ := strings.Cut(strings.TrimSpace(value), " ")
		v, err := strconv.ParseFloat(word, 64)
		if ok && err == nil && v >= 0 && v < 1e15 {
			r.numbers[strings.TrimSpace(strings.TrimLeft(name, "# sockperf:"))] = v
		}
	}
}

// count takes packets that never came back for losses.
func (r *reader) count(out *model.LoadResult) {
	sent := uint64(r.numbers["SentMessages"])
	if sent > out.Sent {
		out.Failed[model.CauseTimeout] = sent - out.Sent
		out.Due, out.Sent = sent, sent
		out.Tool.Note("messages without an answer are counted as timed out; sockperf does not tell when they were sent")
	}
}
