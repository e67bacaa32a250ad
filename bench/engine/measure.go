package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/windtunnel/windtunnel/internal/sys"
)

const (
	// settle is between a tool's first requests and the window: connections
	// are then open, and start-up is over.
	settle = 500 * time.Millisecond
	// slack is how much longer than settle and the window a tool is told to run.
	slack = 700 * time.Millisecond
	// begun is how many requests say that a load has begun, and not only asked
	// whether the server is there.
	begun = 48
	// patience is how long a tool may take to begin, and to end when it is over.
	patience = 20 * time.Second
)

// told is how long tools are told to run for a window.
func told(window time.Duration) time.Duration { return settle + window + slack }

// usage is what one tool used in one window. Requests are counted by the
// server and CPU time by the kernel, at the same two instants: a tool's own
// start-up, and its own idea of time and requests, do not matter.
type usage struct {
	seconds, requests    float64
	clientCPU, serverCPU float64 // seconds
	rss                  float64 // bytes, at most
	bytes                float64 // received by the server's device
	stamps               []int64 // arrivals in the window
	out                  []byte  // what the tool printed
}

// reading is all counters at one instant.
type reading struct {
	at                   time.Time
	requests             uint64
	clientCPU, serverCPU float64
	traffic              traffic
}

func (b *bed) read(ctx context.Context, s *server, client *process) (r reading, err error) {
	r.at = time.Now()
	if s.count != nil {
		if r.requests, err = s.count(ctx); err != nil {
			return r, err
		}
	}
	if r.clientCPU, err = client.cpu(ctx); err != nil {
		return r, err
	}
	if r.serverCPU, err = s.cpu(ctx); err != nil {
		return r, err
	}
	r.traffic, err = b.traffic()
	return r, err
}

// observe runs a tool against a server and reads what it uses in a window.
func (b *bed) observe(ctx context.Context, s *server, window time.Duration, argv []string) (u usage, err error) {
	client, err := b.start(clientSide, false, argv...)
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, b.end(ctx, client)) }()
	if err = b.underWay(ctx, s, client); err != nil {
		return u, err
	}
	first, err := b.read(ctx, s, client)
	if err != nil {
		return u, err
	}
	if err = sys.Sleep(ctx, window); err != nil {
		return u, err
	}
	last, err := b.read(ctx, s, client)
	if err != nil {
		return u, err
	}
	if u.rss, err = client.peakRSS(); err != nil {
		return u, fmt.Errorf("%w; it said: %s", err, client.said())
	}
	u.seconds = last.at.Sub(first.at).Seconds()
	u.requests = float64(last.requests - first.requests)
	u.clientCPU, u.serverCPU = last.clientCPU-first.clientCPU, last.serverCPU-first.serverCPU
	u.bytes = last.traffic.bytes - first.traffic.bytes
	if err = client.wait(ctx, patience); err != nil {
		return u, err
	}
	u.out = client.out.Bytes()
	if code := client.ExitCode(); code != 0 {
		return u, fmt.Errorf("%s ended with status %d: %s", client.name, code, client.said())
	}
	if s.stamps != nil {
		all, err := s.stamps()
		if err != nil {
			return u, err
		}
		u.stamps = within(all, first.at.UnixNano(), last.at.UnixNano())
	}
	return u, nil
}

// within are the stamps of a window.
func within(stamps []int64, from, to int64) []int64 {
	var in []int64
	for _, at := range stamps {
		if at >= from && at < to {
			in = append(in, at)
		}
	}
	return in
}

// underWay waits until the load has begun and settled.
func (b *bed) underWay(ctx context.Context, s *server, client *process) error {
	if s.count == nil {
		return b.flowing(ctx, client)
	}
	before, err := s.count(ctx)
	if err != nil {
		return err
	}
	return b.until(ctx, client, func() (bool, error) {
		now, err := s.count(ctx)
		return now >= before+begun, err
	})
}

// flowing is underWay for loads without requests: a megabyte has arrived.
func (b *bed) flowing(ctx context.Context, client *process) error {
	before, err := b.traffic()
	if err != nil {
		return err
	}
	return b.until(ctx, client, func() (bool, error) {
		now, err := b.traffic()
		return now.bytes >= before.bytes+1e6, err
	})
}

func (b *bed) until(ctx context.Context, client *process, begun func() (bool, error)) error {
	const every = 5 * time.Millisecond
	for waited := time.Duration(0); ; waited += every {
		yes, err := begun()
		if err != nil {
			return err
		}
		if yes {
			return sys.Sleep(ctx, settle)
		}
		select {
		case <-client.Done():
			return fmt.Errorf("%s has ended before it began, with status %d: %s", client.name, client.ExitCode(), client.said())
		default:
		}
		if waited > patience {
			return fmt.Errorf("%s has not begun after %s", client.name, patience)
		}
		if err := sys.Sleep(ctx, every); err != nil {
			return err
		}
	}
}

// stall runs a tool for d at a rate, stops the server once for about half a
// second, and returns for how long it really stood still and what the tool said.
func (b *bed) stall(ctx context.Context, s *server, argv []string) (stood time.Duration, out []byte, err error) {
	client, err := b.start(clientSide, false, argv...)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, b.end(ctx, client)) }()
	if err = b.underWay(ctx, s, client); err != nil {
		return 0, nil, err
	}
	if err = sys.Sleep(ctx, stallAfter); err != nil {
		return 0, nil, err
	}
	if err = s.Signal(stop); err != nil {
		return 0, nil, err
	}
	began := time.Now()
	err = sys.Sleep(ctx, stallFor)
	err = errors.Join(err, s.Signal(goOn))
	stood = time.Since(began)
	if err != nil {
		return stood, nil, err
	}
	if err = client.wait(ctx, stallRun+patience); err != nil {
		return stood, nil, err
	}
	if code := client.ExitCode(); code != 0 {
		return stood, nil, fmt.Errorf("%s ended with status %d: %s", client.name, code, client.said())
	}
	return stood, client.out.Bytes(), nil
}

// The stall: ten seconds at a constant rate, so that p99.9 has ten requests
// beyond it and p99 is in the middle of the half second.
const (
	stallRun   = 10 * time.Second
	stallAfter = 3 * time.Second
	stallFor   = 500 * time.Millisecond
	stallRate  = 1000
	stop       = syscall.SIGSTOP
	goOn       = syscall.SIGCONT
)
