package flow

import "time"

// window is how far back, in numbers, a datagram is told from its duplicate. A
// datagram that is later than that counts as reordered.
const window = 1 << 16

// Counter counts the datagrams of one flow as they come in.
type Counter struct {
	Received  uint64
	Intervals []Interval // 0 is the warm-up

	next    uint64 // one above the highest number seen
	seen    [window / 64]uint64
	jitter  int64 // ns, times 16
	transit int64
	begun   bool
}

// NewCounter makes room for a flow of so many intervals, with the warm-up; at
// most MaxIntervals.
func NewCounter(intervals uint32) *Counter {
	return &Counter{Intervals: make([]Interval, max(min(intervals, MaxIntervals), 1))}
}

// Add counts a datagram: its number, the sender's clock when it was sent, the
// receiver's when it came, both in nanoseconds, and its size in bytes. Only
// differences between clocks' readings count, so they need not agree.
func (c *Counter) Add(k uint64, sent, came int64, interval uint32, size int) {
	if int(interval) >= len(c.Intervals) {
		return // not of this flow's making
	}
	in := &c.Intervals[interval]
	c.Received++
	in.Received++
	in.Largest = max(in.Largest, uint64(size)) //nolint:gosec // G115: not negative
	switch {
	case k >= c.next:
		c.advance(k)
	case c.next-k <= window && c.marked(k):
		in.Duplicated++
		return
	default:
		in.Reordered++
		if c.next-k <= window {
			c.mark(k)
		}
	}
	transit := came - sent
	if c.begun {
		d := max(transit-c.transit, c.transit-transit)
		c.jitter += d - (c.jitter+8)/16 // RFC 3550, A.8
	}
	c.transit, c.begun = transit, true
	in.Jitter = time.Duration(c.jitter / 16)
}

// advance makes k the highest number, and forgets what is now out of reach.
func (c *Counter) advance(k uint64) {
	if k-c.next >= window {
		clear(c.seen[:])
	} else {
		for n := c.next; n < k; n++ {
			c.seen[n%window/64] &^= 1 << (n % 64)
		}
	}
	c.next = k + 1
	c.mark(k)
}

func (c *Counter) mark(k uint64)        { c.seen[k%window/64] |= 1 << (k % 64) }
func (c *Counter) marked(k uint64) bool { return c.seen[k%window/64]&(1<<(k%64)) != 0 }
