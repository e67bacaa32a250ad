package flow

import (
	"math/bits"
	"syscall"
	"time"
)

const (
	// gatherFor is about how long a read waits for more, at the rate at which
	// bytes come, and gatherMost for how many: what interrupt coalescing does.
	gatherFor  = 250 * time.Microsecond
	gatherMost = 256 << 10
	// gatherEvery is how often the rate is looked at.
	gatherEvery = 10 * time.Millisecond
)

// gather sets how many bytes make a socket readable (SO_RCVLOWAT), by the rate
// at which they come. Whoever reads each packet as it comes sleeps and is woken
// for each, and the waking is the sender's work: at tens of Gbit/s that halves
// the rate. Waits stay bounded by SO_RCVTIMEO, and the kernel itself wakes the
// reader where the window is about to close.
type gather struct {
	fd, most int
	mark     int // what is set
	since    int64
	bytes    int
}

// newGather is of a socket that any byte makes readable.
func newGather(fd int, now int64) *gather {
	return &gather{fd: fd, most: gatherMost, mark: 1, since: now}
}

// came notes what a read has returned, which may be nothing.
func (g *gather) came(now int64, n int) {
	g.bytes += n
	passed := now - g.since
	if passed < gatherEvery.Nanoseconds() {
		return
	}
	g.set(gathered(g.bytes, passed, g.most))
	g.bytes, g.since = 0, now
}

// gathered is the power of two below what comes in gatherFor, at most that much.
func gathered(count int, passed int64, most int) int {
	n := min(int(float64(count)*float64(gatherFor.Nanoseconds())/float64(passed)), most)
	return 1 << max(bits.Len(uint(max(n, 1)))-1, 0)
}

func (g *gather) set(mark int) {
	if mark == g.mark {
		return
	}
	// A kernel that will not is one that wakes its readers for each packet.
	if syscall.SetsockoptInt(g.fd, syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, mark) == nil {
		g.mark = mark
	}
}

// reset lets any byte make the socket readable again.
func (g *gather) reset() { g.set(1) }
