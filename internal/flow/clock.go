package flow

import (
	"syscall"
	"time"

	"github.com/windtunnel/windtunnel/internal/sys"
)

// Clock reads CLOCK_MONOTONIC in nanoseconds. Its readings come from the
// runtime's own monotonic clock, which needs no system call.
type Clock struct {
	origin time.Time
	offset int64
}

// NewClock ties the runtime's clock to CLOCK_MONOTONIC.
func NewClock() Clock {
	before := time.Now()
	at := sys.Monotonic()
	return Clock{origin: before, offset: at - time.Since(before).Nanoseconds()/2}
}

// Now is the time.
func (c Clock) Now() int64 { return c.offset + int64(time.Since(c.origin)) }

// Series is a count that only grows, by when it was read: what a receiver says
// about its stream.
type Series []Report

// At is the count at a moment: between two readings in proportion, before the
// first 0, after the last that one.
func (s Series) At(moment int64) float64 {
	before := Report{}
	lo, hi := 0, len(s) // the first reading after the moment
	for lo < hi {
		if mid := (lo + hi) / 2; s[mid].At <= moment {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo > 0 {
		before = s[lo-1] //nolint:gosec // G602: lo is above 0
	}
	if lo == len(s) || lo == 0 {
		return float64(before.Bytes)
	}
	share := float64(moment-before.At) / float64(s[lo].At-before.At)
	return float64(before.Bytes) + share*float64(s[lo].Bytes-before.Bytes)
}

// IntervalLength divides a window: in seconds, or in as many whole seconds as
// keep the intervals, with the warm-up, below MaxIntervals.
func IntervalLength(window time.Duration) time.Duration {
	const most = MaxIntervals - 2
	return max(time.Second, ((window+most-1)/most + time.Second - 1).Truncate(time.Second))
}

// ProcessCPU is the CPU time of this process.
func ProcessCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // cannot be: the call has no such failure
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
