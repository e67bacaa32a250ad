package load

import (
	"fmt"
	"math"
	"syscall"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

const (
	readBytes = 64 << 10
	maxEvents = 256
	// longestWait bounds how late a worker hears that it shall stop.
	longestWait  = int64(50 * time.Millisecond)
	publishEvery = int64(100 * time.Millisecond)
	// restAfterFailure keeps a dead server from spinning a closed loop.
	restAfterFailure = int64(20 * time.Millisecond)
	// connectLimit bounds the wait for connections before the load begins.
	connectLimit = 3 * time.Second
	never        = int64(math.MaxInt64)
)

// worker is one sending thread. Of the requests that are the generator's, it
// sends every Wth, where W is the number of workers.
type worker struct {
	*run
	number int
	poller poller
	conns  []*conn

	free, flying queue
	resting      sleepers

	schedule     Schedule // nil: a closed loop
	end          int64    // of the window: earlier than planned once the load is asked to finish
	k            uint64   // the next request's number
	due          int64    // when that is due; never: there is none
	blockedUntil int64    // when the last slot became free after there was none
	publishAt    int64
	idle         int64    // waited for events in the window
	marks        int      // edges of the window passed
	cpu          [2]int64 // of the process at those edges; worker 0 only

	buf     []byte
	plain   []byte // of TLS
	control [64]byte
	stamped bool // the kernel has stamped what was received
	answers []Answer
	rec     *recorder
}

func newWorker(r *run, number int) (*worker, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making an epoll set: %w", err)
	}
	w := &worker{
		run: r, number: number, due: never,
		poller:   poller{fd: fd, events: make([]syscall.EpollEvent, maxEvents)},
		schedule: r.newSchedule(), buf: make([]byte, readBytes), answers: make([]Answer, 0, r.streams),
	}
	if r.tls != nil {
		w.plain = make([]byte, readBytes)
	}
	if w.rec, err = newRecorder(r, number); err != nil {
		_ = syscall.Close(fd) // nothing is in it
		return nil, err
	}
	return w, nil
}

// add gives the worker a connection, not yet open.
func (w *worker) add(s Session, to address) {
	c := &conn{number: len(w.conns), to: to, fd: -1, session: s, slots: make([]slot, w.streams), out: make([]byte, 0, 1024)}
	c.replier, _ = s.(Replier)
	c.canceller, _ = s.(Canceller)
	c.drainer, _ = s.(Drainer)
	c.numberer, _ = s.(Numberer)
	for i := range c.slots {
		c.slots[i].conn, c.slots[i].id = c, uint32(i)
	}
	w.conns = append(w.conns, c)
}

// ready makes all slots free, so that the first requests go to one connection
// after the other.
func (w *worker) ready() {
	for i := range w.streams {
		for _, c := range w.conns {
			w.free.push(&c.slots[i])
		}
	}
	w.resting = make(sleepers, 0, w.streams*len(w.conns))
}

func (w *worker) close() {
	for _, c := range w.conns {
		c.shut()
	}
	_ = syscall.Close(w.poller.fd) // its sockets are closed
}

// connectAll opens the connections before the load, for a limited time. One
// that fails now is opened by the first request that it is given.
func (w *worker) connectAll() {
	now := w.clock.now()
	limit := now + min(w.job.Load.Timeout, connectLimit).Nanoseconds()
	for _, c := range w.conns {
		if !w.reconnects {
			w.dial(c, now)
		}
	}
	for w.opening() && now < limit && !w.stop.Load() {
		for i := range w.poller.wait(min(longestWait, limit-now)) {
			w.event(&w.poller.events[i])
		}
		now = w.clock.now()
	}
}

func (w *worker) opening() bool {
	for _, c := range w.conns {
		if c.state == opening || c.state == securing {
			return true
		}
	}
	return false
}

// loop sends from the start to the end of the window, then waits for what is
// still outstanding: at most the timeout.
func (w *worker) loop() {
	w.k = uint64(w.number*w.shards + w.job.Shard) //nolint:gosec // G115: small indexes
	w.end = w.window.End
	w.plan()
	if w.schedule == nil {
		w.settle()
	}
	for !w.stop.Load() {
		if early := w.early.Load(); early != 0 && early < w.end {
			w.end = early
			w.plan()
		}
		now := w.send(w.clock.now())
		w.expire(now)
		w.mark(now)
		if now >= w.end && w.flying.head == nil && w.marks == len(w.cpu) {
			break
		}
		w.poll(now)
	}
	w.rec.publish()
}

// plan works out when the present request is due.
func (w *worker) plan() {
	w.due = never
	if w.schedule == nil {
		return
	}
	if at, ok := w.schedule.Due(w.k); ok && w.start+int64(at) < w.end {
		w.due = w.start + int64(at)
	}
}

func (w *worker) skip() {
	w.k += uint64(len(w.workers) * w.shards) //nolint:gosec // G115: small numbers
	w.plan()
}

// send sends all that is due, as far as slots are free, and returns the time.
// What is due and has no slot when the load ends, or at once where the load
// says so, is unsent.
func (w *worker) send(now int64) int64 {
	for w.due <= now && w.free.head != nil {
		s := w.free.pop()
		w.begin(s, w.due, now)
		w.flushUp(s.conn, now)
		w.skip()
		now = w.clock.now()
	}
	for w.due != never && (now >= w.end || w.job.Load.Drop && w.due <= now && w.free.head == nil) {
		w.rec.unsentRequest(w.due)
		w.skip()
	}
	if w.schedule == nil {
		now = w.sendFree(now)
	}
	return now
}

// sendFree sends the next request of each slot of a closed loop that is free or
// has rested. This is done when all answers that have come are read, as sending
// takes several times as long: an answer should not wait for that before it is
// stamped.
func (w *worker) sendFree(now int64) int64 {
	for len(w.resting) > 0 && w.resting[0].until <= now {
		w.free.push(w.resting.pop())
	}
	for w.free.head != nil && now < w.end {
		c := w.free.head.conn
		for w.free.head != nil && w.free.head.conn == c {
			w.sendNext(w.free.pop(), now)
		}
		w.flushUp(c, now) // one write for all of its slots
		now = w.clock.now()
	}
	return now
}

// sendNext sends the next request of a slot of a closed loop. If the loop is
// paced, that was due when the slot's turn came.
func (w *worker) sendNext(s *slot, now int64) {
	due := now
	if w.pace > 0 {
		due = s.turn
		s.turn += w.pace
	}
	w.rec.turned(due, now-s.until)
	w.begin(s, due, now)
}

// settle has the slots of a closed loop begin: all at once, or spread evenly
// over the first turn or the first thought. Where thoughts are random, what is
// left of one is as long as a whole one: spread evenly, the first users would be
// back before the last have begun, and the loop would begin with too high a rate.
func (w *worker) settle() {
	all := int64(w.streams * len(w.conns))
	spread := max(w.pace, w.job.Load.Think.Nanoseconds())
	for i := int64(0); w.free.head != nil; i++ {
		s := w.free.pop()
		s.turn = w.start + spread*i/all
		s.until, s.freed = s.turn, w.start
		if w.job.Load.Pattern.Poisson {
			s.until = w.rest(s, w.start)
		}
		w.resting.push(s)
	}
}

// rest says until when a slot of a closed loop rests before its next request.
func (w *worker) rest(s *slot, now int64) int64 {
	until := now
	if think := w.job.Load.Think.Nanoseconds(); think > 0 {
		if w.job.Load.Pattern.Poisson {
			s.thoughts++
			think = int64(float64(think) * exponential(w.job.Seed^mix(uint64(w.number)<<32|uint64(s.conn.number)), s.thoughts*uint64(w.streams)+uint64(s.id))) //nolint:gosec // G115: small indexes
		}
		until += think
	}
	if w.pace > 0 {
		until = max(until, s.turn)
	}
	return until
}

// begin gives a request to a slot's connection, and opens that if need be. One
// that is open has it still to be flushed.
func (w *worker) begin(s *slot, due, now int64) {
	s.due, s.sent, s.busy, s.moved, s.number = due, now, true, false, w.rec.traced.pick(now)
	w.flying.push(s)
	w.rec.request(due, now, due < w.blockedUntil || w.pace > 0 && due < s.freed)
	c := s.conn
	if c.state == up {
		c.begin(s)
		return
	}
	s.held = true
	if c.state == down {
		w.dial(c, now)
	}
}

// expire ends requests that have taken longer than the timeout. All have the
// same, so the first sent is the first to expire.
func (w *worker) expire(now int64) {
	limit := now - w.job.Load.Timeout.Nanoseconds()
	for s := w.flying.head; s != nil && s.sent <= limit; s = w.flying.head {
		c := s.conn
		if c.canceller == nil || c.state != up || c.unsent() > 0 {
			w.lose(c, model.CauseTimeout, nil, now)
			continue
		}
		c.out = c.canceller.Cancel(c.out, s.id)
		w.fail(s, model.CauseTimeout, now)
		w.flush(c, now)
		if c.drained() {
			w.replace(c, now)
		}
	}
}

// mark does what is due at certain times: the edges of the window, and letting
// others see the counts.
func (w *worker) mark(now int64) {
	edges := [...]int64{min(w.window.Start, w.end), w.end}
	for w.marks < len(edges) && now >= edges[w.marks] {
		if w.number == 0 {
			w.cpu[w.marks] = processCPU()
		}
		w.marks++
	}
	if now >= w.publishAt {
		w.rec.publish()
		w.publishAt = now + publishEvery
	}
}

// poll waits for the next thing to do and handles what has happened.
func (w *worker) poll(now int64) {
	events := w.poller.wait(max(w.wake(now)-now, 0))
	after := w.clock.now()
	w.idle += max(min(after, w.end)-max(now, w.window.Start), 0)
	if w.due <= after {
		w.send(after)
	}
	for i := range events {
		w.event(&events[i])
		if w.due == never {
			continue
		}
		if now = w.clock.now(); w.due <= now {
			w.send(now) // not after the rest of the events
		}
	}
}

// wake is when the worker must be awake again without any event.
func (w *worker) wake(now int64) int64 {
	at := now + longestWait
	if w.flying.head != nil {
		at = min(at, w.flying.head.sent+w.job.Load.Timeout.Nanoseconds())
	}
	if w.due != never && (w.free.head != nil || w.job.Load.Drop) {
		at = min(at, w.due+w.job.Load.Coalesce.Nanoseconds()-w.job.Load.Spin.Nanoseconds())
	}
	if len(w.resting) > 0 && now < w.end {
		at = min(at, w.resting[0].until)
	}
	switch w.marks {
	case 0:
		at = min(at, w.window.Start, w.end)
	case 1:
		at = min(at, w.end)
	}
	return at
}

// processCPU is the CPU time of this process in nanoseconds.
func processCPU() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // cannot be: the call has no such failure
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
