package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestStudentQuantileMatchesTheTables(t *testing.T) {
	t.Parallel()
	for p, table := range map[float64]map[int]float64{
		0.80:  {1: 1.37638, 5: 0.919544, 9: 0.883404, 30: 0.853767},
		0.975: {1: 12.7062, 2: 4.30265, 5: 2.570582, 9: 2.262157, 10: 2.228139, 30: 2.042272, 120: 1.979930},
		0.999: {1: 318.3088, 2: 22.32712, 10: 4.143700},
	} {
		for df, want := range table {
			near(t, "t", StudentQuantile(p, df), want, 1e-5*want)
			near(t, "t", StudentQuantile(1-p, df), -want, 1e-5*want)
		}
	}
	near(t, "t with many degrees", StudentQuantile(0.975, 100_000), NormalQuantile(0.975), 1e-4)
	near(t, "median", StudentQuantile(0.5, 3), 0, 1e-12)
	near(t, "normal", NormalQuantile(0.975), 1.959963985, 1e-9)
	near(t, "normal there and back", normalCDF(NormalQuantile(0.123)), 0.123, 1e-12)
	if !math.IsInf(StudentQuantile(1, 3), 1) || !math.IsInf(StudentQuantile(0, 3), -1) {
		t.Error("the ends are infinite")
	}
	for _, bad := range []float64{-0.1, 1.1, math.NaN()} {
		if !math.IsNaN(StudentQuantile(bad, 3)) || !math.IsNaN(StudentQuantile(0.5, 0)) {
			t.Errorf("%v has a quantile", bad)
		}
	}
}

// What MinimumDetectable promises: 80 % power. The signed-rank interval has a
// little less than the t test that the formula is from.
func TestMinimumDetectableIsDetected(t *testing.T) {
	t.Parallel()
	const studies, blocks = 2000, 10
	effect := MinimumDetectable(math.Sqrt2, blocks)
	rng := rand.New(rand.NewPCG(21, 22))
	seen := 0
	for range studies {
		base, variant := arms(rng, blocks, effect)
		c, err := Paired(base, variant)
		if err != nil {
			t.Fatal(err)
		}
		if Judge(c, 0, false) == VerdictDifferent {
			seen++
		}
	}
	if share := float64(seen) / studies; share < 0.76 || share > 0.86 {
		t.Errorf("seen in %.3f", share)
	}
	if !math.IsInf(MinimumDetectable(1, 1), 1) {
		t.Error("one block detects nothing")
	}
}
