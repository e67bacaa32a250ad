package search

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/windtunnel/windtunnel/internal/model"
)

func wide() model.Search {
	return model.Search{From: 100, To: 100_000, Precision: 0.05, Confirmations: 2}
}

// system says what comes of a rate.
type system func(rate float64, confirm bool) model.SearchProbe

func run(t *testing.T, s model.Search, try system) model.SearchResult {
	t.Helper()
	var done []model.SearchProbe
	probes, confirmations := Most(s)
	for {
		step := Next(s, done)
		if step.Rate == 0 {
			return step.Result
		}
		if step.Rate < s.From || step.Rate > s.To {
			t.Fatalf("tries %g, outside of %g to %g", step.Rate, s.From, s.To)
		}
		p := try(step.Rate, step.Confirm)
		p.Rate, p.Confirms = step.Rate, step.Confirm
		if step.Confirm {
			confirmations--
		} else {
			probes--
		}
		if probes < 0 || confirmations < 0 {
			t.Fatalf("more probes than Most says: %+v", done)
		}
		done = append(done, p)
	}
}

func below(limit float64) system {
	return func(rate float64, _ bool) model.SearchProbe { return model.SearchProbe{Held: rate <= limit} }
}

// A system with a sharp limit: found to within the precision, wherever it is.
func TestSharpLimit(t *testing.T) {
	t.Parallel()
	for limit := 100.0; limit < 99_000; limit *= 1.37 {
		r := run(t, wide(), below(limit))
		if r.Highest > limit || r.Highest < limit/1.06 || r.Limit != model.LimitSystem || r.Above <= limit || r.Above > r.Highest*1.06 {
			t.Errorf("limit %g: %g holds, %g does not, because of %s", limit, r.Highest, r.Above, r.Limit)
		}
		probes, confirmations := Expected(wide())
		if len(r.Probes) > probes+confirmations+1 {
			t.Errorf("limit %g: %d probes, %d and %d were expected", limit, len(r.Probes), probes, confirmations)
		}
	}
}

func TestEdges(t *testing.T) {
	t.Parallel()
	if r := run(t, wide(), below(99)); r.Highest != 0 || r.Above != 100 || r.Limit != model.LimitSystem {
		t.Errorf("never holds: %+v", r)
	}
	if r := run(t, wide(), below(1e9)); r.Highest != 100_000 || r.Above != 0 || r.Limit != model.LimitRange {
		t.Errorf("always holds: %+v", r)
	}
	narrow := model.Search{From: 1000, To: 1010, Precision: 0.05, Confirmations: 1}
	if r := run(t, narrow, below(1e9)); r.Highest != 1010 || len(r.Probes) != 3 {
		t.Errorf("narrow: %+v", r)
	}
	if r := run(t, narrow, below(1005)); r.Highest != 1000 || r.Above != 1010 {
		t.Errorf("narrow: %+v", r)
	}
}

// Short probes hold more than the system does: the confirmations find it out.
func TestStepsDown(t *testing.T) {
	t.Parallel()
	for _, factor := range []float64{1.03, 1.3, 3, 50} {
		r := run(t, wide(), func(rate float64, confirm bool) model.SearchProbe {
			limit := 2000.0
			if !confirm {
				limit *= factor
			}
			return model.SearchProbe{Held: rate <= limit}
		})
		if r.Highest > 2000 || r.Highest < 100 || r.Above <= 2000 {
			t.Errorf("factor %g: %g holds, %g does not", factor, r.Highest, r.Above)
		}
	}
	r := run(t, wide(), func(_ float64, confirm bool) model.SearchProbe { return model.SearchProbe{Held: !confirm} })
	if r.Highest != 0 || r.Above != 100 {
		t.Errorf("never confirmed: %+v", r)
	}
}

func TestGeneratorLimit(t *testing.T) {
	t.Parallel()
	limited := func(limit float64) system {
		return func(rate float64, _ bool) model.SearchProbe {
			return model.SearchProbe{Held: rate <= limit, Generator: rate > limit}
		}
	}
	if r := run(t, wide(), limited(5000)); r.Highest > 5000 || r.Highest < 4700 || r.Limit != model.LimitGenerator {
		t.Errorf("the generator's limit: %g, %s", r.Highest, r.Limit)
	}
	// Below it the system has a limit of its own.
	r := run(t, wide(), func(rate float64, _ bool) model.SearchProbe {
		return model.SearchProbe{Held: rate <= 2000, Generator: rate > 5000}
	})
	if r.Highest > 2000 || r.Highest < 1900 || r.Limit != model.LimitSystem {
		t.Errorf("the system's limit below the generator's: %g, %s", r.Highest, r.Limit)
	}
	// One hiccup is tried again.
	hiccup := false
	r = run(t, wide(), func(rate float64, _ bool) model.SearchProbe {
		p := model.SearchProbe{Held: rate <= 2000, Generator: !hiccup}
		hiccup = true
		return p
	})
	if r.Highest > 2000 || r.Highest < 1900 || r.Limit != model.LimitSystem {
		t.Errorf("after a hiccup: %g, %s", r.Highest, r.Limit)
	}
}

// A system that holds with a probability that falls around its limit: a rate
// was confirmed as often as was asked for, and most searches end near.
func TestNoisy(t *testing.T) {
	t.Parallel()
	near := 0
	const searches = 500
	for seed := range uint64(searches) {
		random := rand.New(rand.NewPCG(seed, 1))
		r := run(t, wide(), func(rate float64, _ bool) model.SearchProbe {
			chance := 1 / (1 + math.Pow(rate/8000, 30))
			return model.SearchProbe{Held: random.Float64() < chance}
		})
		n := len(r.Probes)
		for _, p := range r.Probes[max(0, n-2):] {
			if r.Highest > 0 && (!p.Held || !p.Confirms || p.Rate != r.Highest) {
				t.Fatalf("seed %d: not confirmed: %+v", seed, r)
			}
		}
		if r.Highest > 8000*0.85 && r.Highest < 8000*1.1 {
			near++
		}
	}
	if near < searches*8/10 {
		t.Errorf("%d of %d searches ended near the limit", near, searches)
	}
}

// A tenth of all steps fail because of something else, some for the generator:
// what is found is the limit all the same, to within the precision.
func TestDisturbed(t *testing.T) {
	t.Parallel()
	const limit, searches = 8000.0, 1000
	for _, s := range []model.Search{
		{From: 100, To: 100_000, Precision: 0.05, Confirmations: 1},
		{From: 100, To: 100_000, Precision: 0.05, Confirmations: 2},
		{From: 100, To: 50_000, Precision: 0.25, Confirmations: 1},
		{From: 7900, To: 8200, Precision: 0.01, Confirmations: 2},
		{From: 1000, To: 7000, Precision: 0.05, Confirmations: 2}, // all hold
	} {
		found, most := 0, 0
		for seed := range uint64(searches) {
			random := rand.New(rand.NewPCG(seed, 2))
			r := run(t, s, func(rate float64, _ bool) model.SearchProbe {
				disturbed := random.Float64() < 0.1
				return model.SearchProbe{Held: rate <= limit && !disturbed, Generator: disturbed && random.Float64() < 0.5}
			})
			if r.Highest > limit {
				t.Fatalf("%+v, seed %d: %g/s holds", s, seed, r.Highest)
			}
			most = max(most, len(r.Probes))
			const rounding = 1.001
			if r.Highest*(1+s.Precision)*rounding >= min(limit, s.To) {
				found++
			}
		}
		if found < searches*95/100 {
			t.Errorf("%+v: %d of %d searches found the limit; the longest had %d probes", s, found, searches, most)
		}
	}
}

// Everything fails for a while: the search is not over with the first failure
// at the lowest rate, and comes back up.
func TestComesBackUp(t *testing.T) {
	t.Parallel()
	n := 0
	r := run(t, wide(), func(rate float64, _ bool) model.SearchProbe {
		n++
		return model.SearchProbe{Held: rate <= 8000 && n > 12}
	})
	if r.Highest > 8000 || r.Highest < 7500 {
		t.Errorf("%g holds: %+v", r.Highest, r.Probes)
	}
}

// Whatever comes of its probes, a search ends.
func FuzzEnds(f *testing.F) {
	f.Add([]byte{0, 1, 2}, 0.05, uint8(1))
	f.Add([]byte{1, 1, 1, 0, 0}, 0.25, uint8(3))
	f.Add([]byte("00001111111100000"), 0.00926, uint8(0))
	f.Fuzz(func(t *testing.T, outcomes []byte, precision float64, confirmations uint8) {
		if len(outcomes) == 0 || !(precision >= 0.005 && precision <= 0.5) {
			t.Skip()
		}
		s := model.Search{From: 100, To: 100_000, Precision: precision, Confirmations: 1 + int(confirmations%10)}
		n := 0
		r := run(t, s, func(float64, bool) model.SearchProbe {
			o := outcomes[n%len(outcomes)] % 3
			n++
			return model.SearchProbe{Held: o == 1, Generator: o == 2}
		})
		if r.Highest > 0 && r.Above > 0 && r.Above <= r.Highest {
			t.Errorf("%g holds, %g does not", r.Highest, r.Above)
		}
	})
}

func TestSameHistorySameStep(t *testing.T) {
	t.Parallel()
	a := fmt.Sprint(run(t, wide(), below(777)))
	if b := fmt.Sprint(run(t, wide(), below(777))); a != b {
		t.Errorf("%s\n%s", a, b)
	}
}

func TestRound(t *testing.T) {
	t.Parallel()
	for rate, want := range map[float64]float64{3162.2776: 3162, 31622.776: 31620, 0.12345: 0.1235, 1: 1, 999.96: 1000, 100: 100} {
		if got := round(rate); got != want {
			t.Errorf("%g: got %g, want %g", rate, got, want)
		}
	}
}
