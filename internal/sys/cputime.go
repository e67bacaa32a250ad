package sys

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// ThreadCPU is the CPU time that the calling thread has used. Callers that
// compare two readings lock themselves to the thread.
func ThreadCPU() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0, fmt.Errorf("reading the thread's CPU clock: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}
