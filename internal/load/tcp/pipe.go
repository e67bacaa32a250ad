package tcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/flow"
	"github.com/windtunnel/windtunnel/internal/model"
)

// pipe is one stream, in one direction.
type pipe struct {
	*run

	to       netip.AddrPort
	up       bool
	stream   *flow.Stream
	identity string
	// offset is how far the server's clock is ahead of ours, give or take apart.
	offset      int64
	apart       time.Duration
	dead        atomic.Bool
	cause       model.Cause // why it broke; empty: it did not
	received    flow.Series // on our clock
	retransmits flow.Series // likewise
	info        flow.Info   // of the sender
}

func (p *pipe) fail(err error, otherwise model.Cause) {
	if p.dead.CompareAndSwap(false, true) {
		p.cause = causeOf(err, otherwise)
	}
}

func (p *pipe) close() {
	if p.stream != nil {
		_ = p.stream.Close() // what was lost by it has been counted
	}
}

// open connects and agrees with the server, all within the timeout.
func (p *pipe) open(ctx context.Context) {
	limit := time.Now().Add(p.job.Load.Timeout)
	dialer := net.Dialer{Deadline: limit}
	c, err := dialer.DialContext(ctx, "tcp", p.to.String())
	if err != nil {
		p.fail(err, model.CauseConnect)
		return
	}
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })()
	conn, ok := c.(*net.TCPConn)
	if err = c.SetDeadline(limit); err == nil && ok {
		err = p.agree(conn)
	}
	if err == nil && ok {
		p.stream, err = flow.NewStream(conn, p.clock, &p.places)
	}
	if err == nil && p.up && p.config.Bitrate > 0 {
		err = p.stream.Pace(p.pace())
	}
	if err != nil {
		_ = c.Close() // it may be the stream's by now
		p.fail(err, model.CauseProtocol)
	}
}

// pace is this stream's share of the rate, in bytes per second.
func (p *pipe) pace() uint64 {
	const bits = 8
	return max(uint64(p.config.Bitrate/bits/float64(p.job.Load.Connections)), 1)
}

// agree says what is wanted, and compares clocks: the quickest answer of a few
// is the closest.
func (p *pipe) agree(c io.ReadWriter) error {
	const rounds = 4
	c2 := &p.config
	hello := flow.Hello{Kind: flow.Down, Block: uint32(c2.Block), Every: p.every, Sendfile: c2.Zerocopy, Discard: c2.SkipCopy} //nolint:gosec // G115: checked
	if p.up {
		hello.Kind = flow.Up
	} else if c2.Bitrate > 0 {
		hello.Rate = p.pace()
	}
	if _, err := c.Write(hello.Append(nil)); err != nil {
		return fmt.Errorf("saying hello to %s: %w", p.to, err)
	}
	if err := p.welcomed(c); err != nil {
		return fmt.Errorf("hearing from %s: %w", p.to, err)
	}
	var b [flow.ReportSize]byte
	for i := range rounds {
		before := p.clock.Now()
		_, err := c.Write([]byte{flow.SyncByte})
		if err == nil {
			_, err = io.ReadFull(c, b[:])
		}
		if err != nil {
			return fmt.Errorf("comparing clocks with %s: %w", p.to, err)
		}
		after := p.clock.Now()
		if half := time.Duration(after-before) / 2; i == 0 || half < p.apart {
			p.apart, p.offset = half, flow.ParseReport(b[:]).At-(before+after)/2
		}
	}
	return nil
}

// welcomed reads the server's first message, byte by byte: nothing that follows
// may be taken.
func (p *pipe) welcomed(c io.Reader) error {
	var b []byte
	var one [1]byte
	for {
		if _, err := io.ReadFull(c, one[:]); err != nil {
			return err
		}
		b = append(b, one[0])
		_, identity, n, err := flow.ParseWelcome(b)
		if err != nil {
			return err
		}
		if n > 0 {
			p.identity = string(identity)
			return nil
		}
	}
}

// move runs the stream from the start to the window's end.
func (p *pipe) move() {
	if p.dead.Load() {
		return
	}
	p.sleep(p.start)
	if p.stop.Load() {
		return
	}
	p.received = make(flow.Series, 0, int((p.job.Warmup+p.job.Load.Duration+p.job.Load.Timeout)/p.every)+maxReadings/10)
	if err := p.stream.WriteAll([]byte{flow.GoByte}, p.clock.Now()+p.job.Load.Timeout.Nanoseconds()); err != nil {
		p.fail(err, model.CauseReset)
		return
	}
	var err error
	if p.up {
		err = p.send()
	} else {
		err = p.receive()
	}
	if err != nil && !p.stop.Load() {
		p.fail(err, model.CauseProtocol)
	}
}

// going says whether the stream goes on.
func (p *pipe) going(now int64) bool {
	return now < p.end.Load() && !p.stop.Load() && !p.dead.Load()
}

// send sends, and in between hears what the server has received: a goroutine of
// its own for that would wake the scheduler up, at the sender's cost.
func (p *pipe) send() error {
	samples, ears := flow.NewSampler(sampleEvery), &ears{pipe: p, heard: p.clock.Now()}
	sample := func(now int64) {
		if info, err := p.stream.Info(); err == nil {
			p.info = info
			samples.Add(now, uint64(info.Retransmits))
		}
	}
	var broken error
	err := p.stream.Send(flow.Source{
		Block: p.config.Block, Sendfile: p.config.Zerocopy, Patience: p.job.Load.Timeout,
		After: func(now int64) bool {
			if samples.Due(now) {
				sample(now)
			}
			broken = ears.listen(now)
			return broken == nil && p.going(now)
		},
	})
	sample(p.clock.Now())
	p.retransmits = samples.Series()
	for err == nil && broken == nil && !ears.done && !p.stop.Load() {
		broken = ears.wait()
	}
	return errors.Join(err, broken)
}

// ears hear a server's reports until one is of the window's end or later. A
// server that is silent for longer than the timeout is gone.
type ears struct {
	pipe  *pipe
	heard int64 // when there was something
	next  int64 // when to listen again
	kept  []byte
	buf   [64 * flow.ReportSize]byte
	done  bool
}

// listen takes what has come; it does not wait.
func (e *ears) listen(now int64) error {
	const every = int64(5 * time.Millisecond)
	if now < e.next {
		return nil
	}
	e.next = now + every
	n, err := e.pipe.stream.Poll(e.buf[:])
	return e.take(now, n, err)
}

// wait waits a little for what comes.
func (e *ears) wait() error {
	now := e.pipe.clock.Now()
	n, err := e.pipe.stream.Read(e.buf[:], now)
	return e.take(now, n, err)
}

func (e *ears) take(now int64, n int, err error) error {
	switch {
	case errors.Is(err, flow.ErrStalled) && now-e.heard <= e.pipe.job.Load.Timeout.Nanoseconds():
		return nil
	case err != nil:
		return err
	case n == 0:
		return io.ErrUnexpectedEOF
	}
	e.heard = now
	for e.kept = append(e.kept, e.buf[:n]...); len(e.kept) >= flow.ReportSize; e.kept = e.kept[flow.ReportSize:] {
		report := flow.ParseReport(e.kept)
		report.At -= e.pipe.offset
		if err := e.pipe.add(report); err != nil {
			return err
		}
		if e.done = report.At >= e.pipe.end.Load(); e.done {
			return nil
		}
	}
	return nil
}

var errReport = errors.New("the server's reports do not grow, or are too many")

// add keeps a reading, of which there is a bounded number.
func (p *pipe) add(r flow.Report) error {
	if n := len(p.received); n > 0 && (r.At < p.received[n-1].At || r.Bytes < p.received[n-1].Bytes) || n == cap(p.received) {
		return errReport
	}
	p.received = append(p.received, r)
	return nil
}

// receive receives until the window's end, and then asks the server what it
// knows of its connection. Where that takes too long, it stays unknown: the
// stream itself was whole.
func (p *pipe) receive() error {
	next := int64(0)
	_, err := p.stream.Receive(flow.Sink{
		Block: p.config.Block, Discard: p.config.SkipCopy, Patience: p.job.Load.Timeout,
		Each: func(now int64, total uint64) bool {
			if now < next && now < p.end.Load() {
				return true
			}
			next = now + p.every.Nanoseconds()
			return p.add(flow.Report{At: now, Bytes: total}) == nil && p.going(now)
		},
	})
	if err != nil || p.stop.Load() {
		return err
	}
	if n := len(p.received); n == 0 || p.received[n-1].At < p.end.Load() {
		return io.ErrUnexpectedEOF
	}
	if p.stream.CloseWrite() == nil {
		p.trailer()
	}
	return nil
}

// trailer reads the rest of the stream, of which only the end is of interest.
func (p *pipe) trailer() {
	const room = 4 * flow.TrailerMax
	limit := p.clock.Now() + p.job.Load.Timeout.Nanoseconds()
	b := make([]byte, 0, room)
	for !p.stop.Load() {
		if len(b) > room/2 {
			b = b[:copy(b, b[len(b)-flow.TrailerMax:])]
		}
		n, err := p.stream.Read(b[len(b):room], min(limit, p.clock.Now()+20*time.Millisecond.Nanoseconds()))
		switch {
		case n > 0:
			b = b[:len(b)+n]
		case err == nil: // the stream's end
			p.learn(b)
			return
		case !errors.Is(err, flow.ErrStalled) || p.clock.Now() >= limit:
			return
		}
	}
}

// learn takes a trailer, if there is one.
func (p *pipe) learn(b []byte) {
	t, _, err := flow.ParseTrailer(b)
	if err != nil {
		return
	}
	p.info = t.Info
	for _, r := range t.Retransmits {
		p.retransmits = append(p.retransmits, flow.Report{At: r.At - p.offset, Bytes: r.Bytes})
	}
}
