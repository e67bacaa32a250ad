package wan

import (
	"math/rand/v2"
	"time"
)

// shaper decides when packets leave. It is pure: the same packets at the same
// times with the same seed leave at the same times.
type shaper struct {
	Settings
	random *rand.Rand
	busy   int64 // until when the link is sending, with a rate
	last   int64 // when the last packet leaves, to keep the order
}

func newShaper(s Settings, seed uint64) *shaper {
	const stream = 0x77696e64                                                // any constant
	return &shaper{Settings: s, random: rand.New(rand.NewPCG(seed, stream))} //nolint:gosec // an emulation, not a secret
}

// fate is what becomes of a packet.
type fate struct {
	due       int64
	lost      bool
	overflow  bool
	duplicate bool
}

// decide says what becomes of a packet of so many bytes that came at a moment.
// Times are nanoseconds of one clock.
func (s *shaper) decide(arrived int64, size int) fate {
	var f fate
	f.lost = s.chance(s.Loss)
	f.duplicate = s.chance(s.Duplicate) && !f.lost
	overtakes := s.chance(s.Overtake)
	sent := arrived
	if s.Rate > 0 && !f.lost {
		start := max(arrived, s.busy)
		if start-arrived > int64(rateBuffer) {
			return fate{due: max(arrived, s.last), overflow: true}
		}
		const bits = 8
		sent = start + int64(float64(size*bits)/float64(s.Rate)*float64(time.Second))
		s.busy = sent
	}
	f.due = sent
	if !overtakes {
		f.due += int64(s.Delay)
		if s.Jitter > 0 {
			f.due += int64((s.random.Float64()*2 - 1) * float64(s.Jitter))
		}
	}
	if s.unordered() {
		return f
	}
	f.due = max(f.due, s.last)
	s.last = f.due
	return f
}

func (s *shaper) chance(share float64) bool { return share > 0 && s.random.Float64() < share }
