package stats

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// enumeratedP is the definition: of all ways to give the magnitudes signs, the
// share whose rank sum is at least as far from its mean as the one at hand.
func enumeratedP(x []float64) float64 {
	var d []float64
	for _, v := range x {
		if v != 0 {
			d = append(d, v)
		}
	}
	rank := make([]float64, len(d))
	for i, v := range d {
		for _, w := range d {
			switch {
			case math.Abs(w) < math.Abs(v):
				rank[i]++
			case math.Abs(w) == math.Abs(v):
				rank[i] += 0.5
			}
		}
		rank[i] += 0.5
	}
	mean, seen := 0.0, 0.0
	for i, r := range rank {
		mean += r / 2
		if d[i] > 0 {
			seen += r
		}
	}
	extreme := 0
	for signs := range 1 << len(d) {
		sum := 0.0
		for i, r := range rank {
			if signs>>i&1 == 1 {
				sum += r
			}
		}
		if math.Abs(sum-mean) >= math.Abs(seen-mean)-1e-9 {
			extreme++
		}
	}
	return float64(extreme) / float64(int(1)<<len(d))
}

func TestSignedRankPIsTheEnumeratedOne(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	for n := 1; n <= 13; n++ {
		for range 6 {
			exact, tied := make([]float64, n), make([]float64, n)
			for i := range exact {
				exact[i] = rng.NormFloat64() + 0.5
				tied[i] = float64(rng.IntN(7) - 2) // ties and zeros
			}
			near(t, "p", SignedRankP(exact), enumeratedP(exact), 1e-12)
			near(t, "p with ties", SignedRankP(tied), enumeratedP(tied), 1e-12)
		}
	}
}

func TestSignedRankPKnownValues(t *testing.T) {
	t.Parallel()
	// R: wilcox.test(x, y, paired = TRUE) of its own example (Hollander and
	// Wolfe 1973, depression scores) gives V = 40, p = 0.0390625.
	before := []float64{1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30}
	after := []float64{0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29}
	_, p, err := PairedDifference(before, after)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "depression scores", p, 0.0390625, 1e-12)
	near(t, "all of six positive", SignedRankP([]float64{1, 2, 3, 4, 5, 6}), 2.0/64, 1e-12)
	near(t, "zeros are dropped", SignedRankP([]float64{0, 1, 2, 3, 4, 5, 6}), 2.0/64, 1e-12)
	near(t, "six equal: never under the smallest possible", SignedRankP([]float64{5, 5, 5, 5, 5, 5}), 2.0/64, 1e-12)
	near(t, "only zeros", SignedRankP([]float64{0, 0}), 1, 0)
	near(t, "nothing", SignedRankP(nil), 1, 0)
}

func TestNormalApproximationJoinsTheExactDistribution(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 1))
	x := make([]float64, exactUpTo+1)
	for range 20 {
		for i := range x {
			x[i] = rng.NormFloat64() + 0.3
		}
		ranks, plus, _ := signedRanks(slices.Clone(x))
		cdf := rankSumCDF(ranks)
		exact := min(1, 2*cdf[min(plus, len(cdf)-1-plus)])
		near(t, "p", SignedRankP(x), exact, 0.005)
	}
	if got := SignedRankP(slices.Repeat([]float64{2}, 60)); got > 1e-9 {
		t.Errorf("sixty equal values: p %v", got)
	}
	if got := SignedRankP(slices.Repeat([]float64{2, -2}, 30)); got < 0.9 {
		t.Errorf("thirty each way: p %v", got)
	}
	// Table values of n(n+1)/4 - 1.96 sd; 434 is that of n = 50 (Wilcoxon 1964).
	if a, b := criticalRank(50, 0.05), criticalRank(51, 0.05); a-1 != 434 || b-1 < 446 || b-1 > 466 {
		t.Errorf("critical values %d for 50 and %d for 51", a-1, b-1)
	}
}

// Critical values of the two-sided tests: W <= the table's value rejects
// (Wilcoxon, Katti and Wilcox 1970). The interval begins one Walsh average later.
func TestCriticalRanksMatchPublishedTables(t *testing.T) {
	t.Parallel()
	for alpha, table := range map[float64]map[int]int{
		0.05: {6: 0, 7: 2, 8: 3, 9: 5, 10: 8, 11: 10, 12: 13, 13: 17, 14: 21, 15: 25, 16: 29, 17: 34, 18: 40, 19: 46, 20: 52, 25: 89, 30: 137, 40: 264, 50: 434},
		0.10: {5: 0, 6: 2, 7: 3, 8: 5, 9: 8, 10: 10, 11: 13, 12: 17, 13: 21, 14: 25, 15: 30, 16: 35, 17: 41, 18: 47, 19: 53, 20: 60},
		0.01: {8: 0, 9: 1, 10: 3, 11: 5, 12: 7, 13: 9, 14: 12, 15: 15, 16: 19, 17: 23, 18: 27, 19: 32, 20: 37},
	} {
		for n, w := range table {
			if got := criticalRank(n, alpha) - 1; got != w {
				t.Errorf("alpha %v, n %d: critical value %d, want %d", alpha, n, got, w)
			}
		}
	}
}

func TestSignedRankSaysHowManyBlocksItNeeds(t *testing.T) {
	t.Parallel()
	for level, need := range map[float64]int{0.90: 5, 0.95: 6, 0.99: 8} {
		x := make([]float64, need)
		for i := range x {
			x[i] = float64(i * i)
		}
		var few *TooFewError
		if _, err := SignedRank(x[:need-1], level); !errors.As(err, &few) || few.Need != need || few.Have != need-1 {
			t.Errorf("level %v with %d: %v", level, need-1, err)
		}
		if e, err := SignedRank(x, level); err != nil || e.Lo != x[0] || e.Hi != x[need-1] || e.N != need || e.Level != level {
			t.Errorf("level %v with %d: %+v, %v", level, need, e, err)
		}
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1)} {
		if _, err := SignedRank([]float64{1, 2, 3, 4, 5, 6, bad}, Level); !errors.Is(err, ErrNotFinite) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func TestHodgesLehmann(t *testing.T) {
	t.Parallel()
	near(t, "three", HodgesLehmann([]float64{1, 2, 6}), 2.75, 1e-12) // of 1, 1.5, 2, 3.5, 4, 6
	near(t, "an outlier", HodgesLehmann([]float64{1, 2, 3, 4, 5, 1e9}), 3.75, 1)
	e, err := SignedRank([]float64{6, 1, 5, 2, 4, 3, 7}, Level)
	if err != nil {
		t.Fatal(err)
	}
	// Seven values: from the third Walsh average (1, 1.5, 2) to the third last.
	near(t, "value", e.Value, 4, 1e-12)
	near(t, "lo", e.Lo, 2, 1e-12)
	near(t, "hi", e.Hi, 6, 1e-12)
}
