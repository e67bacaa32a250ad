package stats

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/internal/hist"
)

// The spatial test data of Efron and Tibshirani (An Introduction to the
// Bootstrap, 1993, chapter 14): for the variance of A, with divisor n, the book
// gives 171.5, a = 0.061 and a 90 % BCa interval from 115.8 to 259.6.
func TestBCaMatchesTheTextbook(t *testing.T) {
	t.Parallel()
	a := []float64{48, 36, 20, 29, 42, 42, 20, 42, 22, 41, 45, 14, 6, 0, 33, 28, 34, 4, 32, 24, 47, 41, 24, 26, 30, 41}
	variance := func(x []float64) float64 {
		sd := StdDev(x)
		return sd * sd * float64(len(x)-1) / float64(len(x))
	}
	e := bca(a, variance, 0.90, 1)
	near(t, "variance", e.Value, 171.5, 0.05)
	near(t, "acceleration", acceleration(a, variance), 0.061, 0.0005)
	near(t, "from", e.Lo, 115.8, 2.5)
	near(t, "to", e.Hi, 259.6, 4)
}

func TestBCaCoversSkewedData(t *testing.T) {
	t.Parallel()
	const studies, n = 120, 30
	rng := rand.New(rand.NewPCG(31, 32))
	covered := 0
	for i := range studies {
		x := make([]float64, n)
		for j := range x {
			x[j] = rng.ExpFloat64()
		}
		e, err := BCa(x, Mean, uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		if e.Lo <= 1 && 1 <= e.Hi {
			covered++
		}
	}
	if share := float64(covered) / studies; share < 0.89 || share > 0.99 {
		t.Errorf("covers in %.3f", share)
	}
}

func TestBCaEdges(t *testing.T) {
	t.Parallel()
	same := slices.Repeat([]float64{4}, MinBootstrap)
	if e, err := BCa(same, Mean, 1); err != nil || e.Lo != 4 || e.Hi != 4 {
		t.Errorf("equal values: %+v, %v", e, err)
	}
	var few *TooFewError
	if _, err := BCa(same[1:], Mean, 1); !errors.As(err, &few) || few.Need != MinBootstrap {
		t.Errorf("19 values: %v", err)
	}
	same[3] = math.NaN()
	if _, err := BCa(same, Mean, 1); !errors.Is(err, ErrNotFinite) {
		t.Errorf("NaN: %v", err)
	}
	// A statistic that sorts its argument must not disturb the data.
	x := make([]float64, MinBootstrap)
	for i := range x {
		x[i] = float64((i * 7) % MinBootstrap)
	}
	was := slices.Clone(x)
	e, err := BCa(x, func(v []float64) float64 { slices.Sort(v); return median(v) }, 1)
	if err != nil || !slices.Equal(x, was) || e.Lo > e.Value || e.Hi < e.Value {
		t.Errorf("median: %+v, %v", e, err)
	}
}

// ar1 is a series in which each value remembers the last.
func ar1(rng *rand.Rand, n int, memory float64) []float64 {
	x := make([]float64, n)
	v := rng.NormFloat64() / math.Sqrt(1-memory*memory)
	for i := range x {
		v = memory*v + rng.NormFloat64()
		x[i] = v
	}
	return x
}

func TestMovingBlocksAllowForDependence(t *testing.T) {
	t.Parallel()
	const runs, n, memory = 80, 200, 0.6
	rng := rand.New(rand.NewPCG(41, 42))
	covered, naive := 0, 0
	for i := range runs {
		x := ar1(rng, n, memory)
		e, err := MovingBlockBootstrap(x, Mean, uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		if e.Lo <= 0 && 0 <= e.Hi {
			covered++
		}
		if half := 1.96 * StdDev(x) / math.Sqrt(n); math.Abs(e.Value) <= half {
			naive++
		}
	}
	t.Logf("covers in %d of %d; as if independent: %d", covered, runs, naive)
	if share := float64(covered) / runs; share < 0.85 || covered < naive+runs/10 {
		t.Errorf("covers in %.3f; as if independent in %d of %d", share, naive, runs)
	}
}

func TestMovingBlocksEdges(t *testing.T) {
	t.Parallel()
	x := ar1(rand.New(rand.NewPCG(43, 44)), 50, 0.2)
	a, err := MovingBlockBootstrap(x, Mean, 9)
	if err != nil {
		t.Fatal(err)
	}
	if b, again := MovingBlockBootstrap(x, Mean, 9); again != nil || a != b {
		t.Errorf("the same seed gives %+v and %+v", a, b)
	}
	var few *TooFewError
	if _, err = MovingBlockBootstrap(x[1:], Mean, 9); !errors.As(err, &few) {
		t.Errorf("49 points: %v", err)
	}
	if e, same := MovingBlockBootstrap(slices.Repeat([]float64{2}, 60), Mean, 9); same != nil || e.Lo != 2 || e.Hi != 2 {
		t.Errorf("equal values: %+v, %v", e, same)
	}
	ramp := make([]float64, 60)
	for i := range ramp {
		ramp[i] = float64(i)
	}
	if n := blockLength(ramp); n < 10 || n > 20 {
		t.Errorf("a ramp's blocks are %d long", n)
	}
	if n := blockLength(ar1(rand.New(rand.NewPCG(45, 46)), 1000, 0)); n > 5 {
		t.Errorf("noise has blocks of %d", n)
	}
}

func exponential(rng *rand.Rand, n int, mean float64) *hist.Histogram {
	h := &hist.Histogram{}
	for range n {
		h.Record(int64(rng.ExpFloat64() * mean))
	}
	return h
}

func TestPooledQuantileIsThatOfTheMergedHistogram(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(51, 52))
	hists, merged := []*hist.Histogram{}, &hist.Histogram{}
	for range 8 {
		h := exponential(rng, 500, 1e6)
		hists = append(hists, h)
		merged.Merge(h)
	}
	for _, q := range []float64{0, 0.07, 0.5, 0.99, 0.999, 1} {
		e := PooledQuantile(hists, q, 1)
		want := merged.Quantile(q).Seconds()
		near(t, "pooled", e.Value, want, want/1000)
		if e.Lo > e.Value || e.Hi < e.Value || e.N != 8 || e != PooledQuantile(hists, q, 1) {
			t.Errorf("quantile %v: %+v", q, e)
		}
	}
	one := PooledQuantile(hists[:1], 0.5, 1)
	if one.Lo != one.Value || one.Hi != one.Value || one.Value == 0 {
		t.Errorf("one trial: %+v", one)
	}
	for _, none := range [][]*hist.Histogram{nil, {{}}, {{}, {}}} {
		if e := PooledQuantile(none, 0.5, 1); e.Value != 0 || e.Hi != 0 {
			t.Errorf("nothing: %+v", e)
		}
	}
	if e := PooledQuantile([]*hist.Histogram{hists[0], {}, hists[1]}, 0.5, 1); e.Value == 0 {
		t.Errorf("with an empty trial: %+v", e)
	}
}

func TestPooledQuantileCovers(t *testing.T) {
	t.Parallel()
	const studies, blocks, q = 100, 10, 0.99
	rng := rand.New(rand.NewPCG(53, 54))
	truth := -math.Log(1-q) * 1e-3
	covered := 0
	for i := range studies {
		var hists []*hist.Histogram
		for range blocks {
			hists = append(hists, exponential(rng, 400, 1e6))
		}
		if e := PooledQuantile(hists, q, uint64(i)); e.Lo <= truth && truth <= e.Hi {
			covered++
		}
	}
	if share := float64(covered) / studies; share < 0.90 {
		t.Errorf("covers in %.3f", share)
	}
}
