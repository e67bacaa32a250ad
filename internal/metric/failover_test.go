package metric_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
)

// underFault is a load of 100/s whose server is refused for a second, then
// answers from elsewhere until the heal.
func underFault() *model.Outcome {
	t := &model.Trace{Responders: []string{"near", "far"}, Causes: []model.Cause{model.CauseRefused}}
	for i := range 1000 {
		due := int64(i) * 10_000
		took, who := int64(2000), 0
		switch {
		case i >= 300 && i < 400:
			took, who = 500, -2
		case i >= 400 && i < 600:
			took, who = 98_000, 1
		}
		t.Due, t.Response, t.Who = append(t.Due, due), append(t.Response, took), append(t.Who, who)
	}
	start := 7 * time.Second.Nanoseconds()
	at := func(d time.Duration) int64 { return start + d.Nanoseconds() }
	return &model.Outcome{
		Window: model.Window{Start: start, End: at(10 * time.Second)},
		Endpoints: model.Endpoints{Backends: []model.Backend{
			{Pod: "a", Identity: "near", Nearest: true}, {Pod: "b", Identity: "far"},
		}},
		Load: &model.LoadResult{Elapsed: 10 * time.Second, Trace: t},
		Faults: []model.FaultRecord{{
			Event:       model.FaultEvent{At: 3 * time.Second, Heal: 6 * time.Second},
			InjectStart: at(2999 * time.Millisecond), InjectEnd: at(3001 * time.Millisecond),
			HealStart: at(5990 * time.Millisecond), HealEnd: at(6 * time.Second), Struck: []string{"a"},
		}},
	}
}

func TestFailover(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]float64{
		"failover.detected": 0.0015, "failover.first_good": 1.099, "failover.recovered50": 0.951, "failover.recovered99": 1.001,
		"failover.failed": 100, "failover.slow": 200, "failover.wrong_region": 0, "failover.remote_before": 0, "failover.flaps": 0,
		"failback.first": 0.002, "failback.recovered": 0, "failback.failed": 0,
	} {
		if got, err := metric.Of(underFault(), name); err != nil || math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %g, %v; want %g", name, got, err, want)
		}
	}
}

func TestFailoverOfOtherLoads(t *testing.T) {
	t.Parallel()
	o := underFault()
	o.Faults[0].Event.Heal = 0
	if _, err := metric.Of(o, "failback.first"); !errors.Is(err, metric.ErrOtherLoad) {
		t.Errorf("of a fault that is not healed: %v", err)
	}
	o.Faults = nil
	if _, err := metric.Of(o, "failover.failed"); !errors.Is(err, metric.ErrOtherLoad) {
		t.Errorf("of a load without fault: %v", err)
	}
}
