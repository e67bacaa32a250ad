package stats

import (
	"errors"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"
)

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if math.Abs(got-want) > tol {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

func TestSignedRankDistributionCountsSubsets(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 12; n++ {
		counts := make([]float64, n*(n+1)/2+1)
		for set := range uint(1) << n {
			sum := 0
			for s := set; s != 0; s &= s - 1 {
				sum += bits.TrailingZeros(s) + 1
			}
			counts[sum]++
		}
		cum := 0.0
		for w, p := range signedRankCDF(n) {
			cum += counts[w]
			near(t, "CDF", p, cum/math.Exp2(float64(n)), 1e-12)
		}
	}
}

// Critical values of the two-sided 5 % test: W <= table value rejects. The
// interval uses the Walsh averages of rank value+1.
func TestCriticalRanksMatchPublishedTables(t *testing.T) {
	t.Parallel()
	table := map[int]int{6: 0, 7: 2, 8: 3, 9: 5, 10: 8, 11: 10, 12: 13, 13: 17, 14: 21, 15: 25, 20: 52, 25: 89, 30: 137}
	for n, w := range table {
		if got := criticalRank(n, 0.05) - 1; got != w {
			t.Errorf("n=%d: critical W %d, want %d", n, got, w)
		}
	}
	if criticalRank(5, 0.05) != 0 {
		t.Error("five blocks cannot give a 95 % interval")
	}
}

func TestSignedRankNeedsSix(t *testing.T) {
	t.Parallel()
	_, err := SignedRank([]float64{1, 2, 3, 4, 5}, 0.95)
	if !errors.Is(err, ErrTooFew) {
		t.Fatalf("got %v", err)
	}
	e, err := SignedRank([]float64{6, 1, 5, 2, 4, 3}, 0.95)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "value", e.Value, 3.5, 1e-12)
	near(t, "lo", e.Lo, 1, 1e-12)
	near(t, "hi", e.Hi, 6, 1e-12)
}

// Values from R: wilcox.test(c(1.1,2.2,0.3,-0.4,5), exact=TRUE) and others,
// re-derived by enumeration.
func TestSignedRankP(t *testing.T) {
	t.Parallel()
	near(t, "all positive, n=6", SignedRankP([]float64{1, 2, 3, 4, 5, 6}), 2.0/64, 1e-12)
	near(t, "one small negative, n=6", SignedRankP([]float64{-1, 2, 3, 4, 5, 6}), 4.0/64, 1e-12)
	near(t, "zeros are dropped", SignedRankP([]float64{0, 1, 2, 3, 4, 5, 6}), 2.0/64, 1e-12)
	near(t, "nothing", SignedRankP([]float64{0, 0}), 1, 0)
	near(t, "ties", SignedRankP([]float64{1, 1, 1, 1, 1, -1}), math.Erfc((7-0.5)/math.Sqrt(6*7*13/24.0-210/48.0)/math.Sqrt2), 1e-9)
}

func TestHolm(t *testing.T) {
	t.Parallel()
	got := Holm([]float64{0.01, 0.04, 0.03, 0.005})
	for i, want := range []float64{0.03, 0.06, 0.06, 0.02} {
		near(t, "p", got[i], want, 1e-12)
	}
}

func TestStudentT(t *testing.T) {
	t.Parallel()
	for df, want := range map[int]float64{1: 12.7062, 2: 4.30265, 5: 2.57058, 9: 2.26216, 10: 2.22814, 30: 2.04227} {
		near(t, "t", tQuantile(0.975, df), want, 1e-4)
	}
}

func TestIntervalsCover(t *testing.T) {
	t.Parallel()
	const studies, blocks, effect = 3000, 8, 0.7
	rng := rand.New(rand.NewPCG(1, 2))
	covered, falsely := 0, 0
	for range studies {
		base, variant, control := make([]float64, blocks), make([]float64, blocks), make([]float64, blocks)
		for b := range blocks {
			shared := rng.NormFloat64() * 3 // the block's own level: pairing removes it
			base[b] = 50 + shared + rng.NormFloat64()
			variant[b] = 50 + shared + effect + rng.NormFloat64()
			control[b] = 50 + shared + rng.NormFloat64()
		}
		c, err := Paired(base, variant)
		if err != nil {
			t.Fatal(err)
		}
		if c.Difference.Lo <= effect && effect <= c.Difference.Hi {
			covered++
		}
		aa, _ := Paired(base, control)
		if aa.Difference.Lo > 0 || aa.Difference.Hi < 0 {
			falsely++
		}
	}
	if share := float64(covered) / studies; share < 0.94 {
		t.Errorf("the 95 %% interval covers %.3f", share)
	}
	if share := float64(falsely) / studies; share > 0.06 {
		t.Errorf("A/A shows a difference in %.3f", share)
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	if Shown(Estimate{Value: 5, Lo: 1, Hi: 9}, 6) {
		t.Error("an effect inside the noise floor is none")
	}
	if !Shown(Estimate{Value: 5, Lo: 1, Hi: 9}, 4) || Shown(Estimate{Value: 5, Lo: -1, Hi: 9}, 0) {
		t.Error("the interval decides outside the floor")
	}
	base := []float64{100, 101, 99, 100, 102, 98}
	if !Equivalent(base, []float64{101, 100, 100, 101, 101, 99}, 0.05) || Equivalent(base, []float64{110, 111, 109, 112, 113, 108}, 0.05) {
		t.Error("equivalence must hold inside the margin only")
	}
}

func TestMSER5(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	flat, ramp, warm := make([]float64, 100), make([]float64, 100), make([]float64, 100)
	for i := range flat {
		flat[i] = 10 + rng.NormFloat64()
		ramp[i] = float64(i) + rng.NormFloat64()
		warm[i] = 10 + rng.NormFloat64()
		if i < 20 {
			warm[i] += 100
		}
	}
	if _, ok := MSER5(flat); !ok {
		t.Error("a flat series is settled")
	}
	if _, ok := MSER5(ramp); ok {
		t.Error("a ramp is not settled")
	}
	if cut, ok := MSER5(warm); !ok || cut != 20 {
		t.Errorf("cut %d, settled %v", cut, ok)
	}
}
