package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

// ChangePoint is where a series changes: At is the index of the first value of
// the new level. P is the permutation test's p-value.
type ChangePoint struct {
	At int
	P  float64
}

// EDivisive are the settings of ChangePoints; the zero value takes defaults.
type EDivisive struct {
	// MinSegment is the fewest values between two change points; default 3.
	MinSegment int
	// Permutations is how many random orders a change is held against; default 999.
	Permutations int
	// Alpha is the largest p-value of a change point; default 5 %.
	Alpha float64
	Seed  uint64
}

func (s EDivisive) defaults() EDivisive {
	if s.MinSegment < 2 {
		s.MinSegment = 3
	}
	if s.Permutations < 1 {
		s.Permutations = 999
	}
	if s.Alpha <= 0 {
		s.Alpha = 1 - Level
	}
	return s
}

// ChangePoints divides a series where its distribution changes, by E-divisive
// (Matteson and James 2014) with the exponent 1: the division with the largest
// energy distance between both sides is kept if it is larger than in all but
// Alpha of random orders within the segments found so far, and so on until one
// is not. The same series and seed always give the same points, in order of time.
func ChangePoints(x []float64, s EDivisive) ([]ChangePoint, error) {
	if err := finite(x); err != nil {
		return nil, err
	}
	s = s.defaults()
	rng := generator(s.Seed)
	var found []ChangePoint
	for {
		bounds := segments(found, len(x))
		best := bestDivision(x, bounds, s.MinSegment)
		if best.at < 0 || best.q <= 0 {
			return found, nil
		}
		p := s.permute(x, bounds, best.q, rng)
		if p > s.Alpha {
			return found, nil
		}
		found = append(found, ChangePoint{At: best.at, P: p})
		slices.SortFunc(found, func(a, b ChangePoint) int { return a.At - b.At })
	}
}

// segments are the bounds of the parts between change points, with both ends.
func segments(found []ChangePoint, n int) []int {
	bounds := []int{0}
	for _, c := range found {
		bounds = append(bounds, c.At)
	}
	return append(bounds, n)
}

// permute is the share of random orders within the segments, the one at hand
// among them, that divide as well.
func (s EDivisive) permute(x []float64, bounds []int, q float64, rng *rand.Rand) float64 {
	y := slices.Clone(x)
	least := 1.0
	most := s.Alpha * float64(s.Permutations+1) // beyond, the outcome is certain
	for range s.Permutations {
		for i := range len(bounds) - 1 {
			part := y[bounds[i]:bounds[i+1]]
			rng.Shuffle(len(part), func(a, b int) { part[a], part[b] = part[b], part[a] })
		}
		if bestDivision(y, bounds, s.MinSegment).q >= q*(1-1e-12) {
			least++
		}
		if least > most {
			break
		}
	}
	return least / float64(s.Permutations+1)
}

type division struct {
	at int // -1: there is none
	q  float64
}

func bestDivision(x []float64, bounds []int, fewest int) division {
	best := division{at: -1}
	for i := range len(bounds) - 1 {
		d := divide(x[bounds[i]:bounds[i+1]], fewest)
		if d.at >= 0 && (best.at < 0 || d.q > best.q) {
			best = division{at: d.at + bounds[i], q: d.q}
		}
	}
	return best
}

// divide finds where a segment divides best: over all at and ends, at being the
// first of the right side and end what follows its last, the scaled energy
// distance q = nm/(n+m) (2 between - within left - within right). Sums of
// distances are kept so that each costs a constant time.
func divide(x []float64, fewest int) division {
	n := len(x)
	best := division{at: -1}
	if n < 2*fewest {
		return best
	}
	sums := distances(x)
	for at := fewest; at <= n-fewest; at++ {
		left := float64(at)
		inLeft := sums.within(0, at)
		for end := at + fewest; end <= n; end++ {
			right := float64(end - at)
			inRight := sums.within(at, end)
			between := sums.within(0, end) - inLeft - inRight
			e := 2*between/(left*right) - 2*inLeft/(left*(left-1)) - 2*inRight/(right*(right-1))
			if q := left * right / (left + right) * e; best.at < 0 || q > best.q {
				best = division{at: at, q: q}
			}
		}
	}
	return best
}

// distanceSums holds sums of distances over rectangles that begin at 0, 0.
type distanceSums struct {
	n   int
	sum []float64
}

func distances(x []float64) distanceSums {
	s := distanceSums{n: len(x) + 1}
	s.sum = make([]float64, s.n*s.n)
	for i := range x {
		row := 0.0
		for j := range x {
			row += math.Abs(x[i] - x[j])
			s.sum[(i+1)*s.n+j+1] = s.sum[i*s.n+j+1] + row
		}
	}
	return s
}

// within is the sum of the distances of all pairs from one index to before
// another.
func (s distanceSums) within(from, to int) float64 {
	at := func(i, j int) float64 { return s.sum[i*s.n+j] }
	return (at(to, to) - at(from, to) - at(to, from) + at(from, from)) / 2
}
