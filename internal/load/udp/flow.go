package udp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/windtunnel/windtunnel/internal/flow"
	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

const (
	// startDelay is between the announcement of the window and the first datagram.
	startDelay    = 50 * time.Millisecond
	progressEvery = int64(200 * time.Millisecond)
	// nap bounds how late the sender hears that it shall stop.
	nap = int64(20 * time.Millisecond)
	// settleEvery is between questions about what has come, until two in a row
	// have the same answer.
	settleEvery = 100 * time.Millisecond
)

// Datagrams is UDP at a fixed rate: its load is not made of requests. Sessions,
// for the ready gate, are those of mode request.
type Datagrams struct{ exchanges }

var _ load.Flow = Datagrams{}

// Flows says that it is one.
func (Datagrams) Flows() bool { return true }

// run is one flow under way. Only stop and end are touched by others.
type run struct {
	config Config
	job    load.Job
	clock  flow.Clock
	socket *socket
	size   int
	rate   float64 // datagrams per second
	length int64   // of an interval, in nanoseconds
	start  int64
	window model.Window
	end    atomic.Int64 // of the window; earlier than planned if the load is finished
	stop   atomic.Bool

	sent      []uint64 // by interval; 0 is the warm-up
	due       uint64   // in the window
	warmupDue uint64
	unsent    uint64
	calls     uint64 // by which the window's were sent
	lateness  hist.Histogram
	cpu       [2]time.Duration // at the window's edges
	marks     int
	progress  int64 // when to report next

	state     flow.State
	intervals []flow.Interval
	answered  bool // the receiver has said what came
	cause     model.Cause
}

// Flow runs the load.
func (p Datagrams) Flow(ctx context.Context, j load.Job) (*model.LoadResult, model.Window, error) {
	r, err := prepare(ctx, p.config, j)
	if err != nil {
		return nil, model.Window{}, fmt.Errorf("preparing load %s: %w", j.Load.Name, err)
	}
	defer r.socket.close()
	defer context.AfterFunc(ctx, func() { r.stop.Store(true) })()
	if runtime.GOMAXPROCS(0) < 2 {
		runtime.GOMAXPROCS(2) // the sender blocks without telling the scheduler
	}
	begun := r.begin()
	if r.start = j.Start; r.start == 0 {
		r.start = r.clock.Now() + startDelay.Nanoseconds()
	}
	r.window.Start = r.start + j.Warmup.Nanoseconds()
	r.window.End = r.window.Start + j.Load.Duration.Nanoseconds()
	r.end.Store(r.window.End)
	if j.OnWindow != nil {
		j.OnWindow(r.window)
	}
	failed, sent := make(chan error, 1), make(chan struct{})
	go func() {
		select {
		case <-j.Finish: // never, if there is none
			r.end.Store(min(r.window.End, max(r.clock.Now(), r.window.Start+1)))
		case <-sent:
		}
	}()
	go func() {
		// The thread is not unlocked, and so ends with the goroutine: its timer
		// slack is not for others.
		runtime.LockOSThread()
		setTimerSlack()
		failed <- r.send(begun)
	}()
	err = <-failed
	close(sent)
	r.window.End = r.end.Load()
	if err == nil && begun && !r.stop.Load() {
		r.ask()
	}
	switch {
	case ctx.Err() != nil:
		return nil, r.window, fmt.Errorf("running load %s: %w", j.Load.Name, context.Cause(ctx))
	case err != nil:
		return nil, r.window, fmt.Errorf("running load %s: %w", j.Load.Name, err)
	}
	return r.result(), r.window, nil
}

func prepare(ctx context.Context, c Config, j load.Job) (*run, error) {
	l := &j.Load
	switch {
	case l.TLS != nil:
		return nil, errors.New("UDP has no TLS: leave it out")
	case len(j.Targets) != 1 || l.Connections != 1:
		return nil, fmt.Errorf("%d target(s) and %d connections: a flow of datagrams has one of each", len(j.Targets), l.Connections)
	case l.Duration <= 0 || l.Timeout <= 0 || j.Warmup < 0:
		return nil, fmt.Errorf("duration %s and timeout %s must be above 0, warm-up %s not below", l.Duration, l.Timeout, j.Warmup)
	case (l.Rate > 0) == (c.Bitrate > 0):
		return nil, fmt.Errorf("a rate of %g/s and a bitrate of %g bit/s: a flow needs one of the two", l.Rate, c.Bitrate)
	}
	r := &run{config: c, job: j, clock: flow.NewClock(), size: c.Size, rate: l.Rate / float64(max(j.Shards, 1))}
	var err error
	if r.socket, err = open(ctx, j.Targets[0]); err != nil {
		return nil, err
	}
	if r.size == 0 {
		if r.size, err = r.socket.room(); err != nil {
			r.socket.close()
			return nil, err
		}
	}
	if c.Bitrate > 0 {
		const bits = 8
		r.rate = c.Bitrate / bits / float64(r.size) / float64(max(j.Shards, 1))
	}
	batch := r.gathered()
	if c.GSO {
		batch = max(min(maxSegments, flow.MaxDatagram/r.size), 1)
		err = r.socket.segment(r.size)
	}
	if err != nil {
		r.socket.close()
		return nil, err
	}
	r.socket.allocate(r.size, batch)
	r.length = flow.IntervalLength(l.Duration).Nanoseconds()
	n := (l.Duration.Nanoseconds()+r.length-1)/r.length + 1
	r.sent, r.intervals = make([]uint64, n), make([]flow.Interval, n)
	return r, nil
}

// gathered is how many datagrams are due while the first of them waits, and
// somewhat more, as the wait may last longer.
func (r *run) gathered() int {
	const room = 4 << 20 // bytes
	n := 2 * r.rate * r.job.Load.Coalesce.Seconds()
	return max(1, int(min(n, maxTogether, float64(room/r.size))))
}

// begin asks the receiver for room, until it answers or the timeout has passed.
func (r *run) begin() bool {
	b := make([]byte, flow.BeginSize)
	flow.PutBegin(b, r.socket.id, uint32(len(r.intervals))) //nolint:gosec // G115: at most MaxIntervals
	limit := r.clock.Now() + r.job.Load.Timeout.Nanoseconds()
	for now := r.clock.Now(); now < limit && !r.stop.Load(); now = r.clock.Now() {
		answer, err := r.socket.question(b, r.clock, min(now+settleEvery.Nanoseconds(), limit), &r.stop)
		r.cause = causeOf(err)
		if err != nil {
			continue
		}
		if d, err := flow.ParseDatagram(answer); err == nil && d.Kind == flow.Begun && d.Number == r.socket.id {
			r.cause = ""
			return true
		}
	}
	return false
}

// send sends what is due from the start to the window's end. Without a receiver
// that has agreed nothing is sent: what is due is unsent.
func (r *run) send(begun bool) error {
	for k := uint64(0); !r.stop.Load(); {
		due := r.dueAt(k)
		now := r.clock.Now()
		r.mark(now)
		if due >= r.end.Load() {
			if now >= r.end.Load() {
				return nil
			}
			sleepUntil(min(r.end.Load(), now+nap))
			continue
		}
		if at := r.sendAt(due); at > now {
			sleepUntil(min(at, now+nap, r.edge()))
			continue
		}
		n := r.together(k, now)
		if !begun || now >= r.end.Load() { // too late, too: it is unsent
			r.count(k, n, 0, now)
			k += uint64(n) //nolint:gosec // G115: at least 1
			continue
		}
		for i := range n {
			at := r.dueAt(k + uint64(i))
			flow.PutData(r.socket.datagram(i), r.socket.id, k+uint64(i), now, r.interval(at))
		}
		done, err := r.socket.send(n)
		if err != nil {
			return err
		}
		r.count(k, n, done, now)
		if r.interval(due) > 0 {
			r.calls++
		}
		k += uint64(n) //nolint:gosec // G115: at least 1
	}
	return nil
}

// sendAt is when a datagram is sent that is due then and not sent with others
// before: as much later as the load allows, for those that follow to go with it.
// What is due shortly before the window's end does not wait for that.
func (r *run) sendAt(due int64) int64 {
	const wake = int64(200 * time.Microsecond) // what a sleeper may need to get up
	return max(due, min(due+r.job.Load.Coalesce.Nanoseconds(), r.end.Load()-wake))
}

// dueAt is computed from the number, so that rounding never adds up.
func (r *run) dueAt(k uint64) int64 { return r.start + int64(math.Round(float64(k)*1e9/r.rate)) }

// interval is the number of the interval in which a datagram is due.
func (r *run) interval(due int64) uint32 {
	if due < r.window.Start {
		return 0
	}
	return uint32(1 + (due-r.window.Start)/r.length) //nolint:gosec // G115: at most MaxIntervals
}

// together is how many datagrams are sent in one call: the one that is due and,
// to catch up, those that are already late as well; with offload, a buffer's worth.
func (r *run) together(k uint64, now int64) int {
	limit := min(now+1, r.end.Load())
	if r.config.GSO {
		limit = r.end.Load()
	}
	n := 1
	for n < r.socket.batch() && r.dueAt(k+uint64(n)) < limit {
		n++
	}
	return n
}

// count counts n datagrams from number k on, of which the first done were sent.
func (r *run) count(k uint64, n, done int, now int64) {
	for i := range n {
		due := r.dueAt(k + uint64(i))
		interval := r.interval(due)
		if i < done {
			r.sent[interval]++
		}
		if interval == 0 {
			r.warmupDue++
			continue
		}
		r.due++
		if i < done {
			r.lateness.Record(max(now-due, 0))
		} else {
			r.unsent++
		}
	}
}

// edge is the next edge of the window that has not been passed.
func (r *run) edge() int64 {
	switch r.marks {
	case 0:
		return r.window.Start
	case 1:
		return r.end.Load()
	}
	return math.MaxInt64
}

// mark reads this process's CPU time at the window's edges, and reports progress.
func (r *run) mark(now int64) {
	for r.marks < len(r.cpu) && now >= r.edge() {
		r.cpu[r.marks] = flow.ProcessCPU()
		r.marks++
	}
	if now >= r.progress && r.job.OnProgress != nil {
		r.progress = now + progressEvery
		r.job.OnProgress(load.Progress{Due: r.due + r.warmupDue, Failed: r.unsent})
	}
}

// ask asks what has come, until nothing more comes or the timeout has passed.
func (r *run) ask() {
	var all uint64
	for _, n := range r.sent {
		all += n
	}
	b := make([]byte, flow.AccountSize)
	limit := r.clock.Now() + r.job.Load.Timeout.Nanoseconds()
	settled, received := false, uint64(0)
	for first := uint32(0); r.clock.Now() < limit && !r.stop.Load(); {
		flow.PutAsk(b, r.socket.id, first)
		answer, err := r.socket.question(b, r.clock, min(r.clock.Now()+settleEvery.Nanoseconds(), limit), &r.stop)
		if err != nil {
			continue
		}
		state, from, n, err := flow.ParseAccount(answer, r.intervals)
		if err != nil || from != first {
			continue
		}
		r.answered = true
		if !settled {
			// What is still on its way, or in a queue that others overtake.
			settled = state.Received >= all || state.Received == received && r.state.Identity != ""
			received, r.state = state.Received, state
			if !settled {
				sleepUntil(min(r.clock.Now()+settleEvery.Nanoseconds(), limit))
				continue
			}
		}
		r.state = state
		if first += n; n == 0 || int(first) >= len(r.intervals) {
			return
		}
	}
}

func (r *run) result() *model.LoadResult {
	l := &r.job.Load
	d := r.datagrams()
	out := &model.LoadResult{
		Arrival: l.Arrival, Connections: 1, Rate: r.rate, Elapsed: r.window.Duration(),
		Due: r.due, Sent: d.Sent, Succeeded: d.Sent - d.Lost, Unsent: r.unsent, WarmupDue: r.warmupDue,
		Failed: map[model.Cause]uint64{}, Statuses: map[int]uint64{}, Responders: map[string]uint64{},
		Response: &hist.Histogram{}, Service: &hist.Histogram{}, FailedResponse: &hist.Histogram{}, Lateness: &r.lateness,
		BytesSent: d.Sent * uint64(r.size), Sockets: 1, GeneratorCPU: r.cpu[1] - r.cpu[0], Workers: 1, Datagrams: d, //nolint:gosec // G115: not negative
		Clock: "CLOCK_MONOTONIC where sent; the server's CLOCK_MONOTONIC where received",
	}
	if r.state.KernelStamps {
		out.Clock = "CLOCK_MONOTONIC where sent; the kernel's receive stamps (SO_TIMESTAMPNS) where received"
	}
	if d.Lost > 0 {
		out.Failed[model.CauseTimeout] = d.Lost
	}
	if out.Succeeded > 0 && r.state.Identity != "" {
		out.Responders[r.state.Identity] = out.Succeeded
	}
	if r.cause != "" && out.Succeeded == 0 && r.due > 0 {
		// Nobody agreed to receive: a failure, with its cause.
		out.Failed[r.cause], out.Unsent = r.due, 0
	}
	return out
}

// datagrams compares what was sent with what the receiver counted.
func (r *run) datagrams() *model.DatagramResult {
	d := &model.DatagramResult{
		Size: r.size, Calls: r.calls, FlowReceived: r.state.Received, ReceiveBuffer: r.state.Buffer, SocketDrops: r.state.SocketDrops,
		Interface: r.state.Interface, InterfacePackets: r.state.InterfacePackets, InterfaceDrops: r.state.InterfaceDrops, Offload: r.config.GSO,
	}
	for i, sent := range r.sent {
		in := &r.intervals[i]
		d.FlowSent += sent
		if i == 0 {
			continue
		}
		lost := sent - min(in.Received-in.Duplicated, sent)
		d.Sent += sent
		d.Received += in.Received
		d.Duplicated += in.Duplicated
		d.Reordered += in.Reordered
		d.Lost += lost
		if in.Received > 0 {
			d.Jitter = in.Jitter
		}
		from := r.window.Start + int64(i-1)*r.length
		if from >= r.window.End {
			break
		}
		d.Intervals = append(d.Intervals, model.DatagramInterval{
			Length: time.Duration(min(r.length, r.window.End-from)), Sent: sent, Received: in.Received, Lost: lost, Jitter: in.Jitter,
		})
	}
	return d
}

func causeOf(err error) model.Cause {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return model.CauseRefused
	}
	return model.CauseTimeout
}
