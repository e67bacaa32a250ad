package stats

import (
	"math"
	"testing"
)

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

// The second and third are from R: p.adjust(p, "holm").
func TestHolm(t *testing.T) {
	t.Parallel()
	tests := []struct{ p, want []float64 }{
		{nil, nil},
		{[]float64{0.01, 0.04, 0.03, 0.005}, []float64{0.03, 0.06, 0.06, 0.02}},
		{[]float64{0.01, 0.02, 0.03, 0.04, 0.05}, []float64{0.05, 0.08, 0.09, 0.09, 0.09}},
		{[]float64{0.9, 0.6}, []float64{1, 1}},
		{[]float64{0.04}, []float64{0.04}},
	}
	for _, tt := range tests {
		got := Holm(tt.p)
		if len(got) != len(tt.want) {
			t.Fatalf("%v gives %v", tt.p, got)
		}
		for i := range got {
			near(t, "p", got[i], tt.want[i], 1e-12)
		}
	}
}

func TestSampleSizeRules(t *testing.T) {
	t.Parallel()
	near(t, "all good of 3,000", RuleOfThree(3000), 0.999, 1e-12)
	near(t, "all good of 2", RuleOfThree(2), 0, 0)
	// The rule approximates the exact bound, the n-th root of 0.05.
	near(t, "all good of 1,000", RuleOfThree(1000), math.Pow(0.05, 1.0/1000), 1e-4)
	for _, tt := range []struct {
		n    uint64
		q    float64
		want bool
	}{
		{1000, 0.99, true},
		{999, 0.99, false},
		{10_000, 0.999, true},
		{9_999, 0.999, false},
		{20, 0.5, true},
		{19, 0.5, false},
		{100_000, 0.9999, true},
		{1 << 40, 1, false},
	} {
		if got := QuantileAllowed(tt.n, tt.q); got != tt.want {
			t.Errorf("%d samples for %v: %v", tt.n, tt.q, got)
		}
	}
}

func TestMeanAndStdDev(t *testing.T) {
	t.Parallel()
	near(t, "mean", Mean([]float64{1, 2, 6}), 3, 1e-12)
	near(t, "sd", StdDev([]float64{2, 4, 4, 4, 5, 5, 7, 9}), math.Sqrt(32.0/7), 1e-12)
	near(t, "sd of one", StdDev([]float64{3}), 0, 0)
	if !math.IsNaN(Mean(nil)) || !math.IsNaN(HodgesLehmann(nil)) {
		t.Error("nothing has a mean")
	}
}
