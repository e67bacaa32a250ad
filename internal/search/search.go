// Package search finds the highest rate at which a system holds its
// objectives, by bisection with confirmation. It decides only what to try
// next: the same history always gives the same answer, and what runs the loads
// is somewhere else.
//
// Rates are bisected on a logarithmic scale, as capacity is not known to within
// a factor of ten. One probe is short and may be wrong in either direction: a
// host that does something else for a moment makes a rate fail that holds. So
// no failure is believed at once. The search goes on below it, and when it is as
// close as was asked for, the lowest rate that failed is tried again; if it holds
// now, so is the next, and the search goes on above what holds. Other failures are
// left as they are, as nothing follows from them. The rate that was found must
// then hold several times in a row for the load's whole duration; where it does
// not, again not only once, the search steps down. Failures of the load generator
// count in the same way; if most of those at a rate are its own, that rate is a
// limit, but the generator's and not the system's.
package search

import (
	"math"
	"slices"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Step is what to do next.
type Step struct {
	Rate float64 // to try; 0: the search is over
	// Confirm asks for the load's whole duration instead of a probe's.
	Confirm bool
	// Result is the search's, where it is over.
	Result model.SearchResult
}

// Next says what to do after the probes that were made so far.
func Next(s model.Search, done []model.SearchProbe) Step {
	b := &bisection{Search: s}
	for _, p := range done {
		b.add(p)
	}
	if rate := b.next(); rate > 0 {
		return Step{Rate: rate, Confirm: b.confirming}
	}
	return Step{Result: model.SearchResult{Highest: b.confirmed, Above: b.above(), Limit: b.limit(), Probes: done}}
}

// How often a rate must fail before it is believed: rarely does something else
// disturb all. Below the lowest rate of the search there is nothing left to try.
const (
	tries       = 3
	lowestTries = 5
)

// failed is a rate that did not hold, and how often.
type failed struct {
	rate             float64
	times, generator int // of these, because of the load generator
}

// bisection is the state of a search, after each probe.
type bisection struct {
	model.Search
	holds      float64  // the highest rate that held; 0: none yet
	failures   []failed // above it, lowest first
	doubt      bool     // of these: one of them holds
	probes     int
	confirming bool
	candidate  failed // to be confirmed
	streak     int    // confirmations in a row
	misses     int    // failures in a row
	stepsDown  int
	confirmed  float64
	over       bool
}

// next is the rate to try; 0: the search is over.
func (b *bisection) next() float64 {
	switch {
	case b.over:
		return 0
	case b.confirming:
		return b.candidate.rate
	case b.doubt && len(b.failures) > 0:
		return b.above()
	}
	low, high := b.holds, b.above()
	if low == 0 {
		low = b.From
	}
	if high == 0 {
		high = b.To
	}
	switch {
	case high/low > 1+b.Precision:
		return round(math.Sqrt(low * high))
	case b.holds == 0:
		return b.From
	default:
		return high // it has failed, and is not believed yet; or nothing has failed
	}
}

// above is the lowest rate that did not hold; 0: there is none.
func (b *bisection) above() float64 {
	if len(b.failures) == 0 {
		return 0
	}
	return b.failures[0].rate
}

// add takes in what came of the rate that next gave.
func (b *bisection) add(p model.SearchProbe) {
	held := p.Held && !p.Generator
	if b.confirming {
		b.confirm(held, p.Generator)
		return
	}
	b.probes++
	if held {
		b.holds, b.doubt = p.Rate, p.Rate == b.above() && b.probes < patience(b.Search)
		b.failures = slices.DeleteFunc(b.failures, func(f failed) bool { return f.rate <= p.Rate })
	} else {
		b.doubt = false
		b.fail(p)
	}
	switch {
	case b.holds >= b.To:
	case !b.believed():
		return
	case b.holds == 0:
		b.over = b.above() <= b.From
		return
	case b.above()/b.holds > 1+b.Precision:
		return
	}
	b.confirming, b.candidate = true, failed{rate: b.holds}
}

func (b *bisection) fail(p model.SearchProbe) {
	if b.above() != p.Rate {
		b.failures = slices.Insert(b.failures, 0, failed{rate: p.Rate})
	}
	b.failures[0].add(p.Generator)
}

func (f *failed) add(generator bool) {
	f.times++
	if generator {
		f.generator++
	}
}

// believed says that the lowest rate that failed did so often enough, or that
// this search has had probes enough to find out.
func (b *bisection) believed() bool {
	if len(b.failures) == 0 {
		return false
	}
	f := b.failures[0]
	return f.times >= b.tries(f.rate) || b.probes >= patience(b.Search)
}

func (b *bisection) tries(rate float64) int {
	if rate <= b.From {
		return lowestTries
	}
	return tries
}

// confirm counts a confirmation. Two failures in a row, or three in all, and it
// steps down: by the precision at first, and then by twice as much each time, so
// that a rate far too high is soon left.
func (b *bisection) confirm(held, generator bool) {
	c := &b.candidate
	if held {
		b.misses = 0
		if b.streak++; b.streak >= b.Confirmations {
			b.confirmed, b.over = c.rate, true
		}
		return
	}
	c.add(generator)
	b.misses++
	b.streak = 0
	if most := b.tries(c.rate); b.misses < most-1 && c.times < most {
		return
	}
	b.failures = slices.Insert(b.failures, 0, *c)
	if c.rate <= b.From {
		b.over = true
		return
	}
	b.misses = 0
	*c = failed{rate: max(b.From, round(c.rate/math.Pow(1+b.Precision, math.Exp2(float64(b.stepsDown)))))}
	b.stepsDown++
}

func (b *bisection) limit() model.SearchLimit {
	switch {
	case len(b.failures) == 0:
		return model.LimitRange
	case 2*b.failures[0].generator > b.failures[0].times:
		return model.LimitGenerator
	}
	return model.LimitSystem
}

// round keeps four digits: rates are read by people.
func round(rate float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(rate))-3)
	if unit >= 1 {
		return math.Round(rate/unit) * unit
	}
	return math.Round(rate*math.Round(1/unit)) / math.Round(1/unit)
}

// Expected is how many probes and confirmations a search has if each is right.
func Expected(s model.Search) (probes, confirmations int) {
	return halvings(s) + tries, s.Confirmations
}

// Most is how many probes and confirmations a search can have.
func Most(s model.Search) (probes, confirmations int) {
	return patience(s) + steps(s), s.Confirmations * (tries*steps(s) + lowestTries)
}

// patience is after how many probes a search takes failures as they are.
func patience(s model.Search) int { return tries*steps(s) + lowestTries }

// steps are the most rates on the way down, with both ends of the range.
func steps(s model.Search) int {
	const ends = 2
	return halvings(s) + ends
}

// halvings are needed until the range is as narrow as the precision asks.
func halvings(s model.Search) int {
	return max(0, int(math.Ceil(math.Log2(math.Log(s.To/s.From)/math.Log1p(s.Precision)))))
}
