package hop

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/sys"
)

// Worker does what requests cost. Its random times are the same in every
// trial: they depend on who it is alone.
type Worker struct {
	mu     sync.Mutex
	random *rand.Rand
}

// NewWorker makes the worker of a server.
func NewWorker(identity string) *Worker {
	h := fnv.New64a()
	_, _ = h.Write([]byte(identity))                            // never fails
	return &Worker{random: rand.New(rand.NewPCG(h.Sum64(), 0))} //nolint:gosec // nothing secret
}

// Exponential is a random time with that mean, at most ten times as long.
func (w *Worker) Exponential(mean time.Duration) time.Duration {
	const most = 10
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(min(w.random.ExpFloat64(), most) * float64(mean))
}

// Burn uses up CPU time: that of its thread, whatever else runs here.
func Burn(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var sum uint64
	began, err := sys.ThreadCPU()
	for now := began; err == nil && now-began < d && ctx.Err() == nil; now, err = sys.ThreadCPU() {
		sum = turn(sum, rounded)
	}
	runtime.KeepAlive(sum)
	return err
}

// rounded is about 5 microseconds of turning.
const rounded = 10_000

// turn does nothing useful, in a way that no compiler leaves out.
//
//go:noinline
func turn(sum uint64, n int) uint64 {
	for i := range n {
		sum = sum*6364136223846793005 + uint64(i)
	}
	return sum
}

// Wait waits, unless the context ends before.
func Wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
