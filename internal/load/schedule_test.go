package load_test

import (
	"math"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

// dues are those of the first n requests.
func dues(tb testing.TB, s load.Schedule, n uint64) []time.Duration {
	tb.Helper()
	all := make([]time.Duration, 0, n)
	for k := range n {
		at, ok := s.Due(k)
		if !ok {
			break
		}
		if k > 0 && at < all[k-1] {
			tb.Fatalf("request %d is due at %s, before the one before it", k, at)
		}
		all = append(all, at)
	}
	return all
}

func schedule(rate float64, p model.Pattern, warmup time.Duration) load.Schedule {
	return load.NewSchedule(model.Load{Rate: rate, Pattern: p, Duration: time.Second}, warmup, 1)
}

// within counts the requests that are due from a on and before b.
func within(all []time.Duration, a, b time.Duration) int {
	n := 0
	for _, at := range all {
		if at >= a && at < b {
			n++
		}
	}
	return n
}

func TestRamp(t *testing.T) {
	t.Parallel()
	ramp := schedule(550, model.Pattern{Segments: []model.Segment{{From: 100, To: 1000, Duration: time.Second}}}, time.Second)
	all := dues(t, ramp, 2000)
	// 100 in the warm-up; then 100 t + 450 t^2: 162.5 in the first half, 550 in all.
	for _, tt := range []struct {
		a, b time.Duration
		want int
	}{
		{0, time.Second, 100},
		{time.Second, 1500 * time.Millisecond, 163},
		{time.Second, 2 * time.Second, 550},
		{2 * time.Second, 3 * time.Second, 1000},
	} {
		if n := within(all, tt.a, tt.b); n < tt.want-1 || n > tt.want+1 {
			t.Errorf("%d requests from %s to %s, want %d", n, tt.a, tt.b, tt.want)
		}
	}
}

func TestFallingToNothing(t *testing.T) {
	t.Parallel()
	s := schedule(50, model.Pattern{Segments: []model.Segment{{From: 100, To: 0, Duration: time.Second}}}, 0)
	all := dues(t, s, 100)
	if len(all) != 51 && len(all) != 50 {
		t.Errorf("%d requests are due ever, want 50", len(all))
	}
}

func TestSteps(t *testing.T) {
	t.Parallel()
	s := schedule(200, model.Pattern{Segments: []model.Segment{
		{From: 100, To: 100, Duration: 500 * time.Millisecond}, {From: 300, To: 300, Duration: 500 * time.Millisecond},
	}}, 0)
	all := dues(t, s, 400)
	if a, b := within(all, 0, 500*time.Millisecond), within(all, 500*time.Millisecond, time.Second); a != 50 || b != 150 {
		t.Errorf("%d and %d requests, want 50 and 150", a, b)
	}
}

func TestBursts(t *testing.T) {
	t.Parallel()
	all := dues(t, schedule(1000, model.Pattern{Burst: 50}, 0), 200)
	for k, at := range all {
		if want := time.Duration(k/50) * 50 * time.Millisecond; at != want {
			t.Fatalf("request %d is due at %s, want %s", k, at, want)
		}
	}
}

func TestReplay(t *testing.T) {
	t.Parallel()
	times := []time.Duration{0, time.Millisecond, 700 * time.Millisecond}
	s := schedule(3, model.Pattern{Times: times}, time.Second)
	all := dues(t, s, 10)
	if len(all) != 6 {
		t.Fatalf("%d requests, want 3 in the warm-up and 3 after it", len(all))
	}
	for i, want := range times {
		if all[3+i] != time.Second+want {
			t.Errorf("request %d is due at %s, want %s", i, all[3+i], time.Second+want)
		}
	}
}

// The times between arrivals must be exponential: their mean and standard
// deviation are alike, and Kolmogorov's distance is small.
func TestPoisson(t *testing.T) {
	t.Parallel()
	const n, rate = 20000, 1000.0
	all := dues(t, schedule(rate, model.Pattern{Poisson: true}, 0), n)
	var sum, squares float64
	below := 0 // the median
	for k := 1; k < n; k++ {
		gap := (all[k] - all[k-1]).Seconds() * rate
		sum += gap
		squares += gap * gap
		if gap < math.Ln2 {
			below++
		}
	}
	mean := sum / (n - 1)
	deviation := math.Sqrt(squares/(n-1) - mean*mean)
	if math.Abs(mean-1) > 0.03 || math.Abs(deviation-1) > 0.05 || math.Abs(float64(below)/(n-1)-0.5) > 0.02 {
		t.Errorf("times between arrivals have mean %.3f and deviation %.3f of their rate's, %d of %d below the median", mean, deviation, below, n-1)
	}
	again := schedule(rate, model.Pattern{Poisson: true}, 0)
	for _, k := range []uint64{19999, 3, 3, 500, 0} {
		if at, _ := again.Due(k); at != all[k] {
			t.Errorf("request %d is due at %s or at %s, depending on who was asked before", k, all[k], at)
		}
	}
	other := load.NewSchedule(model.Load{Rate: rate, Pattern: model.Pattern{Poisson: true}}, 0, 2)
	if at, _ := other.Due(10); at == all[10] {
		t.Error("another seed gives the same times")
	}
}

func TestSchedulesDoNotAllocate(t *testing.T) { //nolint:paralleltest // AllocsPerRun panics in parallel tests
	s := schedule(1000, model.Pattern{Poisson: true, Burst: 3, Segments: []model.Segment{{From: 100, To: 900, Duration: time.Second}}}, time.Second)
	k := uint64(0)
	if n := testing.AllocsPerRun(1000, func() {
		s.Due(k)
		k++
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzSchedule(f *testing.F) {
	f.Add(100.0, 1000.0, uint32(1000), uint16(3), true, uint64(7))
	f.Fuzz(func(t *testing.T, from, to float64, ms uint32, burst uint16, random bool, seed uint64) {
		if !(from >= 0 && from <= 1e7 && to >= 0 && to <= 1e7 && from+to > 0 && ms > 0) {
			return
		}
		l := model.Load{Pattern: model.Pattern{
			Poisson: random, Burst: int(burst),
			Segments: []model.Segment{{From: from, To: to, Duration: time.Duration(ms) * time.Millisecond}},
		}}
		dues(t, load.NewSchedule(l, time.Second, seed), 2000)
	})
}
