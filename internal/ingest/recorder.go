package ingest

import (
	"math"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Record is one request of a tool's log. Times are on one clock of the tool's,
// in nanoseconds; where About has a window, on the wall clock since 1970.
type Record struct {
	Due     int64 // only if HasDue
	HasDue  bool
	Sent    int64
	Done    int64
	Status  int         // 0: none
	Failure model.Cause // empty: a success
	In, Out uint64      // bytes
}

// Recorder adds up requests, in the order in which they ended.
type Recorder struct {
	out      *model.LoadResult
	from, to int64
	cut      bool
	first    int64 // earliest Sent of the window
	last     int64 // latest Sent of the window
	done     int64 // latest Done of the window
	begun    bool
	start    int64 // Sent of the first request at all
	success  bool
	line     timeline
}

// NewRecorder begins a result.
func NewRecorder(tool string, about About, basis model.Basis) *Recorder {
	r := &Recorder{out: NewResult(tool, about, basis), first: math.MaxInt64}
	if !about.From.IsZero() && about.To.After(about.From) {
		r.cut, r.from, r.to = true, about.From.UnixNano(), about.To.UnixNano()
		r.out.Elapsed = about.To.Sub(about.From)
		r.line = timeline{origin: r.from, width: max(r.out.Elapsed.Nanoseconds()/slots, minSlot), set: true}
	}
	return r
}

// Out is the result so far, for what is not of a request.
func (r *Recorder) Out() *model.LoadResult { return r.out }

// Measured says whether a moment lies in the window.
func (r *Recorder) Measured(at int64) bool { return !r.cut || at >= r.from && at < r.to }

// Add counts one request.
func (r *Recorder) Add(q Record) {
	if !r.begun {
		r.begun, r.start = true, q.Sent
	}
	due := q.Sent
	if q.HasDue {
		due = q.Due
	}
	o := r.out
	if q.Failure != "" && !r.success {
		o.FailedPrefix++
	}
	if q.Failure == "" && !r.success {
		r.success, o.FirstSuccess = true, time.Duration(max(q.Done-r.start, 0))
	}
	if !r.Measured(due) {
		if due < r.from {
			o.WarmupDue++
			if q.Failure != "" {
				o.WarmupFailed++
			}
		}
		return
	}
	r.first, r.last, r.done = min(r.first, q.Sent), max(r.last, q.Sent), max(r.done, q.Done)
	o.Due++
	o.Sent++
	o.BytesReceived += q.In
	o.BytesSent += q.Out
	if q.Status != 0 {
		o.Statuses[q.Status]++
	}
	if q.HasDue {
		o.Lateness.Record(q.Sent - due)
	}
	if q.Failure != "" {
		o.Failed[q.Failure]++
		o.FailedResponse.Record(q.Done - due)
		r.line.add(due, q.Done-due, false)
		return
	}
	o.Succeeded++
	o.Service.Record(q.Done - q.Sent)
	if q.HasDue {
		o.Response.Record(q.Done - due)
	}
	r.line.add(due, q.Done-due, true)
}

// Unsent counts requests of the window that were due and never sent.
func (r *Recorder) Unsent(n uint64) {
	r.out.Due += n
	r.out.Unsent += n
}

// Result ends the count. Without a known duration, that of an open loop is
// taken to reach as far beyond the last request as requests are apart.
func (r *Recorder) Result() *model.LoadResult {
	o := r.out
	o.Timeline = r.line.export()
	if o.Elapsed > 0 || o.Sent == 0 {
		return o
	}
	o.Elapsed = time.Duration(r.done - r.first)
	if o.Arrival == model.ArrivalOpen && o.Sent > 1 {
		o.Elapsed = time.Duration(float64(r.last-r.first) * float64(o.Sent) / float64(o.Sent-1))
	}
	return o
}

const (
	slots   = 100
	minSlot = int64(10 * time.Millisecond)
)

// timeline is a model.Timeline that doubles its slots' width when it is full.
type timeline struct {
	origin, width int64
	set           bool
	slot          [slots]slot
	used          int
}

type slot struct {
	ok, failed uint64
	sum        float64
	most       int64
	cells      map[uint32]uint32
}

func (t *timeline) add(at, response int64, ok bool) {
	if !t.set {
		t.set, t.origin, t.width = true, at, minSlot
	}
	i := max(at-t.origin, 0) / t.width
	for i >= slots {
		if t.width > math.MaxInt64/4 {
			i = slots - 1
			break
		}
		t.double()
		i = max(at-t.origin, 0) / t.width
	}
	t.used = max(t.used, int(i)+1)
	s := &t.slot[i]
	if !ok {
		s.failed++
		return
	}
	if s.cells == nil {
		s.cells = map[uint32]uint32{}
	}
	s.ok++
	s.sum += float64(response)
	s.most = max(s.most, response)
	s.cells[min(hist.Cell(time.Duration(max(response, 0))), hist.Cells-1)]++
}

func (t *timeline) double() {
	old := t.slot
	t.slot = [slots]slot{}
	for i, s := range old {
		to := &t.slot[i/2]
		to.ok += s.ok
		to.failed += s.failed
		to.sum += s.sum
		to.most = max(to.most, s.most)
		if to.cells == nil {
			to.cells = s.cells
			continue
		}
		for c, n := range s.cells {
			to.cells[c] += n
		}
	}
	t.width, t.used = t.width*2, (t.used+1)/2
}

func (t *timeline) export() model.Timeline {
	out := model.Timeline{SlotWidth: time.Duration(t.width)}
	for i := range t.slot[:t.used] {
		s := &t.slot[i]
		m := model.Slot{Succeeded: s.ok, Failed: s.failed, Max: time.Duration(s.most)}
		if s.ok > 0 {
			m.Mean = time.Duration(s.sum / float64(s.ok))
		}
		for c := range uint32(hist.Cells) {
			if n := s.cells[c]; n > 0 {
				m.Cells = append(m.Cells, [2]uint32{c, n})
			}
		}
		out.Slots = append(out.Slots, m)
	}
	return out
}
