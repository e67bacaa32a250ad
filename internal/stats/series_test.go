package stats

import (
	"math/rand/v2"
	"testing"
)

func TestMSER5(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	series := func(n int, at func(i int) float64) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = at(i) + rng.NormFloat64()
		}
		return x
	}
	tests := []struct {
		name     string
		x        []float64
		from, to int // where the cut may be
		settled  bool
	}{
		{"flat", series(100, func(int) float64 { return 10 }), 0, 50, true},
		{"a ramp to the end", series(100, func(i int) float64 { return float64(i) }), 55, 100, false},
		{"a warm-up of 20", series(100, func(i int) float64 { return 100 * float64(max(0, 20-i)) / 20 }), 15, 45, true},
		{"a step at 20", series(100, func(i int) float64 { return 100 * float64(min(1, i/20)) }), 20, 45, true},
		{"a step at 70", series(100, func(i int) float64 { return 100 * float64(min(1, i/70)) }), 70, 95, false},
		{"too short to tell", series(49, func(i int) float64 { return float64(i) }), 0, 0, true},
	}
	for _, tt := range tests {
		cut, settled := MSER5(tt.x)
		if cut < tt.from || cut > tt.to || settled != tt.settled {
			t.Errorf("%s: cut %d, settled %v", tt.name, cut, settled)
		}
	}
	if cut, settled := MSER5(make([]float64, 100)); cut != 0 || !settled {
		t.Errorf("constant: cut %d, settled %v", cut, settled)
	}
}
