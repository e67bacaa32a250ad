// Package wan emulates links between places: delay, jitter, loss, duplicates,
// reordering and rate. Where the kernel has netem, that does it (netem.go);
// elsewhere a delay line does: a process that is handed packets by NFQUEUE and
// tells the kernel later what becomes of them (line.go). Both take the same
// Settings. Packets stay in the kernel; the delay line sees their first bytes.
package wan

import (
	"net/netip"
	"time"
)

// Settings are of one direction of a link.
type Settings struct {
	Delay time.Duration `json:"delay_ns,omitempty"`
	// Jitter spreads the delay evenly over delay +- jitter.
	Jitter time.Duration `json:"jitter_ns,omitempty"`
	// Reorder lets jitter reorder packets. Otherwise one that would overtake
	// waits, which moves the mean up where packets are close together.
	Reorder   bool    `json:"reorder,omitempty"`
	Loss      float64 `json:"loss,omitempty"`      // share of packets, 0 to 1
	Duplicate float64 `json:"duplicate,omitempty"` // share of packets that arrive twice
	Overtake  float64 `json:"overtake,omitempty"`  // share of packets that are not delayed, and so overtake others
	Rate      uint64  `json:"rate_bps,omitempty"`  // bits per second, Ethernet's header included; 0: no limit
}

// rateBuffer is how long a packet may wait for its turn on a link with a rate;
// where it would wait longer it is dropped, as by a router's full buffer.
const rateBuffer = 100 * time.Millisecond

// fastest is the rate from which a link takes the kernel's large segments as
// one packet: one of 64 KiB then lasts half a millisecond at most.
const fastest = 1_000_000_000

// Late is how late the delay line may let a packet go: later than that
// counts. A millisecond is what a busy host does to any timer.
func (s Settings) Late() time.Duration {
	const share = 50 // 2 %
	return max(time.Millisecond, s.Delay/share)
}

// Single says whether packets must be looked at one by one, as they would be
// on a wire, and not in the kernel's large segments.
func (s Settings) Single() bool {
	return s.Loss > 0 || s.Duplicate > 0 || s.Overtake > 0 || s.Reorder || s.Rate > 0 && s.Rate < fastest
}

// unordered says whether packets may leave in another order than they came.
func (s Settings) unordered() bool { return s.Reorder && s.Jitter > 0 || s.Overtake > 0 }

// mayReorder says whether packets may, or might after a change.
func (s Settings) mayReorder() bool { return s.Reorder || s.Overtake > 0 }

// Line is one direction of a link for the delay line: what comes from a queue
// of the kernel.
type Line struct {
	Name     string   `json:"name"`
	Queue    uint16   `json:"queue"`
	Seed     uint64   `json:"seed"`
	Settings Settings `json:"settings"`
	// Stations say to which hardware address duplicates go, by the address that
	// the packet is for.
	Stations []Station `json:"stations,omitempty"`
}

// Station is what receives packets for a range of addresses.
type Station struct {
	Range    netip.Prefix `json:"range"`
	Hardware []byte       `json:"hardware"`
}

// Stats are what a line has counted since it began, but for Worst.
type Stats struct {
	Name    string `json:"name"`
	Packets uint64 `json:"packets"` // that were due
	Lost    uint64 `json:"lost"`    // by Settings.Loss
	// Overflow counts packets that found the rate's buffer full.
	Overflow   uint64 `json:"overflow"`
	Duplicated uint64 `json:"duplicated"`
	// Late counts packets that left later than Settings.Late after they were due.
	Late     uint64        `json:"late"`
	Lateness time.Duration `json:"lateness_ns"` // sum over all packets
	Worst    time.Duration `json:"worst_ns"`    // since the last question
}

// Ready is what a delay line says when all its queues are open.
type Ready struct {
	Schedule string `json:"schedule"` // what the scheduler gave it
	Error    string `json:"error,omitempty"`
}
