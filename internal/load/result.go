package load

import (
	"maps"
	"math"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/model"
)

// timelineSlots is the length of every timeline.
const timelineSlots = 100

// slotWidth divides the window evenly, in slots of at least 10 ms.
func slotWidth(window time.Duration) time.Duration {
	return max((window+timelineSlots-1)/timelineSlots, 10*time.Millisecond)
}

// timeline is a model.Timeline of fixed memory.
type timeline [timelineSlots]timelineSlot

type timelineSlot struct {
	ok, failed uint64
	sum, most  int64
	cells      [hist.Cells]uint32
}

func (s *timelineSlot) success(response int64, cell uint32) {
	s.ok++
	s.sum += response
	s.most = max(s.most, response)
	s.cells[cell]++
}

func (s *timelineSlot) merge(o *timelineSlot) {
	s.ok += o.ok
	s.failed += o.failed
	s.sum += o.sum
	s.most = max(s.most, o.most)
	for i, n := range o.cells {
		s.cells[i] += n
	}
}

func (s *timelineSlot) export() model.Slot {
	out := model.Slot{Succeeded: s.ok, Failed: s.failed, Max: time.Duration(s.most)}
	if s.ok > 0 {
		out.Mean = time.Duration(float64(s.sum) / float64(s.ok))
	}
	for i, n := range s.cells {
		if n > 0 {
			out.Cells = append(out.Cells, [2]uint32{uint32(i), n})
		}
	}
	return out
}

// result adds up what the workers counted; histograms are merged exactly.
func (r *run) result() *model.LoadResult {
	l := &r.job.Load
	out := &model.LoadResult{
		Arrival: l.Arrival, Connections: l.Connections, Streams: r.streams, Elapsed: r.window.Duration(),
		Failed: map[model.Cause]uint64{}, Reasons: map[model.Cause]string{}, Statuses: map[int]uint64{}, Responders: map[string]uint64{},
		Response: &hist.Histogram{}, Service: &hist.Histogram{}, FailedResponse: &hist.Histogram{}, Lateness: &hist.Histogram{},
		Workers: len(r.workers), Clock: "CLOCK_MONOTONIC",
	}
	if l.Arrival == model.ArrivalOpen {
		out.Rate = l.Rate
	}
	if first := r.firstSuccess.Load(); first != 0 {
		out.FirstSuccess = time.Duration(first - r.start)
	}
	var all timeline
	var coarse, stamped string
	for _, w := range r.workers {
		w.rec.addTo(out)
		for i := range all {
			all[i].merge(&w.rec.timeline[i])
		}
		out.GeneratorIdle += float64(w.idle) / float64(out.Elapsed) / float64(len(r.workers))
		if w.poller.coarse {
			coarse = "; this kernel has no epoll_pwait2, waits under 1 ms were spun"
		}
		if w.stamped {
			stamped = "; receipt as stamped by the kernel (SO_TIMESTAMPNS)"
		}
	}
	out.Clock += stamped + coarse
	out.GeneratorCPU = time.Duration(r.workers[0].cpu[1] - r.workers[0].cpu[0])
	out.Timeline.SlotWidth = time.Duration(r.slot)
	used := (out.Elapsed.Nanoseconds() + r.slot - 1) / r.slot
	for i := range all[:used] {
		out.Timeline.Slots = append(out.Timeline.Slots, all[i].export())
	}
	return out
}

func (r *recorder) addTo(o *model.LoadResult) {
	if r.succeeded > 0 {
		h, b := r.header, r.body
		if o.Succeeded > 0 {
			h.add(o.HeaderBytesMin, false)
			h.add(o.HeaderBytesMax, false)
			b.add(o.BodyBytesMin, false)
			b.add(o.BodyBytesMax, false)
		}
		o.HeaderBytesMin, o.HeaderBytesMax = h.least, h.most
		o.BodyBytesMin, o.BodyBytesMax = b.least, b.most
	}
	o.Due += r.due
	o.Sent += r.sent
	o.Succeeded += r.succeeded
	o.Unsent += r.unsent
	o.Blocked += r.blocked
	o.Turnaround += time.Duration(r.turnaround)
	o.Unidentified += r.unidentified
	o.BytesSent += r.bytesSent
	o.BytesReceived += r.bytesReceived
	o.PayloadChanged += r.payloadChanged
	o.Messages += uint64(r.messages) //nolint:gosec // G115: not negative
	o.Sockets += r.sockets
	o.FailedPrefix += r.failedPrefix
	o.WarmupDue += r.warmupDue
	o.WarmupFailed += r.warmupFailed
	o.Response.Merge(&r.response)
	o.Service.Merge(&r.service)
	o.FailedResponse.Merge(&r.failedResponse)
	o.Lateness.Merge(&r.lateness)
	for c, n := range r.failed {
		o.Failed[c] += n
	}
	maps.Copy(o.Reasons, r.reasons)
	if r.trace != nil {
		o.AddTrace(r.trace.export(r.responders))
	}
	if r.traced != nil {
		o.AddTraced(r.traced.export())
	}
	for s, n := range r.statuses {
		if n > 0 {
			o.Statuses[s] += n
		}
	}
	for id, p := range r.responders {
		if p.n > 0 {
			o.Responders[id] += p.n
		}
	}
}

// progress adds up what the workers last published.
func (r *run) progress() Progress {
	var all counts
	for _, w := range r.workers {
		w.rec.mu.Lock()
		seen := &w.rec.seen
		all.due += seen.due
		all.succeeded += seen.succeeded
		all.failed += seen.failed
		for i, n := range seen.cells {
			all.cells[i] += n
		}
		w.rec.mu.Unlock()
	}
	return Progress{Due: all.due, Succeeded: all.succeeded, Failed: all.failed, P50: all.quantile(0.5), P99: all.quantile(0.99)}
}

// quantile is the middle of the cell that holds it; 0 without successes.
func (c *counts) quantile(q float64) time.Duration {
	rank := uint64(math.Ceil(q * float64(c.succeeded)))
	var seen uint64
	for i, n := range c.cells {
		if seen += n; n > 0 && seen >= rank {
			lo, hi := hist.CellBounds(uint32(i))
			return (lo + hi) / 2
		}
	}
	return 0
}
