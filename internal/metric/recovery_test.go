package metric_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
)

const ms = time.Millisecond

// trace makes a trace of 100 requests a second over 20 s; answer says what
// becomes of the request that is due at a time.
func trace(answer func(at time.Duration) (took time.Duration, who string, cause model.Cause)) *model.Trace {
	t := &model.Trace{Responders: []string{"home", "away"}, Causes: []model.Cause{model.CauseTimeout, model.CauseRefused}}
	for i := range 2000 {
		due := time.Duration(i) * 10 * ms
		took, who, cause := answer(due)
		w := -1
		switch {
		case cause == model.CauseTimeout:
			w = -2
		case cause == model.CauseRefused:
			w = -3
		case who == "home":
			w = 0
		case who == "away":
			w = 1
		}
		t.Due, t.Response, t.Who = append(t.Due, due.Microseconds()), append(t.Response, took.Microseconds()), append(t.Who, w)
	}
	return t
}

func fault() metric.FaultTimes {
	return metric.FaultTimes{
		Onset: 5*time.Second + 3*ms, Healed: 12 * time.Second, End: 20 * time.Second,
		Home: []string{"home"}, Struck: []string{"home"},
	}
}

// Refused for half a second, then served from afar, and home again one second
// after the heal.
func TestFailoverAndBack(t *testing.T) {
	t.Parallel()
	got, err := metric.ReadRecovery(trace(func(at time.Duration) (time.Duration, string, model.Cause) {
		switch {
		case at < 5*time.Second+3*ms, at >= 13*time.Second:
			return 2 * ms, "home", ""
		case at < 5500*ms:
			return 1 * ms, "", model.CauseRefused
		}
		return 98 * ms, "away", ""
	}), fault())
	if err != nil {
		t.Fatal(err)
	}
	want := metric.Recovery{
		Detected: 8 * ms, FirstGood: 595 * ms, Recovered50: 447 * ms, Recovered99: 497 * ms,
		Failed: 49, Slow: 650, Band: 2 * ms,
		BackFirst: 1002 * ms, BackRecovered: 1000 * ms,
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// A fault that nobody notices costs nothing.
func TestNullFault(t *testing.T) {
	t.Parallel()
	f := fault()
	f.Struck = nil
	got, err := metric.ReadRecovery(trace(func(time.Duration) (time.Duration, string, model.Cause) { return 2 * ms, "home", "" }), f)
	want := metric.Recovery{Detected: metric.Never, Band: 2 * ms, BackFirst: 2 * ms}
	if err != nil || got != want {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
}

func TestNeverRecovers(t *testing.T) {
	t.Parallel()
	f := fault()
	f.Healed = 0
	got, err := metric.ReadRecovery(trace(func(at time.Duration) (time.Duration, string, model.Cause) {
		if at < f.Onset {
			return 2 * ms, "home", ""
		}
		return 300 * ms, "", model.CauseTimeout
	}), f)
	if err != nil {
		t.Fatal(err)
	}
	if got.Detected != metric.Never || got.FirstGood != metric.Never || got.Recovered50 != metric.Never || got.Failed != 1499 || got.BackFirst != metric.Never {
		t.Errorf("%+v", got)
	}
}

// Who flaps between regions, and answers from afar while a home server is left,
// is told so.
func TestFlapsAndWrongRegion(t *testing.T) {
	t.Parallel()
	f := fault()
	f.Home, f.Struck = []string{"home", "home-2"}, []string{"home-2"}
	got, err := metric.ReadRecovery(trace(func(at time.Duration) (time.Duration, string, model.Cause) {
		if at > 6*time.Second && at < 10*time.Second && at/time.Second%2 == 0 {
			return 98 * ms, "away", ""
		}
		return 2 * ms, "home", ""
	}), f)
	if err != nil {
		t.Fatal(err)
	}
	if got.Flaps != 2 || got.WrongRegion < 0.25 || got.WrongRegion > 0.35 || got.Detected != 1105*ms {
		t.Errorf("%+v", got)
	}
}

func TestNoSteadyState(t *testing.T) {
	t.Parallel()
	_, err := metric.ReadRecovery(trace(func(time.Duration) (time.Duration, string, model.Cause) { return ms, "", model.CauseRefused }), fault())
	if !errors.Is(err, metric.ErrNoSteadyState) {
		t.Errorf("%v", err)
	}
}

// Recovery is found by counting ahead of time; counted request by request, it
// is the same.
func TestRecoveryIsWhatCountingGives(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 0))
	f := fault()
	f.Healed, f.Struck = 0, nil
	const second, tenth = time.Second, 100 * ms
	counted := func(tr *model.Trace, share float64) time.Duration {
		var starts []time.Duration
		for _, due := range tr.Due {
			if at := time.Duration(due) * time.Microsecond; at >= f.Onset {
				starts = append(starts, at)
			}
		}
		for _, start := range append([]time.Duration{f.Onset}, starts...) {
			var n, good [10]int
			for i, due := range tr.Due {
				if k := (time.Duration(due)*time.Microsecond - start) / tenth; time.Duration(due)*time.Microsecond >= start && k < 10 {
					n[k]++
					if tr.Failure(i) == "" {
						good[k]++
					}
				}
			}
			held := start+second <= f.End
			for k := range n {
				held = held && n[k] > 0 && float64(good[k]) >= share*float64(n[k])
			}
			if held {
				return start - f.Onset
			}
		}
		return metric.Never
	}
	for range 20 {
		worst := time.Duration(random.IntN(14_000)) * ms
		tr := trace(func(at time.Duration) (time.Duration, string, model.Cause) {
			if at > f.Onset && (at < f.Onset+worst && random.IntN(10) < 6 || random.IntN(100) == 0) {
				return ms, "", model.CauseRefused
			}
			return 2 * ms, "home", ""
		})
		got, err := metric.ReadRecovery(tr, f)
		if err != nil || got.Recovered50 != counted(tr, 0.5) || got.Recovered99 != counted(tr, 0.99) {
			t.Errorf("bad for %s: %s and %s, %v; counted %s and %s", worst, got.Recovered50, got.Recovered99, err, counted(tr, 0.5), counted(tr, 0.99))
		}
	}
}
