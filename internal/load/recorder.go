package load

import (
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/model"
)

// MaxResponders bounds how many identities one worker tells apart; successes of
// further ones count as unidentified.
const MaxResponders = 256

type responder struct {
	id    string
	n     uint64
	index int // in traces
}

// recorder is what one worker counts. All of it is allocated before the load.
type recorder struct {
	run       *run
	timed     bool // requests are due at times of their own
	expected  bool // is the right body known?
	sum       uint32
	bodyBytes int64

	due, sent, succeeded, unsent, blocked uint64
	failed                                map[model.Cause]uint64
	reasons                               map[model.Cause]string
	turnaround                            int64
	response, service                     hist.Histogram
	failedResponse, lateness              hist.Histogram
	statuses                              [600]uint64
	responders                            map[string]*responder
	unidentified                          uint64
	bytesSent, bytesReceived              uint64
	header, body                          extremes
	payloadChanged                        uint64
	messages                              int64
	sockets                               uint64
	failedPrefix                          uint64
	warmupDue, warmupFailed               uint64
	timeline                              timeline
	trace                                 *trace    // nil: not asked for
	traced                                *numbered // nil: not asked for

	sofar counts
	mu    sync.Mutex // guards seen, which others read
	seen  counts
}

// counts are since the load began, warm-up included.
type counts struct {
	due, succeeded, failed uint64
	cells                  [hist.Cells]uint64 // of successes' response times
}

type extremes struct{ least, most int64 }

func (e *extremes) add(v int64, first bool) {
	if first {
		e.least, e.most = v, v
		return
	}
	e.least, e.most = min(e.least, v), max(e.most, v)
}

func newRecorder(r *run, worker int) (*recorder, error) {
	rec := &recorder{run: r, timed: r.job.Load.Arrival == model.ArrivalOpen || r.pace > 0, failed: map[model.Cause]uint64{}, reasons: map[model.Cause]string{}, responders: map[string]*responder{}}
	for _, id := range r.job.Identities {
		if id != "" && len(rec.responders) < MaxResponders {
			rec.responders[id] = &responder{id: id, index: len(rec.responders)}
		}
	}
	if r.job.Load.Fault != "" {
		rec.trace = newTrace(r.job.Load)
	}
	if r.job.Traced {
		rec.traced = newNumbered(r.job.Shard, worker)
	}
	var err error
	if rec.expected = r.job.Expect != ""; rec.expected {
		rec.sum, rec.bodyBytes, err = r.job.Expect.parts()
	}
	return rec, err
}

// measured says whether a request belongs to the window.
func (r *recorder) measured(due int64) bool { return due >= r.run.window.Start }

func (r *recorder) slotOf(due int64) int {
	return int(min((due-r.run.window.Start)/r.run.slot, timelineSlots-1))
}

// request counts one that is given to a connection.
func (r *recorder) request(due, sent int64, blocked bool) {
	r.sofar.due++
	if !r.measured(due) {
		r.warmupDue++
		return
	}
	r.due++
	r.sent++
	switch {
	case blocked:
		r.blocked++
	case r.timed:
		r.lateness.Record(sent - due)
	}
}

// turned counts how long a slot of a closed loop waited to be sent.
func (r *recorder) turned(due, waited int64) {
	if r.measured(due) {
		r.turnaround += waited
	}
}

// unsentRequest counts one that never had a connection.
func (r *recorder) unsentRequest(due int64) {
	r.sofar.due++
	r.sofar.failed++
	if !r.measured(due) {
		r.warmupDue++
		r.warmupFailed++
		return
	}
	r.due++
	r.unsent++
	r.trace.failure(due-r.run.window.Start, max(0, r.run.window.End-due), model.CauseUnsent)
	r.timeline[r.slotOf(due)].failed++
}

// failure counts one that was sent, or could not be.
func (r *recorder) failure(s *slot, cause model.Cause, done int64) {
	r.sofar.failed++
	if r.run.firstSuccess.Load() == 0 {
		r.failedPrefix++
	}
	if !r.measured(s.due) {
		r.warmupFailed++
		return
	}
	r.failed[cause]++
	r.failedResponse.Record(done - s.due)
	r.trace.failure(s.due-r.run.window.Start, done-s.due, cause)
	r.timeline[r.slotOf(s.due)].failed++
}

// explain keeps the first failure of a cause in words.
func (r *recorder) explain(cause model.Cause, err error) {
	if err == nil || r.reasons[cause] != "" {
		return
	}
	r.reasons[cause] = err.Error()
}

// answer counts a complete answer, good or bad.
func (r *recorder) answer(s *slot, a *Answer, done int64) {
	if a.Status > 0 && a.Status < len(r.statuses) && r.measured(s.due) {
		r.statuses[a.Status]++
	}
	if a.Failure != "" {
		r.failure(s, a.Failure, done)
		return
	}
	if r.sofar.succeeded == 0 {
		r.run.firstSuccess.CompareAndSwap(0, done)
	}
	response := done - s.due
	cell := min(hist.Cell(time.Duration(response)), hist.Cells-1)
	r.sofar.succeeded++
	r.sofar.cells[cell]++
	if !r.measured(s.due) {
		return
	}
	first := r.succeeded == 0
	r.succeeded++
	r.response.Record(response)
	r.service.Record(done - s.sent)
	r.header.add(a.HeaderBytes, first)
	r.body.add(a.BodyBytes, first)
	r.messages += a.Messages
	if r.expected && (a.Sum != r.sum || a.BodyBytes != r.bodyBytes) {
		r.payloadChanged++
	}
	who := r.identify(s.conn, a.Identity)
	r.trace.success(s.due-r.run.window.Start, response, who, a.Path)
	r.traced.success(s.number, done-s.sent, a.Header)
	r.timeline[r.slotOf(s.due)].success(response, cell)
}

// identify counts a success to its server. A connection tends to be answered
// by one, so the last is tried first. It returns the responder's index.
func (r *recorder) identify(c *conn, id []byte) int {
	if len(id) == 0 {
		r.unidentified++
		return model.Unidentified
	}
	if c.responder == nil || string(id) != c.responder.id {
		p := r.responders[string(id)]
		if p == nil {
			if len(r.responders) == MaxResponders {
				r.unidentified++
				return model.Unidentified
			}
			p = &responder{id: string(id), index: len(r.responders)}
			r.responders[p.id] = p
		}
		c.responder = p
	}
	c.responder.n++
	return c.responder.index
}

// publish lets others see the counts so far; it never waits for them.
func (r *recorder) publish() {
	if r.mu.TryLock() {
		r.seen = r.sofar
		r.mu.Unlock()
	}
}
