package load

import (
	"errors"
	"io"
	"syscall"

	"github.com/windtunnel/windtunnel/internal/model"
)

// state is that of a connection.
type state int

const (
	down     state = iota // no socket; the next request opens one
	opening               // requests are held until it is open
	securing              // the same, during the TLS handshake
	up
)

// conn is one connection of the load, over as many sockets as it takes.
type conn struct {
	number    int // index in the worker
	to        address
	fd        int
	state     state
	epoch     int32 // tells events of a socket from those of an earlier one
	answered  bool  // this socket has carried an answer
	session   Session
	replier   Replier
	canceller Canceller
	drainer   Drainer
	numberer  Numberer
	slots     []slot
	out       []byte // the session's bytes; out[wrote:] is still to be written
	wrote     int
	secured   *secured   // nil: in the clear
	responder *responder // of the last answer
}

// pending is what is to be written to the socket: what the session says, or
// that in TLS records.
func (c *conn) pending() *[]byte {
	if c.secured != nil {
		return &c.secured.out
	}
	return &c.out
}

// unsent counts the bytes that the socket has not taken yet.
func (c *conn) unsent() int { return len(*c.pending()) - c.wrote }

func (c *conn) shut() {
	if c.fd >= 0 {
		_ = syscall.Close(c.fd) // what was lost by it is counted by request
	}
	if c.secured != nil {
		c.secured.close()
		c.secured = nil
	}
	c.fd, c.state, c.out, c.wrote = -1, down, c.out[:0], 0
	c.epoch++
}

// dial begins to open a connection that is down.
func (w *worker) dial(c *conn, now int64) {
	fd, pending, err := socket(w.network, c.to)
	if err != nil {
		w.lose(c, causeOf(err, model.CauseConnect), err, now)
		return
	}
	c.fd, c.state, c.answered = fd, opening, false
	// Edge-triggered for everything from the start: no further epoll_ctl.
	ev := syscall.EpollEvent{
		Events: syscall.EPOLLIN | syscall.EPOLLOUT | syscall.EPOLLRDHUP | epollET,
		Fd:     int32(c.number), //nolint:gosec // G115: a small index
		Pad:    c.epoch,
	}
	if err := syscall.EpollCtl(w.poller.fd, syscall.EPOLL_CTL_ADD, fd, &ev); err != nil {
		w.lose(c, model.CauseConnect, err, now)
		return
	}
	if !pending {
		w.connected(c, now)
	}
}

// connected goes on when the socket is open.
func (w *worker) connected(c *conn, now int64) {
	w.rec.sockets++
	if w.tls == nil {
		w.opened(c, now)
		return
	}
	c.state, c.secured = securing, secure(w.tls)
	w.handshake(c, now)
}

// handshake takes TLS as far as it gets with what has been received.
func (w *worker) handshake(c *conn, now int64) {
	done, err := c.secured.handshake()
	if err != nil {
		w.flush(c, now) // the alert that says why
		if c.state == securing {
			w.lose(c, model.CauseTLS, err, now)
		}
		return
	}
	if done {
		w.opened(c, now)
		return
	}
	w.flush(c, now)
}

// opened sends what has waited for the connection.
func (w *worker) opened(c *conn, now int64) {
	c.state = up
	c.out = c.session.Open(c.out[:0])
	for i := range c.slots {
		if s := &c.slots[i]; s.held {
			s.held = false
			c.begin(s)
		}
	}
	w.flush(c, now)
}

// lose closes a connection's socket; requests that were on it have failed, but
// for those that the peer has not processed. err is why in words; nil: the cause
// says it all.
func (w *worker) lose(c *conn, cause model.Cause, err error, now int64) {
	c.shut()
	moving := false
	for i := range c.slots {
		s := &c.slots[i]
		switch {
		case !s.busy:
		case c.drainer != nil && (c.answered || !s.moved) && c.drainer.Unprocessed(s.id):
			s.moved, s.held, moving = true, true, true
		default:
			w.rec.explain(cause, err)
			w.fail(s, cause, now)
		}
	}
	if moving {
		w.dial(c, now)
	}
}

// drained says that a connection is to be replaced.
func (c *conn) drained() bool {
	return c.drainer != nil && c.state == up && c.drainer.Drained()
}

// replace closes a connection that has ended in good order.
func (w *worker) replace(c *conn, now int64) {
	w.lose(c, model.CauseClosed, nil, now)
	w.reopen(c, now)
}

// reopen replaces a socket that the peer has closed in good order, ahead of the
// next request. A peer that answers nothing is left to the requests.
func (w *worker) reopen(c *conn, now int64) {
	if w.schedule != nil && !w.reconnects && c.answered && c.state == down && now < w.end {
		w.dial(c, now)
	}
}

// fail ends a request without success.
func (w *worker) fail(s *slot, cause model.Cause, now int64) {
	w.flying.remove(s)
	s.busy, s.held = false, false
	w.rec.failure(s, cause, now)
	if w.schedule != nil {
		w.release(s, now)
		return
	}
	s.freed = now
	s.until = max(now+restAfterFailure, w.rest(s, now))
	w.resting.push(s)
}

// release makes a slot free; in a closed loop it may have to rest first.
func (w *worker) release(s *slot, now int64) {
	s.freed = now
	switch {
	case w.schedule == nil:
		if s.until = w.rest(s, now); s.until > now {
			w.resting.push(s)
			return
		}
	case w.free.head == nil:
		w.blockedUntil = now
	}
	w.free.push(s)
}

// flushUp writes what requests and replies have left on a connection that is open.
func (w *worker) flushUp(c *conn, now int64) {
	if c.state == up && len(c.out) > 0 {
		w.flush(c, now)
	}
}

// flush writes what there is to write, as far as the socket takes it.
func (w *worker) flush(c *conn, now int64) {
	if c.secured != nil && len(c.out) > 0 && c.state == up {
		if err := c.secured.seal(c.out); err != nil {
			w.lose(c, model.CauseTLS, err, now)
			return
		}
		c.out = c.out[:0]
	}
	out := c.pending()
	for c.wrote < len(*out) {
		n, errno := rawWrite(c.fd, (*out)[c.wrote:])
		switch errno {
		case 0:
			c.wrote += n
			if now >= w.window.Start && now < w.end {
				w.rec.bytesSent += uint64(n) //nolint:gosec // G115: not negative
			}
		case syscall.EAGAIN:
			if w.network != TCP {
				c.wrote = len(*out) // a datagram that has no room is lost, here as on the way
				continue
			}
			return // an event says when to go on
		case syscall.EINTR:
		default:
			w.lose(c, causeOf(errno, model.CauseReset), errno, now)
			return
		}
	}
	*out, c.wrote = (*out)[:0], 0
}

func (w *worker) event(ev *syscall.EpollEvent) {
	c := w.conns[ev.Fd]
	if c.epoch != ev.Pad {
		return // of a socket that is gone
	}
	const (
		gone    = syscall.EPOLLRDHUP | syscall.EPOLLHUP | syscall.EPOLLERR
		arrived = syscall.EPOLLIN | gone
	)
	if ev.Events&(syscall.EPOLLOUT|gone) != 0 {
		w.writable(c)
	}
	if c.epoch == ev.Pad && c.state >= securing && ev.Events&arrived != 0 {
		w.receive(c, ev.Events&gone != 0)
	}
}

func (w *worker) writable(c *conn) {
	switch {
	case c.state == opening:
		errno, err := syscall.GetsockoptInt(c.fd, syscall.SOL_SOCKET, syscall.SO_ERROR)
		if err == nil && errno != 0 {
			err = syscall.Errno(errno)
		}
		if err != nil {
			w.lose(c, causeOf(err, model.CauseConnect), err, w.clock.now())
			return
		}
		w.connected(c, w.clock.now())
	case c.unsent() > 0:
		w.flush(c, w.clock.now())
	}
}

// receive reads what has arrived. A short read of a stream has emptied the
// socket, and a new edge tells of what comes later, unless the peer has gone.
func (w *worker) receive(c *conn, gone bool) {
	for epoch := c.epoch; c.epoch == epoch; {
		n, now, errno := w.read(c.fd)
		switch {
		case errno == syscall.EAGAIN:
			return
		case errno == syscall.EINTR:
		case errno != 0:
			w.lose(c, causeOf(errno, model.CauseReset), errno, now)
		case n > 0:
			w.took(c, w.buf[:n], now)
			if w.network == TCP && n < len(w.buf) && !gone {
				return
			}
		case w.network == TCP:
			w.peerClosed(c, now)
		}
	}
}

// read reads from a socket; the time is when that was done or, of a datagram,
// when the kernel received it.
func (w *worker) read(fd int) (n int, now int64, errno syscall.Errno) {
	if w.network == TCP {
		n, errno = rawRead(fd, w.buf)
		return n, w.clock.now(), errno
	}
	n, stamp, errno := rawReceive(fd, w.buf, &w.control)
	if stamp == 0 {
		return n, w.clock.now(), errno
	}
	w.stamped = true
	return n, w.clock.at(stamp), errno
}

// took handles received bytes: TLS records, or the session's own.
func (w *worker) took(c *conn, b []byte, now int64) {
	if now >= w.window.Start && now < w.end {
		w.rec.bytesReceived += uint64(len(b))
	}
	if c.secured == nil {
		w.deliver(c, b, now)
		return
	}
	c.secured.in = b
	epoch := c.epoch
	if c.state == securing {
		w.handshake(c, now)
	}
	for c.epoch == epoch && c.state == up {
		plain, err := c.secured.open(w.plain)
		switch {
		case err != nil && errors.Is(err, io.EOF):
			w.peerClosed(c, now)
		case err != nil:
			w.lose(c, model.CauseTLS, err, now)
		case len(plain) == 0:
			w.flush(c, now) // what TLS itself had to say
			return
		default:
			w.deliver(c, plain, now)
		}
	}
}

func (w *worker) peerClosed(c *conn, now int64) {
	epoch := c.epoch
	if c.state == securing {
		w.lose(c, model.CauseTLS, errClosedInHandshake, now)
		return
	}
	w.deliver(c, nil, now) // it may complete an answer
	if c.epoch == epoch {
		w.replace(c, now)
	}
}

// deliver gives received bytes to the session. All answers are counted before
// their slots are used again, because one may close the connection.
func (w *worker) deliver(c *conn, b []byte, now int64) {
	got, err := c.session.Feed(b, w.answers[:0])
	w.answers = got
	closing := false
	for i := range got {
		a := &got[i]
		if a.ID >= uint32(len(c.slots)) || !c.slots[a.ID].busy { //nolint:gosec // G115: few slots
			err, got = errUnasked, got[:i]
			break
		}
		s := &c.slots[a.ID]
		s.busy, c.answered, closing = false, true, closing || a.Close
		w.flying.remove(s)
		w.rec.answer(s, a, now)
	}
	switch {
	case err != nil:
		w.lose(c, model.CauseProtocol, err, now)
	case closing || c.drained():
		w.replace(c, now)
	case c.replier != nil:
		c.out = c.replier.Reply(c.out)
	}
	for i := range got {
		w.release(&c.slots[got[i].ID], now)
	}
	w.flushUp(c, now)
}

var (
	errUnasked           = errors.New("an answer to no request")
	errClosedInHandshake = errors.New("the peer closed the connection during the TLS handshake")
)

// causeOf says why a connection could not be opened, or broke.
func causeOf(err error, otherwise model.Cause) model.Cause {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return model.CauseRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return model.CauseReset
	case errors.Is(err, syscall.ETIMEDOUT):
		return model.CauseTimeout
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return model.CauseConnect
	}
	return otherwise
}
