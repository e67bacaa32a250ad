package load

import (
	"math"
	"time"
)

// Schedule says when request k (from 0) is due, counted from the load's start.
// ok is false when there is no such request, nor a later one. Due never falls
// as k rises. It is pure: workers ask it for their own numbers in any order.
type Schedule interface {
	Due(k uint64) (at time.Duration, ok bool)
}

// Constant is a fixed rate without end, in requests per second; the rate must
// be above 0.
type Constant struct{ Rate float64 }

var _ Schedule = Constant{}

// Due is k/rate, computed from the number so that rounding never adds up.
func (c Constant) Due(k uint64) (time.Duration, bool) {
	at := math.Round(float64(k) * 1e9 / c.Rate)
	return time.Duration(at), at < math.MaxInt64/2
}
