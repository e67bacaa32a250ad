// Package search finds the highest rate at which a system holds its
// objectives, by bisection with confirmation. It decides only what to try
// next: the same history always gives the same answer, and what runs the loads
// is somewhere else.
//
// Rates are bisected on a logarithmic scale, as capacity is not known to within
// a factor of ten. One probe is short and may be wrong in either direction, so
// the rate that was found must then hold several times in a row for the load's
// whole duration; where it does not, the search steps down and tries again. A
// probe that the load generator could not deliver is tried once more; if it
// fails again, that rate is a limit, but the generator's and not the system's.
package search

import (
	"math"

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
	return Step{Result: model.SearchResult{Highest: b.confirmed, Above: b.fails, Limit: b.limit(), Probes: done}}
}

// bisection is the state of a search, after each probe.
type bisection struct {
	model.Search
	holds, fails float64 // the highest rate that held, the lowest that did not; 0: none yet
	generator    bool    // that rate did not hold because of the load generator
	again        float64 // rate to be tried once more, after a failure of the generator
	confirming   bool
	candidate    float64 // to be confirmed
	streak       int     // confirmations in a row
	stepsDown    int
	confirmed    float64
	over         bool
}

// next is the rate to try; 0: the search is over.
func (b *bisection) next() float64 {
	switch {
	case b.over:
		return 0
	case b.again > 0:
		return b.again
	case b.confirming:
		return b.candidate
	}
	low, high := b.holds, b.fails
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
		return b.To // nothing has failed: anything else is being confirmed
	}
}

// add takes in what came of the rate that next gave.
func (b *bisection) add(p model.SearchProbe) {
	if p.Generator && b.again == 0 {
		b.again = p.Rate
		return
	}
	b.again = 0
	held := p.Held && !p.Generator
	if !held {
		b.fails, b.generator = p.Rate, p.Generator
	}
	if b.confirming {
		b.confirm(held)
		return
	}
	switch {
	case held:
		b.holds = p.Rate
	case p.Rate <= b.From:
		b.over = true
	}
	if b.holds > 0 && (b.holds >= b.To || b.fails > 0 && b.fails/b.holds <= 1+b.Precision) {
		b.confirming, b.candidate = true, b.holds
	}
}

// confirm counts a confirmation, or steps down: by the precision at first, and
// then by twice as much each time, so that a rate far too high is soon left.
func (b *bisection) confirm(held bool) {
	if held {
		if b.streak++; b.streak >= b.Confirmations {
			b.confirmed, b.over = b.candidate, true
		}
		return
	}
	if b.candidate <= b.From {
		b.over = true
		return
	}
	b.streak = 0
	b.candidate = max(b.From, round(b.candidate/math.Pow(1+b.Precision, math.Exp2(float64(b.stepsDown)))))
	b.stepsDown++
}

func (b *bisection) limit() model.SearchLimit {
	switch {
	case b.fails == 0:
		return model.LimitRange
	case b.generator:
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
	return halvings(s) + 1, s.Confirmations
}

// Most is how many probes and confirmations a search can have.
func Most(s model.Search) (probes, confirmations int) {
	const tries, edges = 2, 2
	steps := halvings(s) + edges
	return tries * steps, tries * s.Confirmations * steps
}

// halvings are needed until the range is as narrow as the precision asks.
func halvings(s model.Search) int {
	return max(0, int(math.Ceil(math.Log2(math.Log(s.To/s.From)/math.Log1p(s.Precision)))))
}
