// Package vegeta reads the results of vegeta attacks: the gob that `attack`
// writes, or the JSON lines or CSV of `encode`.
package vegeta

import (
	"bufio"
	"encoding/csv"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Name is the format's and the tool's name.
const Name = "vegeta"

const (
	// maxRecord bounds one result with its body and headers, which are dropped.
	maxRecord = 64 << 20
	// maxKept bounds the results that are held to find the schedule: 256 MB.
	maxKept = 4 << 20
)

// result is vegeta's Result. gob finds fields by name: these are vegeta's own.
type result struct {
	Seq       uint64        `json:"seq"`
	Code      uint16        `json:"code"`
	Timestamp time.Time     `json:"timestamp"`
	Latency   time.Duration `json:"latency"`
	BytesOut  uint64        `json:"bytes_out"`
	BytesIn   uint64        `json:"bytes_in"`
	Error     string        `json:"error"`
}

// Read reads an attack's results. Where About has a rate, requests' due times
// are derived from their numbers.
func Read(r io.Reader, about ingest.About) (*model.LoadResult, error) {
	if about.Arrival == "" {
		about.Arrival = model.ArrivalOpen
	}
	in := bufio.NewReader(r)
	first, err := in.Peek(1)
	if err != nil {
		return nil, fmt.Errorf("reading vegeta's results: there are none: %w", err)
	}
	next := fromGob(in)
	switch {
	case first[0] == '{':
		next = fromJSON(in)
	case first[0] >= '0' && first[0] <= '9':
		next = fromCSV(in)
	}
	rec := ingest.NewRecorder(Name, about, model.BasisSent)
	if about.Rate > 0 {
		err = scheduled(rec, next, about.Rate)
	} else {
		rec.Out().Tool.Note(ingest.NoDue)
		err = each(next, func(q ingest.Record, _ uint64) error {
			rec.Add(q)
			return nil
		}, rec.Out().Tool)
	}
	if err != nil {
		return nil, fmt.Errorf("reading vegeta's results: %w", err)
	}
	out := rec.Result()
	if out.Due+out.WarmupDue == 0 {
		return nil, errors.New("reading vegeta's results: there are none")
	}
	return out, nil
}

// each turns results into requests until there are no more.
func each(next func() (result, error), do func(q ingest.Record, seq uint64) error, tool *model.Tool) error {
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
		sent := v.Timestamp.UnixNano()
		q := ingest.Record{Sent: sent, Done: sent + v.Latency.Nanoseconds(), Status: int(v.Code), In: v.BytesIn, Out: v.BytesOut}
		q.Failure = failure(v, tool)
		if err := do(q, v.Seq); err != nil {
			return err
		}
	}
}

// failure is empty for a status below 400 and a body that came whole.
func failure(v result, tool *model.Tool) model.Cause {
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

// scheduled derives when requests were due: vegeta's constant pacer sends
// request k at k whole periods after its start, which is taken to be the latest
// with which no request is early.
func scheduled(rec *ingest.Recorder, next func() (result, error), rate float64) error {
	period := int64(float64(time.Second) / rate) // vegeta cuts it to whole nanoseconds, too
	var all []ingest.Record
	var seqs []uint64
	start := int64(math.MaxInt64)
	err := each(next, func(q ingest.Record, seq uint64) error {
		if len(all) == maxKept {
			return fmt.Errorf("more than %d results; read them without a rate", maxKept)
		}
		if seq > 1<<40 || period > int64(time.Hour) || seq > uint64(math.MaxInt64/2/max(period, 1)) {
			return fmt.Errorf("result number %d at %g/s lies beyond any attack", seq, rate)
		}
		all, seqs = append(all, q), append(seqs, seq)
		start = min(start, q.Sent-int64(seq)*period)
		return nil
	}, rec.Out().Tool)
	if err != nil {
		return err
	}
	rec.Out().Tool.Note("response times are derived: request k of vegeta's constant pacer is due k periods after the start")
	for i, q := range all {
		q.HasDue, q.Due = true, start+int64(seqs[i])*period //nolint:gosec // G115: checked above
		rec.Add(q)
	}
	return nil
}

// budget refuses to read more than maxRecord bytes for one result.
type budget struct {
	*bufio.Reader
	left int
}

func (b *budget) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("it has more than %d bytes", maxRecord)
	}
	n, err := b.Reader.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func fromGob(in *bufio.Reader) func() (result, error) {
	b := &budget{Reader: in}
	d := gob.NewDecoder(b)
	return func() (result, error) {
		var v result
		b.left = maxRecord
		return v, d.Decode(&v)
	}
}

func fromJSON(in *bufio.Reader) func() (result, error) {
	b := &budget{Reader: in}
	d := json.NewDecoder(b)
	return func() (result, error) {
		var v result
		b.left = maxRecord
		return v, d.Decode(&v)
	}
}

// fromCSV reads the columns: time, code, latency, bytes out, bytes in, error,
// body, attack, number, and in newer versions method, URL and headers.
func fromCSV(in *bufio.Reader) func() (result, error) {
	b := &budget{Reader: in}
	d := csv.NewReader(b)
	d.FieldsPerRecord, d.ReuseRecord = -1, true
	return func() (result, error) {
		b.left = maxRecord
		f, err := d.Read()
		if err != nil {
			return result{}, err
		}
		const number = 8
		if len(f) <= number {
			return result{}, fmt.Errorf("%d columns; vegeta writes 9 or 12", len(f))
		}
		var n [6]int64
		for i, column := range []int{0, 1, 2, 3, 4, number} {
			if n[i], err = strconv.ParseInt(f[column], 10, 64); err != nil || n[i] < 0 {
				return result{}, fmt.Errorf("column %d: %q is not a number", column+1, f[column])
			}
		}
		if n[1] > math.MaxUint16 {
			return result{}, fmt.Errorf("column 2: %d is no status", n[1])
		}
		return result{
			Timestamp: time.Unix(0, n[0]), Code: uint16(n[1]), Latency: time.Duration(n[2]), //nolint:gosec // G115: checked above
			BytesOut: uint64(n[3]), BytesIn: uint64(n[4]), Error: f[5], Seq: uint64(n[5]), //nolint:gosec // G115: not negative
		}, nil
	}
}
