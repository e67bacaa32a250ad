package stats

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

func TestPaired(t *testing.T) {
	t.Parallel()
	base := []float64{10, 11, 9, 10, 12, 8}
	double := []float64{20, 22, 18, 20, 24, 16}
	c, err := Paired(base, double)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "difference", c.Difference.Value, 10, 1e-12)
	near(t, "from", c.Difference.Lo, 8, 1e-12)
	near(t, "to", c.Difference.Hi, 12, 1e-12)
	near(t, "ratio", c.Ratio.Value, 2, 1e-12)
	near(t, "ratio from", c.Ratio.Lo, 2, 1e-12)
	near(t, "p", c.P, 2.0/64, 1e-12)
	near(t, "detectable", c.Detectable, (2.570582+0.919544)*math.Sqrt2/math.Sqrt(6), 1e-5)
	if c.Difference.Method == "" || c.Ratio.Method == c.Difference.Method || c.Ratio.N != 6 {
		t.Errorf("methods %q and %q", c.Difference.Method, c.Ratio.Method)
	}
}

func TestPairedSaysWhyNot(t *testing.T) {
	t.Parallel()
	one := []float64{1, 1, 1, 1, 1, 1}
	for _, zero := range []float64{0, -3} {
		c, err := Paired(one, []float64{1, 2, 1, zero, 1, 1})
		var reason *NotPositiveError
		if err != nil || c.Ratio.N != 0 || !errors.As(c.NoRatio, &reason) || reason.Block != 3 || reason.Variant != zero {
			t.Errorf("%v: %+v, %v", zero, c, err)
		}
	}
	if _, err := Paired(one, one[:5]); !errors.Is(err, ErrUnpaired) {
		t.Errorf("unpaired: %v", err)
	}
	if _, _, err := PairedRatio(one, one[:5]); !errors.Is(err, ErrUnpaired) {
		t.Errorf("unpaired: %v", err)
	}
	var few *TooFewError
	if _, err := Paired(one[:5], one[:5]); !errors.As(err, &few) || few.Need != 6 {
		t.Errorf("five blocks: %v", err)
	}
	if _, err := Paired(one, []float64{1, 1, 1, 1, 1, math.NaN()}); !errors.Is(err, ErrNotFinite) {
		t.Errorf("NaN: %v", err)
	}
	if c, err := Paired(one, one); err != nil || c.P != 1 || c.Difference.Value != 0 || c.Ratio.Value != 1 {
		t.Errorf("the same: %+v, %v", c, err)
	}
	wide := []float64{1e-300, 1, 1, 1, 1, 1e300}
	if e, _, err := PairedRatio(wide, []float64{1e300, 1, 1, 1, 1, 1e-300}); err != nil || math.IsNaN(e.Value) {
		t.Errorf("extremes: %+v, %v", e, err)
	}
}

// arms draws blocks whose own level varies far more than the trials within: the
// pairing takes it out again.
func arms(rng *rand.Rand, blocks int, effect float64) (base, variant []float64) {
	base, variant = make([]float64, blocks), make([]float64, blocks)
	for b := range blocks {
		level := 50 + 3*rng.NormFloat64()
		base[b] = level + rng.NormFloat64()
		variant[b] = level + effect + rng.NormFloat64()
	}
	return base, variant
}

func TestIntervalsCoverAndControlsDoNotDiffer(t *testing.T) {
	t.Parallel()
	const studies, effect = 2000, 0.7
	rng := rand.New(rand.NewPCG(1, 2))
	covered, ratios, falsely := 0, 0, 0
	for range studies {
		base, variant := arms(rng, 8, effect)
		c, err := Paired(base, variant)
		if err != nil {
			t.Fatal(err)
		}
		if c.Difference.Lo <= effect && effect <= c.Difference.Hi {
			covered++
		}
		if truth := 1 + effect/50; c.Ratio.Lo <= truth && truth <= c.Ratio.Hi {
			ratios++
		}
		base, control := arms(rng, 8, 0)
		aa, err := Paired(base, control)
		if err != nil {
			t.Fatal(err)
		}
		if Judge(aa, 0, false) == VerdictDifferent {
			falsely++
		}
	}
	if share := float64(covered) / studies; share < 0.945 {
		t.Errorf("the 95 %% interval covers the difference in %.3f", share)
	}
	if share := float64(ratios) / studies; share < 0.94 {
		t.Errorf("the 95 %% interval covers the ratio in %.3f", share)
	}
	if share := float64(falsely) / studies; share > 0.05 {
		t.Errorf("A/A shows a difference in %.3f", share)
	}
}

// The rule of docs/method.md: stop once the interval is narrow enough. Looking
// after every block costs some coverage; the page says how much.
func TestCoverageUnderTheStopRule(t *testing.T) {
	t.Parallel()
	const studies, effect, target = 2000, 0.7, 0.8
	rng := rand.New(rand.NewPCG(5, 6))
	covered, blocks := 0, 0
	for range studies {
		base, variant := arms(rng, 24, effect)
		n := 6
		e, _, err := PairedDifference(base[:n], variant[:n])
		for ; err == nil && n < 24 && (e.Hi-e.Lo)/2 > target; n++ {
			e, _, err = PairedDifference(base[:n+1], variant[:n+1])
		}
		if err != nil {
			t.Fatal(err)
		}
		blocks += n
		if e.Lo <= effect && effect <= e.Hi {
			covered++
		}
	}
	share := float64(covered) / studies
	t.Logf("covers in %.3f, after %.1f blocks on average", share, float64(blocks)/studies)
	if share < 0.92 {
		t.Errorf("under the stop rule the 95 %% interval covers in %.3f", share)
	}
}

func TestPairedBootstrap(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 8))
	base, variant := arms(rng, 25, 5)
	plain, err := Paired(base, variant)
	if err != nil {
		t.Fatal(err)
	}
	c, err := PairedBootstrap(base, variant, 1)
	if err != nil {
		t.Fatal(err)
	}
	again, err := PairedBootstrap(base, variant, 1)
	if err != nil || again != c {
		t.Errorf("the same seed gives %+v and %+v", c, again)
	}
	d, err := differences(base, variant)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "mean difference", c.Difference.Value, Mean(d), 1e-12)
	near(t, "from", c.Difference.Lo, plain.Difference.Lo, 0.5)
	near(t, "to", c.Difference.Hi, plain.Difference.Hi, 0.5)
	near(t, "ratio", c.Ratio.Value, 1.1, 0.02)
	if c.Difference.Method == plain.Difference.Method || c.Ratio.Method == plain.Ratio.Method {
		t.Errorf("the rule is not named: %q, %q", c.Difference.Method, c.Ratio.Method)
	}
	few, err := PairedBootstrap(base[:19], variant[:19], 1)
	if err != nil || few.Difference.Method != plain.Difference.Method {
		t.Errorf("19 blocks: %q, %v", few.Difference.Method, err)
	}
	variant[0] = 0
	if c, err = PairedBootstrap(base, variant, 1); err != nil || c.NoRatio == nil || c.Ratio.N != 0 {
		t.Errorf("a zero: %+v, %v", c, err)
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	shown := Estimate{Value: 5, Lo: 1, Hi: 9}
	tests := []struct {
		name       string
		d          Estimate
		p, floor   float64
		equivalent bool
		want       Verdict
	}{
		{"outside the floor", shown, 0.03, 4, false, VerdictDifferent},
		{"below", Estimate{Value: -5, Lo: -9, Hi: -1}, 0.03, 4, false, VerdictDifferent},
		{"inside the floor", shown, 0.03, 6, false, VerdictNone},
		{"holds zero", Estimate{Value: 5, Lo: -1, Hi: 9}, 0.2, 0, false, VerdictNone},
		{"lost to Holm", shown, 0.12, 0, false, VerdictNone},
		{"equivalent", Estimate{Value: 0, Lo: -1, Hi: 1}, 0.9, 0, true, VerdictEquivalent},
		{"inside the floor and equivalent", shown, 0.03, 6, true, VerdictEquivalent},
		{"different inside the margin", shown, 0.03, 0, true, VerdictDifferent},
	}
	for _, tt := range tests {
		if got := Judge(Comparison{Difference: tt.d, P: tt.p}, tt.floor, tt.equivalent); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	near(t, "floor", Floor(Estimate{Value: 1, Lo: -4, Hi: 6}), 6, 0)
	near(t, "floor below", Floor(Estimate{Value: -1, Lo: -4, Hi: 2}), 4, 0)
}

func TestTOST(t *testing.T) {
	t.Parallel()
	base := []float64{100, 101, 99, 100, 102, 98}
	times := func(f ...float64) []float64 {
		v := make([]float64, len(base))
		for i := range v {
			v[i] = base[i] * f[i%len(f)]
		}
		return v
	}
	tests := []struct {
		name    string
		variant []float64
		margin  float64
		want    bool
	}{
		{"the same", base, 0.05, true},
		{"within", times(1.01, 0.99), 0.05, true},
		{"4.9 % up", times(1.049), 0.05, true},
		{"5.1 % up", times(1.051), 0.05, false},
		{"4.7 % down, 1/1.05 is 0.952", times(0.953), 0.05, true},
		{"4.9 % down", times(0.951), 0.05, false},
		{"too scattered", times(1.2, 0.85), 0.05, false},
		{"no margin", base, 0, false},
		{"a negative margin", base, -2, false},
	}
	for _, tt := range tests {
		e, err := TOST(base, tt.variant, tt.margin)
		if err != nil || e.Equivalent != tt.want || Equivalent(base, tt.variant, tt.margin) != tt.want {
			t.Errorf("%s: %+v, %v", tt.name, e, err)
		}
	}
	if _, err := TOST(base[:4], base[:4], 0.05); err == nil || Equivalent(base[:4], base[:4], 0.05) {
		t.Error("four blocks show no equivalence")
	}
	if Equivalent(base, times(0), 0.05) {
		t.Error("zero is equivalent to nothing")
	}
	if e, err := TOST(base, base, 0.05); err != nil || e.Ratio.Level < 0.899 || e.Ratio.Level > 0.901 {
		t.Errorf("the level is %v, %v", e.Ratio.Level, err)
	}
}

// On the edge of the margin, equivalence may be claimed in 5 % at most.
func TestTOSTErrsAtMostInFivePercent(t *testing.T) {
	t.Parallel()
	const studies, margin = 3000, 0.05
	rng := rand.New(rand.NewPCG(11, 12))
	claimed := 0
	for range studies {
		base, variant := make([]float64, 10), make([]float64, 10)
		for i := range base {
			base[i] = 100 * math.Exp(0.02*rng.NormFloat64())
			variant[i] = 100 * (1 + margin) * math.Exp(0.02*rng.NormFloat64())
		}
		if Equivalent(base, variant, margin) {
			claimed++
		}
	}
	if share := float64(claimed) / studies; share > 0.058 || share < 0.02 {
		t.Errorf("equivalence is claimed on the edge in %.3f", share)
	}
}
