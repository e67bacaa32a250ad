// Package h2load reads what h2load writes with --log-file, one line a request,
// and what it prints.
package h2load

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
const Name = "h2load"

// Read reads a log: tab-separated start in microseconds since 1970, status (-1:
// failed) and microseconds until the end of the answer.
func Read(r io.Reader, about ingest.About) (*model.LoadResult, error) {
	m, err := readLog(r, about)
	if err != nil {
		return nil, err
	}
	return m.Result, nil
}

func readLog(r io.Reader, about ingest.About) (*ingest.Measurement, error) {
	about.Arrival = model.ArrivalClosed
	paced := about.Rate
	about.Rate = 0
	rec := ingest.NewRecorder(Name, about, model.BasisSent)
	t := rec.Out().Tool
	var log ingest.RequestLog
	n := uint64(0)
	err := ingest.Lines(r, func(line string) error {
		q, err := request(line)
		if err == nil {
			rec.Add(q)
			log.Add(ingest.Request{Seq: n, Sent: time.Unix(0, q.Sent), Latency: time.Duration(q.Done - q.Sent), Code: q.Status, Error: string(q.Failure)})
			n++
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading h2load's log: %w", err)
	}
	out := rec.Result()
	if out.Due+out.WarmupDue == 0 {
		return nil, errors.New("reading h2load's log: no request has ended")
	}
	t.Note("times are in whole microseconds")
	t.Note("requests that were under way at the end are not in the log")
	t.Note(ingest.NoBytes)
	if out.FailedTotal() > out.Failed[model.CauseStatus] {
		t.Note("failed streams (status -1) are counted as protocol errors: h2load does not tell why they failed")
	}
	if paced > 0 {
		t.Note(ingest.NoDue)
	} else {
		out.Response.Merge(out.Service)
	}
	m := &ingest.Measurement{Result: out, Requests: log.Sorted(t)}
	if len(m.Requests) > 0 {
		m.Started = m.Requests[0].Sent
	}
	m.Label(ingest.LabelFormat, "log file")
	return m, nil
}

func request(line string) (q ingest.Record, err error) {
	f := strings.Split(line, "\t")
	const columns = 3
	if len(f) < columns {
		return q, fmt.Errorf("%.100q is not start, status and duration", line)
	}
	var n [columns]int64
	for i := range n {
		if n[i], err = strconv.ParseInt(f[i], 10, 64); err != nil {
			return q, fmt.Errorf("column %d: %w", i+1, err)
		}
	}
	const bad, micro, mostStart, mostTook, mostStatus = 400, 1000, 1 << 53, 1 << 40, 999
	if n[0] < 0 || n[0] > mostStart || n[2] < 0 || n[2] > mostTook || n[1] < -1 || n[1] > mostStatus {
		return q, fmt.Errorf("%.100q cannot be: start, status or duration is out of range", line)
	}
	q = ingest.Record{Sent: n[0] * micro, Done: (n[0] + n[2]) * micro, Status: int(max(n[1], 0))}
	switch {
	case n[1] <= 0:
		q.Failure = model.CauseProtocol
	case n[1] >= bad:
		q.Failure = model.CauseStatus
	}
	return q, nil
}
