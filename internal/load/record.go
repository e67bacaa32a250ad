package load

import (
	"bytes"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/model"
)

// causes orders the causes, so that the hot path counts by index.
func causes() []model.Cause {
	return []model.Cause{
		model.CauseTimeout, model.CauseRefused, model.CauseReset, model.CauseClosed, model.CauseConnect,
		model.CauseTLS, model.CauseProtocol, model.CauseStatus, model.CausePayload,
	}
}

const (
	causeTimeout = iota
	causeRefused
	causeReset
	causeClosed
	causeConnect
	causeTLS
	causeProtocol
	causeStatus
	causePayload
	numCauses
)

// maxResponders bounds the identities that are told apart; the rest count as
// unidentified.
const maxResponders = 256

type responder struct {
	id    []byte
	count uint64
}

// recorder is what one worker counts in the window. All of it is allocated
// before the load.
type recorder struct {
	due, sent, ok, unsent, blocked uint64
	failed                         [numCauses]uint64
	response, service              hist.Histogram
	failedResponse, lateness       hist.Histogram
	statuses                       [600]uint64
	responders                     []responder
	last                           int // the responder of the last answer
	unidentified                   uint64
	bytesSent, bytesReceived       uint64
	headerMin, headerMax           int64
	bodyMin, bodyMax               int64
	payloadChanged                 uint64
	warmupDue, warmupFailed        uint64
	prefix                         uint64
	firstSuccess                   int64 // since the load's start; 0: none yet
	timeline                       timeline
}

func (r *recorder) success(a *Answer, expect Expect) {
	if r.ok == 0 {
		r.headerMin, r.headerMax, r.bodyMin, r.bodyMax = a.HeaderBytes, a.HeaderBytes, a.BodyBytes, a.BodyBytes
	}
	r.ok++
	r.headerMin, r.headerMax = min(r.headerMin, a.HeaderBytes), max(r.headerMax, a.HeaderBytes)
	r.bodyMin, r.bodyMax = min(r.bodyMin, a.BodyBytes), max(r.bodyMax, a.BodyBytes)
	if expect.Known && (a.Sum != expect.Sum || a.BodyBytes != expect.Bytes) {
		r.payloadChanged++
	}
	r.identify(a.Identity)
}

// identify counts the answer to its server. Answers of one server tend to come
// in runs, so the last one is tried first.
func (r *recorder) identify(id []byte) {
	if len(id) == 0 {
		r.unidentified++
		return
	}
	if r.last < len(r.responders) && bytes.Equal(r.responders[r.last].id, id) {
		r.responders[r.last].count++
		return
	}
	for i := range r.responders {
		if bytes.Equal(r.responders[i].id, id) {
			r.responders[i].count++
			r.last = i
			return
		}
	}
	if len(r.responders) == maxResponders {
		r.unidentified++
		return
	}
	r.last = len(r.responders)
	r.responders = append(r.responders, responder{bytes.Clone(id), 1})
}

func (r *recorder) addTo(o *model.LoadResult) {
	o.Due += r.due
	o.Sent += r.sent
	o.Unsent += r.unsent
	o.Blocked += r.blocked
	for i, c := range causes() {
		if r.failed[i] > 0 {
			o.Failed[c] += r.failed[i]
		}
	}
	for s, n := range r.statuses {
		if n > 0 {
			o.Statuses[s] += n
		}
	}
	for _, p := range r.responders {
		o.Responders[string(p.id)] += p.count
	}
	o.Unidentified += r.unidentified
	o.Response.Merge(&r.response)
	o.Service.Merge(&r.service)
	o.FailedResponse.Merge(&r.failedResponse)
	o.Lateness.Merge(&r.lateness)
	o.BytesSent += r.bytesSent
	o.BytesReceived += r.bytesReceived
	o.PayloadChanged += r.payloadChanged
	o.WarmupDue += r.warmupDue
	o.WarmupFailed += r.warmupFailed
	o.FailedPrefix += r.prefix
	if first := time.Duration(r.firstSuccess); first > 0 && (o.FirstSuccess == 0 || first < o.FirstSuccess) {
		o.FirstSuccess = first
	}
	if r.ok > 0 {
		if o.Succeeded == 0 {
			o.HeaderBytesMin, o.BodyBytesMin = r.headerMin, r.bodyMin
		}
		o.HeaderBytesMin, o.HeaderBytesMax = min(o.HeaderBytesMin, r.headerMin), max(o.HeaderBytesMax, r.headerMax)
		o.BodyBytesMin, o.BodyBytesMax = min(o.BodyBytesMin, r.bodyMin), max(o.BodyBytesMax, r.bodyMax)
	}
	o.Succeeded += r.ok
}

// numSlots is the length of every timeline.
const numSlots = 100

// slotWidth divides the window evenly, in slots of at least 10 ms.
func slotWidth(window time.Duration) time.Duration {
	return max((window+numSlots-1)/numSlots, 10*time.Millisecond)
}

// timeline is a model.Timeline of fixed memory.
type timeline struct {
	ok, failed [numSlots]uint64
	sum, most  [numSlots]int64
	cells      [numSlots][hist.Cells]uint32
}

func (t *timeline) success(slot int, response int64) {
	t.ok[slot]++
	t.sum[slot] += response
	t.most[slot] = max(t.most[slot], response)
	t.cells[slot][min(hist.Cell(time.Duration(response)), hist.Cells-1)]++
}

func (t *timeline) merge(o *timeline) {
	for s := range numSlots {
		t.ok[s] += o.ok[s]
		t.failed[s] += o.failed[s]
		t.sum[s] += o.sum[s]
		t.most[s] = max(t.most[s], o.most[s])
		for c, n := range o.cells[s] {
			t.cells[s][c] += n
		}
	}
}

func (t *timeline) export(width time.Duration) model.Timeline {
	out := model.Timeline{SlotWidth: width}
	last := numSlots - 1
	for last > 0 && t.ok[last]+t.failed[last] == 0 {
		last--
	}
	for s := range last + 1 {
		slot := model.Slot{Succeeded: t.ok[s], Failed: t.failed[s], Max: time.Duration(t.most[s])}
		if t.ok[s] > 0 {
			slot.Mean = time.Duration(t.sum[s] / int64(t.ok[s]))
		}
		for c, n := range t.cells[s] {
			if n > 0 {
				slot.Cells = append(slot.Cells, [2]uint32{uint32(c), n})
			}
		}
		out.Slots = append(out.Slots, slot)
	}
	return out
}
