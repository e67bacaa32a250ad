// Package load is the load engine: it sends requests when a schedule says so,
// and keeps three stamps of each: when it was due, when it was sent, when its
// answer was complete. Response time is done - due, service time done - sent,
// lateness sent - due.
//
// Each worker is one locked operating-system thread with its own epoll set and
// connections; nothing is allocated per request. Due times are computed from
// the request's number, never by adding up a rounded period.
package load

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Protocol makes sessions for connections. It is called before the load, once
// a load, from one goroutine.
type Protocol interface {
	Prepare(l model.Load, authority string) (newSession func() Session, err error)
}

// Session speaks a protocol over one connection's bytes. It is used by one
// thread and must not allocate in the steady state. A session is not used
// again after Feed or Close has returned an error.
type Session interface {
	// Begin appends the bytes of a request to dst; id comes back in its Answer.
	Begin(dst []byte, id uint32) []byte
	// Feed takes received bytes and appends the answers that they complete.
	Feed(b []byte, got []Answer) ([]Answer, error)
	// EOF says that the peer has closed; it may complete an answer.
	EOF(got []Answer) ([]Answer, error)
}

// Answer is one complete response. Identity and Header are valid until the
// session's next call.
type Answer struct {
	ID          uint32
	Status      int
	OK          bool // the protocol's own idea of success
	Identity    []byte
	Header      []byte // everything before the body, as received
	HeaderBytes int64
	BodyBytes   int64
	Sum         uint32 // CRC-32C of the body
	Close       bool   // the connection cannot be used again
}

// Schedule says when request k is due, counted from the load's start; ok is
// false when there is no such request. It is pure.
type Schedule interface {
	Due(k uint64) (at time.Duration, ok bool)
}

// Constant is a fixed rate, in requests per second.
type Constant struct{ Rate float64 }

// Due is k/rate: computed from the number, so that rounding never adds up.
func (c Constant) Due(k uint64) (time.Duration, bool) {
	return time.Duration(float64(k) / c.Rate * 1e9), true
}

// Job is one load to run.
type Job struct {
	Load       model.Load
	Session    func() Session
	Targets    []netip.AddrPort // connections are spread over them in turn
	Warmup     time.Duration
	Expect     Expect
	Workers    int // threads; 0: one
	OnWindow   func(model.Window)
	OnProgress func(Progress)
}

// Expect is what a right answer looks like, from the ready gate.
type Expect struct {
	Known bool
	Sum   uint32
	Bytes int64
}

// Progress counts since the load began, warm-up included.
type Progress struct {
	Due, Succeeded, Failed uint64
}

// startDelay is between the announcement of the window and the first request,
// so that the announcement is heard before the window opens.
const startDelay = 20 * time.Millisecond

// Run runs one load to its end and returns what was counted in the window.
func Run(ctx context.Context, j Job) (*model.LoadResult, error) {
	j.Workers = max(j.Workers, 1)
	if len(j.Targets) == 0 {
		return nil, errors.New("running a load: no target")
	}
	workers := make([]*worker, j.Workers)
	for i := range workers {
		w, err := newWorker(j, i)
		if err != nil {
			return nil, errors.Join(err, closeAll(workers[:i]))
		}
		workers[i] = w
	}
	// The workers block in the kernel without telling the scheduler, so each
	// needs a place of its own beside one for everything else; and a garbage
	// collection would have to wait for them.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(j.Workers + 1))
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))

	start := now() + startDelay.Nanoseconds()
	window := model.Window{Start: start + j.Warmup.Nanoseconds(), End: start + (j.Warmup + j.Load.Duration).Nanoseconds()}
	if j.OnWindow != nil {
		j.OnWindow(window)
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for _, w := range workers {
		wg.Go(func() { w.run(start, window, &stop) })
	}
	finished := make(chan struct{})
	go func() { wg.Wait(); close(finished) }()
	watch(ctx, j, workers, finished, &stop)
	result := merge(j, workers, window)
	if err := errors.Join(ctx.Err(), closeAll(workers)); err != nil {
		return result, fmt.Errorf("running load %s: %w", j.Load.Name, err)
	}
	return result, nil
}

func watch(ctx context.Context, j Job, workers []*worker, finished <-chan struct{}, stop *atomic.Bool) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-finished:
			return
		case <-ctx.Done():
			stop.Store(true)
			<-finished
			return
		case <-tick.C:
			if j.OnProgress == nil {
				continue
			}
			var p Progress
			for _, w := range workers {
				p.Due += w.live.due.Load()
				p.Succeeded += w.live.ok.Load()
				p.Failed += w.live.failed.Load()
			}
			j.OnProgress(p)
		}
	}
}

func closeAll(workers []*worker) error {
	var errs []error
	for _, w := range workers {
		errs = append(errs, w.close())
	}
	return errors.Join(errs...)
}

// merge adds the workers' counts up; histograms are merged exactly.
func merge(j Job, workers []*worker, window model.Window) *model.LoadResult {
	r := &model.LoadResult{
		Arrival: j.Load.Arrival, Connections: j.Load.Connections, Rate: j.Load.Rate, Elapsed: window.Duration(),
		Failed: map[model.Cause]uint64{}, Statuses: map[int]uint64{}, Responders: map[string]uint64{},
		Response: &hist.Histogram{}, Service: &hist.Histogram{}, FailedResponse: &hist.Histogram{}, Lateness: &hist.Histogram{},
		Workers: len(workers), Clock: "CLOCK_MONOTONIC, user space",
	}
	rec := &recorder{}
	for _, w := range workers {
		w.rec.addTo(r)
		rec.timeline.merge(&w.rec.timeline)
		r.GeneratorIdle += w.idle.Seconds() / window.Duration().Seconds() / float64(len(workers))
		r.GeneratorCPU += w.cpu
		r.Sockets += w.sockets
	}
	r.Timeline = rec.timeline.export(slotWidth(window.Duration()))
	return r
}

// rusageThread is RUSAGE_THREAD: the calling thread only.
const rusageThread = 1

// threadCPU is the CPU time of the calling thread.
func threadCPU() time.Duration {
	var ru syscall.Rusage
	if err := syscall.Getrusage(rusageThread, &ru); err != nil {
		return 0
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}
