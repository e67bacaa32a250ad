package flow

import (
	"syscall"
	"time"
	"unsafe"
)

const (
	// lullMost is how long a receiver lets bytes pile up at most, and lullLeast
	// the shortest time for which it is worth to go to sleep.
	lullMost  = 250 * time.Microsecond
	lullLeast = 20 * time.Microsecond
	// lullWorth is how many bytes have to come in lullMost: fewer are hardly more
	// than one packet, which may as well be read when it comes.
	lullWorth = 16 << 10
	// lullEvery is how often the rate is looked at.
	lullEvery = 10 * time.Millisecond
)

// lull is for how long a receiver that has read all there is lets more come
// before it reads on: what interrupt coalescing does. Whoever waits in a read
// is woken for each packet, and the waking is the sender's work: at tens of
// Gbit/s a third of it. A receiver that sleeps by the clock wakes up by itself.
type lull struct {
	fd    int
	since int64
	bytes int
	span  syscall.Timespec // of the sleep now
}

func newLull(fd int, now int64) *lull { return &lull{fd: fd, since: now} }

// came notes what a read has returned, which may be nothing.
func (l *lull) came(now int64, n int) {
	l.bytes += n
	passed := now - l.since
	if passed < lullEvery.Nanoseconds() {
		return
	}
	buffer, err := syscall.GetsockoptInt(l.fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF)
	if err != nil {
		buffer = 0
	}
	l.span = syscall.NsecToTimespec(lullFor(l.bytes, passed, buffer).Nanoseconds())
	l.bytes, l.since = 0, now
}

// lullFor is how long to sleep at a rate: not so long that a quarter of the
// socket's buffer fills, about half of which is the window that the sender sees.
func lullFor(count int, passed int64, buffer int) time.Duration {
	rate := float64(count) / float64(passed) // bytes per nanosecond
	if rate*float64(lullMost) < lullWorth {
		return 0
	}
	d := min(time.Duration(float64(buffer/4)/rate), lullMost)
	if d < lullLeast {
		return 0
	}
	return d
}

// sleep sleeps; with room, it does not tell the scheduler.
func (l *lull) sleep(room bool) {
	if l.span.Nsec == 0 {
		return
	}
	span := unsafe.Pointer(&l.span) //nolint:gosec // G103: the kernel reads it during the call
	if room {
		_, _, _ = syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(span), 0, 0) // a signal may end it early
		return
	}
	_, _, _ = syscall.Syscall(syscall.SYS_NANOSLEEP, uintptr(span), 0, 0) // as above
}
