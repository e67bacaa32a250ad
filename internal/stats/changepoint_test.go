package stats

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// nile is the yearly flow of the Nile at Aswan, 1871 to 1970 (Cobb 1978): it
// fell after 1898, which is index 28.
func nile() []float64 {
	return []float64{
		1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180, 799, 958, 1140, 1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100,
		774, 840, 874, 694, 940, 833, 701, 916, 692, 1020, 1050, 969, 831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845, 864, 862, 698, 845, 744, 796, 1040, 759,
		781, 865, 845, 944, 984, 897, 822, 1010, 771, 676, 649, 846, 812, 742, 801, 1040, 860, 874, 848, 890, 744, 749, 838, 1050, 918, 986, 797, 923, 975, 815,
		1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740,
	}
}

func TestChangePointOfTheNile(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		got, err := ChangePoints(nile(), EDivisive{MinSegment: 20, Permutations: 199, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || got[0].At != 28 || got[0].P > 0.01 {
			t.Errorf("seed %d: %+v, want the year 1899, index 28", seed, got)
		}
	}
}

// divisionByDefinition is the paper's equation, term by term.
func divisionByDefinition(x []float64, fewest int) division {
	best := division{at: -1}
	mean := func(a, b []float64) (sum float64) {
		for _, v := range a {
			for _, w := range b {
				sum += math.Abs(v - w)
			}
		}
		return sum
	}
	for at := fewest; at <= len(x)-fewest; at++ {
		for end := at + fewest; end <= len(x); end++ {
			l, r := x[:at], x[at:end]
			n, m := float64(len(l)), float64(len(r))
			e := 2/(n*m)*mean(l, r) - mean(l, l)/(n*(n-1)) - mean(r, r)/(m*(m-1))
			if q := n * m / (n + m) * e; best.at < 0 || q > best.q {
				best = division{at, q}
			}
		}
	}
	return best
}

func TestDivideIsTheDefinition(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(61, 62))
	for range 40 {
		x := make([]float64, 6+rng.IntN(12))
		for i := range x {
			x[i] = rng.NormFloat64() + float64(i/7)
		}
		got, want := divide(x, 3), divisionByDefinition(x, 3)
		if got.at != want.at {
			t.Errorf("%v divides at %d, want %d", x, got.at, want.at)
		}
		near(t, "q", got.q, want.q, 1e-9)
	}
}

func step(rng *rand.Rand, sd float64, levels ...float64) []float64 {
	var x []float64
	for _, l := range levels {
		for range 12 {
			x = append(x, l+sd*rng.NormFloat64())
		}
	}
	return x
}

func TestChangePointsFindEveryStep(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(63, 64))
	x := step(rng, 1, 100, 106, 106, 97)
	got, err := ChangePoints(x, EDivisive{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	again, err := ChangePoints(x, EDivisive{Seed: 1})
	if err != nil || !slices.Equal(got, again) {
		t.Errorf("the same seed gives %v and %v", got, again)
	}
	if len(got) != 2 || got[0].At != 12 || got[1].At != 36 {
		t.Errorf("got %+v, want changes at 12 and 36", got)
	}
}

// Where nothing changes, at most about 5 % of series show a change, whatever
// their distribution.
func TestChangePointsErrSeldom(t *testing.T) {
	t.Parallel()
	const series = 400
	rng := rand.New(rand.NewPCG(65, 66))
	for name, draw := range map[string]func() float64{
		"normal": rng.NormFloat64, "skewed": rng.ExpFloat64,
		"bimodal": func() float64 { return float64(rng.IntN(2))*8 + rng.NormFloat64() },
	} {
		falsely := 0
		for i := range series {
			x := make([]float64, 20)
			for j := range x {
				x[j] = draw()
			}
			got, err := ChangePoints(x, EDivisive{Permutations: 99, Seed: uint64(i)})
			if err != nil {
				t.Fatal(err)
			}
			if len(got) > 0 {
				falsely++
			}
		}
		// Five percent and three standard errors.
		if share := float64(falsely) / series; share > 0.083 {
			t.Errorf("%s: a change where there is none in %.3f", name, share)
		}
	}
}

func TestChangePointsEdges(t *testing.T) {
	t.Parallel()
	for name, x := range map[string][]float64{"nothing": nil, "five": {1, 1, 1, 9, 9}, "equal": slices.Repeat([]float64{4}, 30)} {
		if got, err := ChangePoints(x, EDivisive{}); err != nil || len(got) != 0 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, err := ChangePoints([]float64{1, math.NaN()}, EDivisive{}); !errors.Is(err, ErrNotFinite) {
		t.Errorf("NaN: %v", err)
	}
	// Four against four is the least that can be shown: of all orders, 2 (4!)^2
	// of 8! divide as well, which is 2.9 %.
	few, err := ChangePoints([]float64{1, 1.1, 1.2, 1.3, 9, 9.1, 9.2, 9.3}, EDivisive{})
	if err != nil || len(few) != 1 || few[0].At != 4 {
		t.Errorf("eight values: %v, %v", few, err)
	}
}
