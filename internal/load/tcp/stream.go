package tcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/windtunnel/windtunnel/internal/flow"
	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

const (
	// startDelay is between the announcement of the window and the first byte.
	startDelay    = 50 * time.Millisecond
	progressEvery = 200 * time.Millisecond
	// readEvery is how often a receiver's count is read; longer in loads that
	// would make too many readings.
	readEvery   = 10 * time.Millisecond
	maxReadings = 20000
	// sampleEvery is how often a sender's retransmits are read.
	sampleEvery = 250 * time.Millisecond
)

// Streams is TCP in bulk: its load is not made of requests. Sessions, for the
// ready gate, are those of mode request.
type Streams struct{ exchanges }

var _ load.Flow = Streams{}

// run is one load under way.
type run struct {
	config Config
	job    load.Job
	clock  flow.Clock
	places flow.Places
	every  time.Duration // between readings
	pipes  []*pipe
	start  int64
	window model.Window
	end    atomic.Int64 // of the window; earlier than planned if the load is finished
	stop   atomic.Bool
	cpu    [2]time.Duration // at the window's edges
}

// Flows says that it is one.
func (Streams) Flows() bool { return true }

// Flow runs the load.
func (p Streams) Flow(ctx context.Context, j load.Job) (*model.LoadResult, model.Window, error) {
	l := &j.Load
	switch {
	case l.TLS != nil:
		return nil, model.Window{}, &model.UnsupportedError{What: "a TCP stream over TLS", Missing: "the echo server speaks none", Hint: "leave tls out, or use mode: request"}
	case len(j.Targets) == 0 || l.Connections < 1 || l.Duration <= 0 || l.Timeout <= 0 || j.Warmup < 0:
		return nil, model.Window{}, fmt.Errorf("load %s: %d targets, %d connections, duration %s, timeout %s and warm-up %s cannot be run", l.Name, len(j.Targets), l.Connections, l.Duration, l.Timeout, j.Warmup)
	}
	r := &run{config: p.config, job: j, clock: flow.NewClock()}
	r.every = max(readEvery, (j.Warmup+l.Duration)/maxReadings)
	defer context.AfterFunc(ctx, func() { r.stop.Store(true) })()
	r.lay()
	r.all(func(p *pipe) { p.open(ctx) })
	defer r.close()
	if r.start = j.Start; r.start == 0 {
		r.start = r.clock.Now() + startDelay.Nanoseconds()
	}
	r.window.Start = r.start + j.Warmup.Nanoseconds()
	r.window.End = r.window.Start + l.Duration.Nanoseconds()
	r.end.Store(r.window.End)
	if j.OnWindow != nil {
		j.OnWindow(r.window)
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		r.watch()
	}()
	go r.finish(watched)
	r.all((*pipe).move)
	<-watched
	r.window.End = r.end.Load()
	if ctx.Err() != nil {
		return nil, r.window, fmt.Errorf("running load %s: %w", l.Name, context.Cause(ctx))
	}
	return r.result(), r.window, nil
}

// lay makes the pipes, not yet open.
func (r *run) lay() {
	for i := range r.job.Load.Connections {
		to := r.job.Targets[i%len(r.job.Targets)]
		if r.config.Direction != directionDown {
			r.pipes = append(r.pipes, &pipe{run: r, to: to, up: true})
		}
		if r.config.Direction != directionUp {
			r.pipes = append(r.pipes, &pipe{run: r, to: to})
		}
	}
}

// all does something with all pipes at once, and waits.
func (r *run) all(f func(*pipe)) {
	var wait sync.WaitGroup
	for _, p := range r.pipes {
		wait.Go(func() { f(p) })
	}
	wait.Wait()
}

func (r *run) close() {
	for _, p := range r.pipes {
		p.close()
	}
}

// finish ends the window early if the job says so; until done.
func (r *run) finish(done <-chan struct{}) {
	select {
	case <-r.job.Finish: // never, if there is none
		r.end.Store(min(r.window.End, max(r.clock.Now(), r.window.Start+1)))
	case <-done:
	}
}

// watch reads this process's CPU time at the window's edges, and reports
// progress in between.
func (r *run) watch() {
	edges := [...]func() int64{func() int64 { return r.window.Start }, r.end.Load}
	for i, edge := range edges {
		for now := r.clock.Now(); now < edge() && !r.stop.Load(); now = r.clock.Now() {
			r.sleep(min(edge(), now+progressEvery.Nanoseconds()))
			if r.job.OnProgress != nil {
				r.job.OnProgress(r.progress())
			}
		}
		r.cpu[i] = flow.ProcessCPU()
	}
}

func (r *run) progress() load.Progress {
	all := load.Progress{Due: uint64(len(r.pipes))}
	for _, p := range r.pipes {
		if p.dead.Load() {
			all.Failed++
		}
	}
	return all
}

// sleep waits for a moment, or until the load is stopped.
func (r *run) sleep(until int64) {
	const piece = 20 * time.Millisecond
	timer := time.NewTimer(0)
	defer timer.Stop()
	for now := r.clock.Now(); now < until && !r.stop.Load(); now = r.clock.Now() {
		timer.Reset(min(time.Duration(until-now), piece))
		<-timer.C
	}
}

func (r *run) result() *model.LoadResult {
	l := &r.job.Load
	out := &model.LoadResult{
		Arrival: l.Arrival, Connections: l.Connections, Elapsed: r.window.Duration(),
		Failed: map[model.Cause]uint64{}, Statuses: map[int]uint64{}, Responders: map[string]uint64{},
		Response: &hist.Histogram{}, Service: &hist.Histogram{}, FailedResponse: &hist.Histogram{}, Lateness: &hist.Histogram{},
		GeneratorCPU: r.cpu[1] - r.cpu[0], Workers: len(r.pipes), Stream: r.stream(),
	}
	var apart time.Duration
	for _, p := range r.pipes {
		out.Due++
		if p.stream != nil {
			out.Sockets++
		}
		if p.cause != "" {
			out.Failed[p.cause]++
			continue
		}
		out.Succeeded++
		apart = max(apart, p.apart)
		if p.identity == "" {
			out.Unidentified++
		} else {
			out.Responders[p.identity]++
		}
	}
	// One that could not be opened has been sent, too: it is a failure.
	out.Sent = out.Due
	out.BytesSent, out.BytesReceived = out.Stream.Up, out.Stream.Down
	out.Clock = "CLOCK_MONOTONIC of whoever received"
	if apart > 0 {
		out.Clock += fmt.Sprintf("; the server's is tied to the generator's within %s", apart.Round(time.Microsecond))
	}
	return out
}

// stream adds up what was received, and what the senders' kernels say.
func (r *run) stream() *model.StreamResult {
	s := &model.StreamResult{Streams: len(r.pipes), Direction: r.config.Direction, Block: r.config.Block}
	var rtts time.Duration
	known := 0
	for _, p := range r.pipes {
		if p.info.MSS == 0 {
			continue
		}
		known++
		rtts += p.info.RTT
		if s.MSS == 0 || int(p.info.MSS) < s.MSS {
			s.MSS = int(p.info.MSS)
		}
		s.Congestion = p.info.Congestion
	}
	if known > 0 {
		s.RTT = rtts / time.Duration(known)
	}
	length := flow.IntervalLength(r.window.Duration())
	var before model.StreamResult
	for from := r.window.Start; from < r.window.End; from += length.Nanoseconds() {
		to := min(from+length.Nanoseconds(), r.window.End)
		s.Up, s.Down, s.Retransmits = r.counts(to)
		s.Intervals = append(s.Intervals, model.StreamInterval{
			Length: time.Duration(to - from), Up: s.Up - before.Up, Down: s.Down - before.Down, Retransmits: s.Retransmits - before.Retransmits,
		})
		before = *s
	}
	return s
}

// counts is what was received, and sent again, from the window's start to a moment.
func (r *run) counts(to int64) (up, down, retransmits uint64) {
	var u, d, again float64
	for _, p := range r.pipes {
		moved := p.received.At(to) - p.received.At(r.window.Start)
		if p.up {
			u += moved
		} else {
			d += moved
		}
		again += p.retransmits.At(to) - p.retransmits.At(r.window.Start)
	}
	return uint64(math.Round(u)), uint64(math.Round(d)), uint64(math.Round(again))
}

// causeOf says why a stream broke.
func causeOf(err error, otherwise model.Cause) model.Cause {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return model.CauseRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return model.CauseReset
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return model.CauseClosed
	case errors.Is(err, flow.ErrStalled), errors.Is(err, syscall.ETIMEDOUT), errors.As(err, &timeout) && timeout.Timeout():
		return model.CauseTimeout
	}
	return otherwise
}
