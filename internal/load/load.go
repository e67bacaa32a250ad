// Package load is the load engine: it sends requests when a schedule says so,
// or when an answer has come in, and keeps three stamps of each request on
// CLOCK_MONOTONIC: when it was due, when it was sent, when its answer was
// complete. Response time is done - due, service time done - sent, lateness
// sent - due.
//
// Each worker is one locked operating-system thread with its own epoll set and
// connections; nothing is allocated per request. The engine moves bytes; what
// they mean is the business of a Protocol.
//
// # What happens to a request
//
// In an open loop a due request takes the connection that has been free for
// longest. If none is free it waits, is counted as blocked, and its response
// time goes on counting from when it was due; what still waits when the load
// ends is unsent. In a closed loop a request is due when it is sent: when
// its connection is free and the answers that have come are read.
//
// Sent is stamped when a request is given to its connection. Connections are
// opened before the load begins and again after the peer has closed them in
// good order. One that has failed is opened again by the next request that it
// is given: opening is then part of that request's service time, and a failure
// to open is that request's failure. So a dead server makes due requests fail
// as fast as it refuses them, and a silent one makes them time out; how often
// it is tried is the load's own rate. In a closed loop, which has no rate, a
// connection rests for 20 ms after a failure.
//
// A request that takes longer than the timeout, from when it was sent, has
// failed; its connection is closed, unless the session can cancel it alone.
package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Protocol makes the sessions of a load. It is made from the load's
// configuration, which it has checked. Prepare does once what need not be done
// per request, and may ask the peer; newSession is called once per connection,
// before the load begins.
type Protocol interface {
	Prepare(ctx context.Context, to Peer) (newSession func() Session, err error)
}

// Peer is who a load talks to.
type Peer struct {
	Authority string           // host that requests carry
	Targets   []netip.AddrPort // at least one
	TLS       *tls.Config      // nil: in the clear
	Timeout   time.Duration    // of a request; 0: none
}

// Flow is a Protocol that can be configured to send no requests, but a flow:
// Flows says whether it is, and then Flow runs the load as Run would. Its
// sessions are for the ready gate only.
type Flow interface {
	Flows() bool
	Flow(ctx context.Context, j Job) (*model.LoadResult, model.Window, error)
}

// Secure is a Protocol that asks for more of TLS than the default: ALPN are the
// application protocols that it offers (RFC 7301), the best first.
type Secure interface{ ALPN() []string }

// Session speaks a protocol over the bytes of one connection at a time; it does
// no I/O. It is used by one thread, and in the steady state its methods must
// not allocate.
type Session interface {
	// Open forgets all earlier connections and appends to dst what a new one
	// begins with.
	Open(dst []byte) []byte
	// Begin appends a request to dst. Its id, below the protocol's Streams, is
	// not in use and comes back in the Answer.
	Begin(dst []byte, id uint32) []byte
	// Feed takes bytes as they were received (of a datagram, all) and appends
	// the answers that they complete. No bytes say that the peer has closed,
	// which may complete an answer, and is no error. An error means that the
	// peer does not keep to the protocol: answers before it count, the
	// connection is closed.
	Feed(b []byte, got []Answer) ([]Answer, error)
}

// Multiplexer is a Protocol of which one connection carries several requests at
// a time. Streams, at least 1, is how many; other protocols carry one.
type Multiplexer interface{ Streams() int }

// Networker is a Protocol that does not run over TCP.
type Networker interface{ Network() Network }

// Reconnecter is a Protocol of which, if Reconnects says so, every request has a
// connection of its own, and opening that is part of the request: no connection
// is opened ahead of it.
type Reconnecter interface{ Reconnects() bool }

// Anonymous is a Protocol of which, if Anonymous says so, answers cannot say who
// gave them.
type Anonymous interface{ Anonymous() bool }

// Replier is a Session that has something to say besides requests, such as
// window updates: Reply, called after every Feed, appends it to dst.
type Replier interface{ Reply(dst []byte) []byte }

// Canceller is a Session that can give up one request and keep the connection:
// Cancel appends what tells the peer, and no answer of that id may follow until
// it is begun anew.
type Canceller interface {
	Cancel(dst []byte, id uint32) []byte
}

// Drainer is a Session whose peer may say that a connection carries no further
// request while others are still under way on it. Drained, called after every
// Feed and Cancel, says that none is left and the connection is to be replaced.
// Unprocessed says of a request under way on a connection that is being closed
// that the peer has not processed it: it is sent again on the next, and so on as
// long as each has answered something.
type Drainer interface {
	Drained() bool
	Unprocessed(id uint32) bool
}

// Network is what carries a protocol.
type Network string

// The networks.
const (
	TCP  Network = "tcp"
	UDP  Network = "udp"  // one request, one datagram
	ICMP Network = "icmp" // echo requests on an unprivileged socket, or a raw one
)

// Answer is one complete response. Identity and Header are valid until the
// session's next call.
type Answer struct {
	ID     uint32
	Status int // of the protocol; 0 if it has none
	// Failure is why a complete answer is none the less not a success, such as
	// model.CauseStatus; empty if it is one.
	Failure     model.Cause
	Identity    []byte // who says to have answered; empty if nobody does
	Path        []byte // the path of hops, as the answer has it; empty: it has none
	Header      []byte // everything before the body, as received
	HeaderBytes int64
	BodyBytes   int64
	Sum         uint32 // CRC-32C of the body, by Sum
	Messages    int64  // that the body has, where a protocol streams them
	Close       bool   // the connection carries no further request
}

// Job is one load to run.
type Job struct {
	Load     model.Load
	Protocol Protocol
	Host     string           // authority that requests carry
	Targets  []netip.AddrPort // connections are spread over them in turn
	Warmup   time.Duration
	// Seed is of everything that is drawn: Poisson arrivals and think times.
	Seed uint64
	// Of Shards generators that send one load together, this is number Shard,
	// from 0; Shards 0 or 1: it is alone. The load's connections and pace are
	// this generator's own, its rate and pattern are of all.
	Shard, Shards int
	// Start is when the load begins, on CLOCK_MONOTONIC in nanoseconds, for
	// generators that begin together; 0: when the connections are open.
	Start int64
	// Expect is the digest of the right body, from the ready gate; empty: bodies
	// are not compared.
	Expect     Digest
	Identities []string // of the servers, where they are known
	// Traced has some requests carry a number, and keeps those; see Numberer.
	Traced bool
	// Workers are the threads that send; 0: one. More than there are processors
	// or connections are not started.
	Workers    int
	OnWindow   func(model.Window) // called once, before the first request
	OnProgress func(Progress)     // called about five times a second
	// Finish, once closed, ends the window early: what was measured until then is
	// the result, and Elapsed says how long that was. nil: never.
	Finish <-chan struct{}
}

// Progress is how a load is doing since it began, warm-up included. The
// quantiles are of response time and coarse: within 12 %.
type Progress struct {
	Due, Succeeded, Failed uint64
	P50, P99               time.Duration
}

const (
	// startDelay is between the announcement of the window and the first
	// request, so that the announcement is heard before the window opens.
	startDelay    = 50 * time.Millisecond
	progressEvery = 200 * time.Millisecond
)

// Run runs one load to its end: warm-up, the measured window, and the answers
// that are then still outstanding, for at most the request timeout. It returns
// what was counted of the requests of the window. If the context ends before,
// it returns within 50 ms and without a result.
func Run(ctx context.Context, j Job) (*model.LoadResult, model.Window, error) {
	if f, ok := j.Protocol.(Flow); ok && f.Flows() {
		return f.Flow(ctx, j)
	}
	r, err := prepare(ctx, j)
	if err != nil {
		return nil, model.Window{}, fmt.Errorf("preparing load %s: %w", j.Load.Name, err)
	}
	defer r.close()
	stop := context.AfterFunc(ctx, func() { r.stop.Store(true) })
	defer stop()
	// The workers block in the kernel without telling the scheduler: each needs
	// a place of its own beside one for everything else. It is not given back,
	// as others may have asked for the same.
	if places := len(r.workers) + 1; runtime.GOMAXPROCS(0) < places {
		runtime.GOMAXPROCS(places)
	}
	// Nothing is allocated from here on, but for a little by progress: with the
	// heap clean now, the next collection is far away.
	runtime.GC()
	r.run(j) //nolint:contextcheck // a handshake ends with its connection
	if ctx.Err() != nil {
		return nil, r.window, fmt.Errorf("running load %s: %w", j.Load.Name, context.Cause(ctx))
	}
	if early := r.early.Load(); early != 0 && early < r.window.End {
		r.window.End = early
	}
	if r.window.Duration() <= 0 {
		return nil, r.window, fmt.Errorf("running load %s: %w", j.Load.Name, ErrWarmup)
	}
	return r.result(), r.window, nil
}

// ErrWarmup says that a load was asked to finish before its window had begun.
var ErrWarmup = errors.New("it was asked to finish while it was warming up: nothing was measured")

// run is one load under way; what workers share.
type run struct {
	job     Job
	tls     *tls.Config
	clock   clock
	network Network
	streams int
	// reconnects says that no connection is opened ahead of its request.
	reconnects bool

	shards  int   // generators that send the load together
	pace    int64 // time between two turns of a slot of a paced closed loop; 0: not paced
	workers []*worker
	start   int64
	window  model.Window
	slot    int64 // width of a timeline slot
	stop    atomic.Bool
	early   atomic.Int64 // when the window ends if earlier than planned; 0: as planned
	// firstSuccess is the time of the load's first success; 0: none yet.
	firstSuccess atomic.Int64
}

func prepare(ctx context.Context, j Job) (*run, error) {
	if err := j.check(); err != nil {
		return nil, err
	}
	peer, err := PeerOf(j.Load, j.Protocol, j.Host, j.Targets)
	if err != nil {
		return nil, err
	}
	newSession, err := j.Protocol.Prepare(ctx, peer)
	if err != nil {
		return nil, err
	}
	r := &run{job: j, network: TCP, streams: 1, tls: peer.TLS}
	if r.clock, err = newClock(); err != nil {
		return nil, err
	}
	if n, ok := j.Protocol.(Networker); ok {
		r.network = n.Network()
	}
	if c, ok := j.Protocol.(Reconnecter); ok {
		r.reconnects = c.Reconnects()
	}
	if m, ok := j.Protocol.(Multiplexer); ok {
		r.streams = max(m.Streams(), 1)
	}
	r.shards = max(j.Shards, 1)
	if p := j.Load.Pace; p > 0 && j.Load.Arrival == model.ArrivalClosed {
		r.pace = int64(math.Round(float64(j.Load.Connections*r.streams) * 1e9 / p))
	}
	r.slot = slotWidth(j.Load.Duration).Nanoseconds()
	for i := range min(max(j.Workers, 1), runtime.NumCPU(), j.Load.Connections) {
		w, err := newWorker(r, i)
		if err != nil {
			r.close()
			return nil, err
		}
		r.workers = append(r.workers, w)
	}
	for i := range j.Load.Connections {
		r.workers[i%len(r.workers)].add(newSession(), addressOf(j.Targets[i%len(j.Targets)]))
	}
	for _, w := range r.workers {
		w.ready()
	}
	return r, nil
}

func (j *Job) check() error {
	l := &j.Load
	closed := l.Arrival == model.ArrivalClosed
	switch {
	case j.Protocol == nil:
		return errors.New("no protocol")
	case len(j.Targets) == 0:
		return errors.New("no target")
	case l.Connections < 1:
		return fmt.Errorf("%d connections; at least 1 is needed", l.Connections)
	case !closed && l.Arrival != model.ArrivalOpen:
		return fmt.Errorf("model %q is neither %q nor %q", l.Arrival, model.ArrivalOpen, model.ArrivalClosed)
	case !closed && !(l.Rate > 0 && l.Rate <= 1e9):
		return fmt.Errorf("rate %g/s of an open loop must be above 0 and at most 1e9", l.Rate)
	}
	return j.checkTimes()
}

func (j *Job) checkTimes() error {
	l := &j.Load
	switch {
	case l.Duration <= 0 || l.Timeout <= 0 || j.Warmup < 0:
		return fmt.Errorf("duration %s and timeout %s must be above 0, warm-up %s not below", l.Duration, l.Timeout, j.Warmup)
	case j.Shard < 0 || j.Shard >= max(j.Shards, 1):
		return fmt.Errorf("shard %d of %d: the first is 0", j.Shard, j.Shards)
	case l.Think < 0 || l.Coalesce < 0 || l.Spin < 0 || !(l.Pace >= 0):
		return fmt.Errorf("think time %s, coalesce %s, spin %s and pace %g must not be below 0", l.Think, l.Coalesce, l.Spin, l.Pace)
	}
	return nil
}

// newSchedule is a worker's own; nil for a closed loop.
func (r *run) newSchedule() Schedule {
	if r.job.Load.Arrival == model.ArrivalClosed {
		return nil
	}
	return NewSchedule(r.job.Load, r.job.Warmup, r.job.Seed)
}

// run lets the workers connect, agrees with them on the start, and waits for
// their end.
func (r *run) run(j Job) {
	var connected, finished sync.WaitGroup
	begin := make(chan struct{})
	for _, w := range r.workers {
		connected.Add(1)
		finished.Go(func() {
			// The thread is not unlocked, and so ends with the goroutine: its
			// timer slack is not for others.
			runtime.LockOSThread()
			setTimerSlack()
			w.connectAll()
			connected.Done()
			<-begin
			w.loop()
		})
	}
	connected.Wait()
	if r.start = r.clock.now() + startDelay.Nanoseconds(); j.Start != 0 {
		r.start = j.Start
	}
	r.window.Start = r.start + j.Warmup.Nanoseconds()
	r.window.End = r.window.Start + j.Load.Duration.Nanoseconds()
	if j.OnWindow != nil {
		j.OnWindow(r.window)
	}
	close(begin)
	done := make(chan struct{})
	go func() {
		finished.Wait()
		close(done)
	}()
	r.watch(done)
}

// watch reports progress until the workers are done.
func (r *run) watch(done <-chan struct{}) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	finish := r.job.Finish
	for {
		select {
		case <-done:
			return
		case <-finish:
			// A little later than now, so that every worker has heard by then.
			r.early.Store(r.clock.now() + 2*longestWait)
			finish = nil
		case <-tick.C:
			if r.job.OnProgress != nil {
				r.job.OnProgress(r.progress())
			}
		}
	}
}

func (r *run) close() {
	for _, w := range r.workers {
		w.close()
	}
}
