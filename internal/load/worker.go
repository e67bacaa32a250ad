package load

import (
	"fmt"
	"math"
	"net/netip"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// states of a connection.
const (
	stateClosed     = iota // no socket; opened for the next request
	stateConnecting        // a request waits for it
	stateIdle
	stateBusy
)

// conn is one connection with at most one request in flight.
type conn struct {
	fd        int
	state     int
	epoch     uint32 // tells events of an earlier socket of this connection
	session   Session
	target    syscall.Sockaddr
	family    int
	due, sent int64
	blocked   bool
	out       []byte // request bytes; out[wrote:] are still to be written
	wrote     int
	retryAt   int64 // closed loop: not before
	backoff   int64
	opened    int64 // bytes received for the present request: was the answer begun?
}

// worker is one sending thread.
type worker struct {
	job      Job
	number   int
	epoll    int
	conns    []*conn
	free     []int32 // FIFO of connections without a request; a ring
	head, n  int
	schedule Schedule
	rec      recorder
	buf      []byte
	answers  []Answer
	events   []syscall.EpollEvent
	sockets  uint64
	idle     time.Duration
	cpu      time.Duration

	start, winStart, winEnd int64
	slot                    int64
	next                    uint64 // number of the next request of this worker
	nextDue                 int64
	blockedUntil            int64
	inFlight                int
	started                 uint64 // requests since the load began
	failedAll, okAll        uint64

	live struct{ due, ok, failed atomic.Uint64 }
}

const (
	maxBackoff = int64(time.Second)
	minBackoff = int64(5 * time.Millisecond)
	readBytes  = 64 << 10
	maxEvents  = 256
)

func newWorker(j Job, number int) (*worker, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making an epoll set: %w", err)
	}
	w := &worker{job: j, number: number, epoll: fd, buf: make([]byte, readBytes), answers: make([]Answer, 0, 16), events: make([]syscall.EpollEvent, maxEvents)}
	w.rec.responders = make([]responder, 0, maxResponders)
	for i := number; i < j.Load.Connections; i += j.Workers {
		target := j.Targets[i%len(j.Targets)]
		c := &conn{fd: -1, out: make([]byte, 0, 512)}
		c.target, c.family = sockaddr(target)
		w.conns = append(w.conns, c)
	}
	w.free = make([]int32, len(w.conns))
	for i := range w.conns {
		w.release(int32(i))
	}
	if j.Load.Arrival == model.ArrivalOpen {
		w.schedule = Constant{j.Load.Rate}
	}
	return w, nil
}

func sockaddr(a netip.AddrPort) (syscall.Sockaddr, int) {
	if a.Addr().Is4() {
		return &syscall.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}, syscall.AF_INET
	}
	return &syscall.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}, syscall.AF_INET6
}

func (w *worker) close() error {
	for _, c := range w.conns {
		c.shut()
	}
	return syscall.Close(w.epoll)
}

func (c *conn) shut() {
	if c.fd >= 0 {
		_ = syscall.Close(c.fd) // nothing is left to be lost
	}
	c.fd, c.state, c.session = -1, stateClosed, nil
	c.epoch++
}

func (w *worker) release(i int32) {
	w.free[(w.head+w.n)%len(w.free)] = i
	w.n++
}

func (w *worker) take() int32 {
	i := w.free[w.head]
	w.head = (w.head + 1) % len(w.free)
	w.n--
	return i
}

// run sends from start until the window ends, then waits for what is in flight.
func (w *worker) run(start int64, window model.Window, stop *atomic.Bool) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	setTimerSlack()
	w.start, w.winStart, w.winEnd = start, window.Start, window.End
	w.slot = slotWidth(window.Duration()).Nanoseconds()
	for i, c := range w.conns {
		w.open(int32(i), c) // ahead of time; requests reuse them
	}
	w.next = uint64(w.number)
	w.setNextDue()
	var cpuAtStart time.Duration
	measuring := false
	nextSweep := start
	for !stop.Load() {
		t := now()
		if !measuring && t >= w.winStart {
			measuring, cpuAtStart, w.idle = true, threadCPU(), 0
		}
		if t >= w.winEnd && measuring && w.cpu == 0 {
			w.cpu = threadCPU() - cpuAtStart
		}
		if w.schedule != nil {
			t = w.sendDue(t)
		} else {
			w.sendClosed(t)
		}
		if t >= nextSweep {
			w.sweep(t)
			nextSweep = t + int64(20*time.Millisecond)
		}
		if t >= w.winEnd && w.inFlight == 0 && (w.schedule == nil || w.nextDue >= w.winEnd) {
			break
		}
		w.poll(w.timeout(t, nextSweep))
		w.publish()
	}
	if w.cpu == 0 && measuring {
		w.cpu = threadCPU() - cpuAtStart
	}
	w.publish()
}

func (w *worker) publish() {
	w.live.due.Store(w.started)
	w.live.ok.Store(w.okAll)
	w.live.failed.Store(w.failedAll)
}

func (w *worker) setNextDue() {
	at, ok := w.dueOf(w.next)
	w.nextDue = math.MaxInt64
	if ok {
		w.nextDue = w.start + int64(at)
	}
}

func (w *worker) dueOf(k uint64) (time.Duration, bool) {
	if w.schedule == nil {
		return 0, false
	}
	return w.schedule.Due(k)
}

// sendDue sends everything that is due, as far as connections are free. When
// the load has ended, what is due and still has no connection is unsent.
func (w *worker) sendDue(t int64) int64 {
	for w.nextDue <= t && w.nextDue < w.winEnd {
		if w.n == 0 {
			if t < w.winEnd {
				return t
			}
			w.countUnsent()
			return t
		}
		w.begin(w.take(), w.nextDue, t, w.nextDue < w.blockedUntil)
		w.next += uint64(w.job.Workers)
		w.setNextDue()
		t = now()
	}
	return t
}

func (w *worker) countUnsent() {
	for w.nextDue < w.winEnd {
		w.started++
		if w.nextDue >= w.winStart {
			w.rec.due++
			w.rec.unsent++
			w.rec.timeline.failed[w.slotOf(w.nextDue)]++
		} else {
			w.rec.warmupDue++
			w.rec.warmupFailed++
		}
		w.next += uint64(w.job.Workers)
		w.setNextDue()
	}
}

// sendClosed gives every free connection a request, unless it waits after a
// failure to connect.
func (w *worker) sendClosed(t int64) {
	if t < w.start || t >= w.winEnd {
		return
	}
	for range w.n {
		i := w.take()
		if w.conns[i].retryAt > t {
			w.release(i)
			continue
		}
		w.begin(i, t, t, false)
	}
}

func (w *worker) slotOf(at int64) int {
	return int(min(max((at-w.winStart)/w.slot, 0), numSlots-1))
}

// begin gives a request to a connection, opening it first if need be.
func (w *worker) begin(i int32, due, t int64, blocked bool) {
	c := w.conns[i]
	c.due, c.sent, c.blocked, c.wrote, c.opened = due, t, blocked, 0, 0
	w.inFlight++
	w.started++
	if due >= w.winStart {
		w.rec.due++
		w.rec.sent++
		if blocked {
			w.rec.blocked++
		} else if w.schedule != nil {
			w.rec.lateness.Record(t - due)
		}
	} else {
		w.rec.warmupDue++
	}
	if c.state == stateClosed && !w.open(i, c) {
		w.fail(i, c, causeConnect)
		return
	}
	if c.session == nil {
		c.session = w.job.Session()
	}
	c.out = c.session.Begin(c.out[:0], w.token(i, c))
	if c.state == stateConnecting {
		return // written when the connection is there
	}
	c.state = stateBusy
	w.write(i, c)
}

func (w *worker) token(i int32, _ *conn) uint32 { return uint32(i) }

// write writes what is left of the request.
func (w *worker) write(i int32, c *conn) {
	for c.wrote < len(c.out) {
		n, errno := rawWrite(c.fd, c.out[c.wrote:])
		switch errno {
		case 0:
			c.wrote += n
			if c.due >= w.winStart {
				w.rec.bytesSent += uint64(n)
			}
		case syscall.EAGAIN:
			return // epoll says when to go on
		case syscall.EINTR:
		default:
			w.fail(i, c, causeOf(errno))
			return
		}
	}
}

func causeOf(errno syscall.Errno) int {
	switch errno {
	case syscall.ECONNREFUSED:
		return causeRefused
	case syscall.ECONNRESET, syscall.EPIPE:
		return causeReset
	case syscall.ETIMEDOUT:
		return causeTimeout
	}
	return causeConnect
}

// open starts a connection; false if even that is impossible.
func (w *worker) open(i int32, c *conn) bool {
	fd, err := syscall.Socket(c.family, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	c.fd = fd
	if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1); err != nil {
		c.shut()
		return false
	}
	ev := syscall.EpollEvent{Events: syscall.EPOLLIN | syscall.EPOLLOUT | syscall.EPOLLRDHUP | epollET, Fd: i, Pad: int32(c.epoch)}
	if err := syscall.EpollCtl(w.epoll, syscall.EPOLL_CTL_ADD, fd, &ev); err != nil {
		c.shut()
		return false
	}
	w.sockets++
	c.state = stateConnecting
	if err := syscall.Connect(fd, c.target); err != nil && err != syscall.EINPROGRESS { //nolint:errorlint // an errno, on the hot path
		c.shut()
		return false
	}
	return true
}

// epollET is EPOLLET, which the syscall package has as a negative number.
const epollET = 1 << 31

// fail ends the request of a connection, if it has one, and the connection.
func (w *worker) fail(i int32, c *conn, cause int) {
	t := now()
	had := c.sent != 0
	c.shut()
	c.backoff = min(max(2*c.backoff, minBackoff), maxBackoff)
	c.retryAt = t + c.backoff
	if !had {
		return
	}
	w.countFailure(c, t, cause)
	w.done(i, c, t)
}

func (w *worker) countFailure(c *conn, t int64, cause int) {
	w.failedAll++
	if w.okAll == 0 {
		w.rec.prefix++
	}
	if c.due < w.winStart {
		w.rec.warmupFailed++
		return
	}
	w.rec.failed[cause]++
	w.rec.failedResponse.Record(t - c.due)
	w.rec.timeline.failed[w.slotOf(c.due)]++
}

// done makes a connection free for the next request.
func (w *worker) done(i int32, c *conn, t int64) {
	c.sent = 0
	w.inFlight--
	if w.n == 0 && w.nextDue <= t {
		w.blockedUntil = t
	}
	w.release(i)
}

// timeout is how long to wait for events, in nanoseconds.
func (w *worker) timeout(t, nextSweep int64) int64 {
	until := nextSweep
	if w.schedule != nil && w.n > 0 && w.nextDue < w.winEnd {
		until = min(until, w.nextDue)
	}
	return max(min(until, t+int64(20*time.Millisecond))-t, 0)
}

// sweep ends requests that have taken longer than the timeout.
func (w *worker) sweep(t int64) {
	limit := w.job.Load.Timeout.Nanoseconds()
	for i, c := range w.conns {
		if c.sent != 0 && t-c.sent > limit {
			w.fail(int32(i), c, causeTimeout)
		}
	}
}

// poll waits for events and handles them.
func (w *worker) poll(ns int64) {
	before := now()
	n := epollWait(w.epoll, w.events, ns)
	w.idle += time.Duration(now() - before)
	for e := range n {
		ev := &w.events[e]
		c := w.conns[ev.Fd]
		if uint32(ev.Pad) != c.epoch || c.fd < 0 {
			continue // of a socket that is gone
		}
		w.handle(ev.Fd, c, ev.Events)
		if w.schedule != nil && w.nextDue <= now() {
			w.sendDue(now()) // requests do not wait for the rest of the events
		}
	}
}

func (w *worker) handle(i int32, c *conn, events uint32) {
	if c.state == stateConnecting && !w.connected(i, c, events) {
		return
	}
	if c.wrote < len(c.out) && c.state == stateBusy && events&syscall.EPOLLOUT != 0 {
		epoch := c.epoch
		w.write(i, c)
		if c.epoch != epoch {
			return
		}
	}
	if events&(syscall.EPOLLIN|syscall.EPOLLRDHUP|syscall.EPOLLHUP|syscall.EPOLLERR) != 0 {
		w.read(i, c)
	}
}

// connected finishes a connect; false if it failed or is still under way.
func (w *worker) connected(i int32, c *conn, events uint32) bool {
	if events&(syscall.EPOLLOUT|syscall.EPOLLERR|syscall.EPOLLHUP) == 0 {
		return false
	}
	errno, err := syscall.GetsockoptInt(c.fd, syscall.SOL_SOCKET, syscall.SO_ERROR)
	if err != nil || errno != 0 {
		w.fail(i, c, causeOf(syscall.Errno(errno)))
		return false
	}
	c.backoff, c.retryAt = 0, 0
	c.state = stateIdle
	if c.sent != 0 {
		c.state = stateBusy
		epoch := c.epoch
		w.write(i, c)
		return c.epoch == epoch
	}
	return true
}

// read takes what has arrived. A short read means that the socket is empty:
// the kernel raises a new edge for whatever comes later.
func (w *worker) read(i int32, c *conn) {
	for {
		n, errno := rawRead(c.fd, w.buf)
		switch {
		case errno == syscall.EAGAIN:
			return
		case errno == syscall.EINTR:
			continue
		case errno != 0:
			w.fail(i, c, causeOf(errno))
			return
		case n == 0:
			w.closedByPeer(i, c)
			return
		}
		c.opened += int64(n)
		if !w.feed(i, c, w.buf[:n]) || n < len(w.buf) {
			return
		}
	}
}

// feed gives bytes to the session and counts what they complete; false if the
// connection ended by it.
func (w *worker) feed(i int32, c *conn, b []byte) bool {
	if c.sent == 0 || c.session == nil {
		w.fail(i, c, causeProtocol) // bytes that nobody asked for
		return false
	}
	if c.due >= w.winStart {
		w.rec.bytesReceived += uint64(len(b))
	}
	got, err := c.session.Feed(b, w.answers[:0])
	if err != nil || len(got) > 1 {
		w.fail(i, c, causeProtocol)
		return false
	}
	if len(got) == 0 {
		return true
	}
	return w.finish(i, c, &got[0])
}

func (w *worker) closedByPeer(i int32, c *conn) {
	if c.sent == 0 || c.session == nil {
		c.shut() // idle connections may be closed; the next request opens another
		return
	}
	got, err := c.session.EOF(w.answers[:0])
	if err != nil || len(got) != 1 {
		w.fail(i, c, causeClosed)
		return
	}
	got[0].Close = true
	w.finish(i, c, &got[0])
}

// finish counts one complete answer; false if the connection ended by it.
func (w *worker) finish(i int32, c *conn, a *Answer) bool {
	t := now()
	if c.due >= w.winStart {
		w.rec.statuses[min(max(a.Status, 0), len(w.rec.statuses)-1)]++
	}
	if a.OK {
		w.okAll++
		if w.rec.firstSuccess == 0 {
			w.rec.firstSuccess = t - w.start
		}
		if c.due >= w.winStart {
			w.rec.success(a, w.job.Expect)
			w.rec.response.Record(t - c.due)
			w.rec.service.Record(t - c.sent)
			w.rec.timeline.success(w.slotOf(c.due), t-c.due)
		}
	} else {
		w.countFailure(c, t, causeStatus)
	}
	open := !a.Close
	if open {
		c.state = stateIdle
	} else {
		c.shut()
	}
	w.done(i, c, t)
	return open
}
