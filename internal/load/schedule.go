package load

import (
	"math"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Schedule says when request k (from 0) is due, counted from the load's start,
// warm-up included. ok is false when there is no such request, nor a later one.
// Due never falls as k rises, and depends on nothing but k: schedules made
// alike say the same, whoever asks in whatever order. One is for one thread.
type Schedule interface {
	Due(k uint64) (at time.Duration, ok bool)
}

// NewSchedule is the schedule of an open loop with a warm-up before its window.
// The seed is that of a Poisson pattern.
func NewSchedule(l model.Load, warmup time.Duration, seed uint64) Schedule {
	p := &l.Pattern
	switch {
	case len(p.Times) > 0:
		return &replay{warm: Constant{l.Rate}, warmup: warmup, warmRequests: uint64(l.Rate * warmup.Seconds()), times: p.Times}
	case len(p.Segments) == 0 && !p.Poisson && p.Burst < 2:
		return Constant{l.Rate}
	}
	segments := p.Segments
	if len(segments) == 0 {
		segments = []model.Segment{{From: l.Rate, To: l.Rate, Duration: l.Duration}}
	}
	s := &varying{curve: newCurve(warmup, segments), burst: uint64(max(p.Burst, 1))}
	if p.Poisson {
		s.draw = &poisson{seed: seed}
	}
	return s
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

// replay is a list of times; before it, the warm-up has its mean rate.
type replay struct {
	warm         Constant
	warmup       time.Duration
	warmRequests uint64
	times        []time.Duration
}

func (r *replay) Due(k uint64) (time.Duration, bool) {
	if k < r.warmRequests {
		return r.warm.Due(k)
	}
	if k -= r.warmRequests; k >= uint64(len(r.times)) {
		return 0, false
	}
	return r.warmup + r.times[k], true
}

// varying puts evenly spaced or random points on an axis of expected requests,
// which a rate that varies stretches over time: a request is due when as many
// are expected as its point says.
type varying struct {
	curve curve
	burst uint64
	draw  *poisson // nil: evenly spaced
}

func (v *varying) Due(k uint64) (time.Duration, bool) {
	group := k / v.burst
	x := float64(group)
	if v.draw != nil {
		x = v.draw.arrival(group)
	}
	return v.curve.when(x * float64(v.burst))
}

// curve is how many requests are expected as time goes by: piecewise, with the
// rate going evenly from one value to another in each piece.
type curve []piece

type piece struct {
	start    float64 // seconds
	expected float64 // requests before it
	from, to float64 // requests per second
	length   float64 // seconds; the last piece's rate goes on without end
}

func newCurve(warmup time.Duration, segments []model.Segment) curve {
	first := segments[0].From
	c := curve{{from: first, to: first, length: warmup.Seconds()}}
	for _, s := range segments {
		c = append(c, c.after(s.From, s.To, s.Duration.Seconds()))
	}
	last := segments[len(segments)-1].To
	return append(c, c.after(last, last, math.Inf(1)))
}

func (c curve) after(from, to, length float64) piece {
	p := &c[len(c)-1]
	return piece{start: p.start + p.length, expected: p.expected + p.requests(), from: from, to: to, length: length}
}

func (p *piece) requests() float64 { return (p.from + p.to) / 2 * p.length }

// when is the time at which x requests are expected: in a piece, the root of
//
//	from t + (to - from)/(2 length) t^2 = x
//
// in the form that loses no digits where the rate hardly changes.
func (c curve) when(x float64) (time.Duration, bool) {
	i := 0
	for i+1 < len(c) && x >= c[i+1].expected {
		i++
	}
	p := &c[i]
	x -= p.expected
	t := 0.0
	if x > 0 {
		slope := (p.to - p.from) / p.length
		t = 2 * x / (p.from + math.Sqrt(max(p.from*p.from+2*slope*x, 0)))
	}
	at := math.Round((p.start + t) * 1e9)
	return time.Duration(at), at < math.MaxInt64/2
}

// poisson are the arrivals of a Poisson process of rate 1. The time between two
// depends on their number and the seed alone; their sum is remembered, as
// numbers are mostly asked for in order.
type poisson struct {
	seed uint64
	next uint64 // number of the first arrival not in sum
	sum  float64
}

func (p *poisson) arrival(n uint64) float64 {
	if n+1 < p.next {
		p.next, p.sum = 0, 0
	}
	for ; p.next <= n; p.next++ {
		p.sum += exponential(p.seed, p.next)
	}
	return p.sum
}

// exponential is draw n of an exponential distribution of mean 1.
func exponential(seed, n uint64) float64 {
	return -math.Log(1 - float64(mix(seed+n*0x9e3779b97f4a7c15)>>11)/(1<<53))
}

// mix is the output function of SplitMix64 (Steele, Lea and Flood, 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
