package load

import (
	"fmt"
	"math"
	"syscall"
	"time"
	"unsafe"
)

// clock reads CLOCK_MONOTONIC in nanoseconds. Its readings come from the
// runtime's own monotonic clock, which needs no system call.
type clock struct {
	origin time.Time
	offset int64 // CLOCK_MONOTONIC at origin
}

func (c clock) now() int64 { return c.offset + int64(time.Since(c.origin)) }

// Monotonic is the reading of CLOCK_MONOTONIC now, in nanoseconds.
func Monotonic() (int64, error) {
	c, err := newClock()
	return c.now(), err
}

// at is the reading at a moment of CLOCK_REALTIME that has just passed. If that
// clock was set meanwhile, it is now.
func (c clock) at(realtime int64) int64 {
	now := time.Now() // of both clocks
	age := now.UnixNano() - realtime
	if age < 0 || age > int64(time.Second) {
		age = 0
	}
	return c.offset + int64(now.Sub(c.origin)) - age
}

// newClock ties the runtime's clock to CLOCK_MONOTONIC: of a few readings, the
// one that took least time is the closest.
func newClock() (clock, error) {
	c := clock{origin: time.Now()}
	best := int64(math.MaxInt64)
	for range 5 {
		before := int64(time.Since(c.origin))
		var ts syscall.Timespec
		const clockMonotonic = 1
		_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0) //nolint:gosec // G103: the kernel fills ts in during the call
		if errno != 0 {
			return c, fmt.Errorf("reading CLOCK_MONOTONIC: %w", errno)
		}
		after := int64(time.Since(c.origin))
		if after-before < best {
			best = after - before
			c.offset = ts.Nano() - (before+after)/2
		}
	}
	return c, nil
}
