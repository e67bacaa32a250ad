package wan

import (
	"math"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/windtunnel/windtunnel/internal/sys"
)

// inOrder is a rate that no link reaches: with a rate, netem lets no packet
// leave before the one in front of it, whatever the jitter.
const inOrder = 1 << 40 // bytes per second

// Netem are a direction's settings as netem takes them. Its rate holds for
// what leaves, its limit for the packets on the way and those that wait.
func Netem(attrs netlink.QdiscAttrs, s Settings) *netlink.Netem {
	const percent = 100
	a := netlink.NetemQdiscAttrs{
		Latency: micros(s.Delay), Jitter: micros(s.Jitter), Limit: maxHeld,
		Loss: float32(s.Loss * percent), Duplicate: float32(s.Duplicate * percent), ReorderProb: float32(s.Overtake * percent),
	}
	switch {
	case s.Rate > 0:
		const bits = 8
		a.Rate64 = s.Rate / bits
		a.Limit = netemLimit(s)
	case s.Jitter > 0 && !s.Reorder:
		a.Rate64 = inOrder
	}
	return netlink.NewNetem(attrs, a)
}

// Discipline is Netem for sys.Net.AddClasses.
func Discipline(s Settings) sys.Discipline {
	return func(attrs netlink.QdiscAttrs) netlink.Qdisc { return Netem(attrs, s) }
}

// netemLimit is how many packets of 1,500 bytes are on the way and in a buffer
// of rateBuffer.
func netemLimit(s Settings) uint32 {
	const packet, least = 1500 * 8, 32
	n := float64(s.Rate) / packet * (s.Delay + s.Jitter + rateBuffer).Seconds()
	return uint32(min(max(math.Round(n), least), maxHeld))
}

func micros(d time.Duration) uint32 {
	return uint32(min(d/time.Microsecond, math.MaxUint32)) //nolint:gosec // bounded
}
