package stats

import (
	"errors"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

// enumeratedRankSumP is the definition: of all ways to split the values, the
// share whose rank sum is at least as far from its mean.
func enumeratedRankSumP(a, b []float64) float64 {
	all := slices.Concat(a, b)
	rank := make([]float64, len(all))
	for i, v := range all {
		for _, w := range all {
			switch {
			case w < v:
				rank[i]++
			case w == v:
				rank[i] += 0.5
			}
		}
		rank[i] += 0.5
	}
	sum := func(set int) (s float64) {
		for i, r := range rank {
			if set>>i&1 == 1 {
				s += r
			}
		}
		return s
	}
	mean := float64(len(a)) * float64(len(all)+1) / 2
	seen := math.Abs(sum(1<<len(a)-1) - mean)
	extreme, ways := 0, 0
	for set := range 1 << len(all) {
		if bits.OnesCount(uint(set)) != len(a) {
			continue
		}
		ways++
		if math.Abs(sum(set)-mean) >= seen-1e-9 {
			extreme++
		}
	}
	return float64(extreme) / float64(ways)
}

func TestRankSumPIsTheEnumeratedOne(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(71, 72))
	for n := 1; n <= 6; n++ {
		for m := 1; m <= 6; m++ {
			a, b, ta, tb := make([]float64, n), make([]float64, m), make([]float64, n), make([]float64, m)
			for i := range a {
				a[i], ta[i] = rng.NormFloat64(), float64(rng.IntN(4))
			}
			for i := range b {
				b[i], tb[i] = rng.NormFloat64()+1, float64(rng.IntN(4))+1
			}
			near(t, "p", RankSumP(a, b), enumeratedRankSumP(a, b), 1e-12)
			near(t, "p with ties", RankSumP(ta, tb), enumeratedRankSumP(ta, tb), 1e-12)
		}
	}
	near(t, "nothing", RankSumP(nil, []float64{1}), 1, 0)
	near(t, "six against six, apart", RankSumP([]float64{1, 2, 3, 4, 5, 6}, []float64{7, 8, 9, 10, 11, 12}), 2.0/924, 1e-12)
	near(t, "smallest", SmallestRankSumP(6, 6), 2.0/924, 1e-12)
	near(t, "smallest of 3 and 5", SmallestRankSumP(3, 5), 2.0/56, 1e-12)
}

// R: wilcox.test(x, y, alternative = "g") of its own example (Hollander and
// Wolfe 1973, permeability constants) gives W = 35, p = 0.1272; two-sided 0.2544.
func TestRankSumPKnownValue(t *testing.T) {
	t.Parallel()
	x := []float64{0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46}
	y := []float64{1.15, 0.88, 0.90, 0.74, 1.21}
	near(t, "permeability", RankSumP(x, y), 0.2544, 5e-5)
	near(t, "either way", RankSumP(y, x), 0.2544, 5e-5)
}

// Critical values of U at 5 %, two-sided (Mann and Whitney's table, as in Siegel
// 1956): U <= the value rejects. The interval begins one difference later.
func TestCriticalRankSumsMatchPublishedTables(t *testing.T) {
	t.Parallel()
	for _, tt := range [][3]int{{4, 4, 0}, {5, 5, 2}, {6, 6, 5}, {7, 7, 8}, {8, 8, 13}, {10, 10, 23}, {6, 10, 11}, {12, 12, 37}, {15, 15, 64}, {20, 20, 127}} {
		if got := criticalRankSum(tt[0], tt[1], 0.05) - 1; got != tt[2] {
			t.Errorf("%d and %d: critical value %d, want %d", tt[0], tt[1], got, tt[2])
		}
	}
	if got := criticalRankSum(3, 3, 0.05); got != 0 {
		t.Errorf("three and three have %d", got)
	}
	if a, b := criticalRankSum(25, 25, 0.05), criticalRankSum(26, 25, 0.05); b <= a || b > a+16 {
		t.Errorf("critical values %d for 25 and 25, %d for 26 and 25", a, b)
	}
}

func TestUnpairedCovers(t *testing.T) {
	t.Parallel()
	const studies, blocks, effect = 2000, 8, 1.2
	rng := rand.New(rand.NewPCG(73, 74))
	covered, ratios, falsely := 0, 0, 0
	for range studies {
		a, b, same := make([]float64, blocks), make([]float64, blocks), make([]float64, blocks)
		for i := range a {
			a[i], b[i], same[i] = 50*math.Exp(0.02*rng.NormFloat64()), 50*math.Exp(0.02*rng.NormFloat64()), 50*math.Exp(0.02*rng.NormFloat64())
			b[i] *= 1 + effect/50
		}
		c, err := Unpaired(a, b)
		if err != nil {
			t.Fatal(err)
		}
		if c.Difference.Lo <= effect && effect <= c.Difference.Hi {
			covered++
		}
		if truth := 1 + effect/50; c.Ratio.Lo <= truth && truth <= c.Ratio.Hi {
			ratios++
		}
		if RankSumP(a, same) <= 0.05 {
			falsely++
		}
	}
	for name, n := range map[string]int{"difference": covered, "ratio": ratios} {
		if share := float64(n) / studies; share < 0.94 {
			t.Errorf("the interval covers the %s in %.3f", name, share)
		}
	}
	if share := float64(falsely) / studies; share > 0.06 {
		t.Errorf("a difference where there is none in %.3f", share)
	}
}

func TestUnpairedEdges(t *testing.T) {
	t.Parallel()
	var few *TooFewError
	if _, err := Unpaired([]float64{1, 2, 3}, []float64{4, 5, 6}); !errors.As(err, &few) || few.Have != 3 {
		t.Errorf("three and three: %v", err)
	}
	if _, err := Unpaired([]float64{1, 2, math.NaN(), 3}, []float64{4, 5, 6, 7}); !errors.Is(err, ErrNotFinite) {
		t.Errorf("NaN: %v", err)
	}
	c, err := Unpaired([]float64{0, 1, 2, 3}, []float64{1, 2, 3, 4})
	if err != nil || c.NoRatio == nil || c.Ratio.N != 0 || c.Difference.Value != 1 {
		t.Errorf("a zero: %+v, %v", c, err)
	}
	big := func(at float64) []float64 {
		x := make([]float64, 40)
		for i := range x {
			x[i] = at + float64(i%10)/10
		}
		return x
	}
	c, err = Unpaired(big(5), big(7))
	if err != nil || c.P > 1e-9 || c.Difference.Value != 2 {
		t.Errorf("forty and forty: %+v, %v", c, err)
	}
	if p := RankSumP(big(5), big(5)); p < 0.9 {
		t.Errorf("the same forty twice: p %v", p)
	}
	if p := RankSumP(slices.Repeat([]float64{1}, 30), slices.Repeat([]float64{1}, 30)); p != 1 {
		t.Errorf("all equal: p %v", p)
	}
}

func TestBlocksFor(t *testing.T) {
	t.Parallel()
	n, ok := BlocksFor(0.02, 0.05, 0.05, 6, 1000)
	if !ok || MinimumDetectable(0.02, n) > 0.05 || n > 6 && MinimumDetectable(0.02, n-1) <= 0.05 {
		t.Errorf("%d blocks, %v", n, ok)
	}
	// However small the noise, signed ranks reach 0.05/16 with ten blocks only.
	if n, ok = BlocksFor(0, 0.05, 0.05/16, 6, 1000); n != 10 || !ok {
		t.Errorf("%d blocks without noise, %v", n, ok)
	}
	if _, ok = BlocksFor(1, 0.001, 0.05, 6, 100); ok {
		t.Error("a hundred blocks show anything")
	}
}
