package metric

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

var errNoFault = fmt.Errorf("%w: it runs under no fault", ErrOtherLoad)

// failovers are the metrics of loads that run under a fault.
func failovers() []Metric {
	return []Metric{
		{"failover.detected", "fault to its first notice", UnitSeconds, BetterLower},
		{"failover.first_good", "fault to the first success after failures", UnitSeconds, BetterLower},
		{"failover.recovered50", "fault to 50 % success", UnitSeconds, BetterLower},
		{"failover.recovered99", "fault to 99 % success", UnitSeconds, BetterLower},
		{"failover.failed", "requests that failed during the fault", UnitCount, BetterLower},
		{"failover.slow", "slow successes during the fault", UnitCount, BetterLower},
		{"failover.wrong_region", "share answered by a farther region than need be", UnitShare, BetterLower},
		{"failover.remote_before", "share answered by another region before the fault", UnitShare, BetterLower},
		{"failover.flaps", "changes of region beyond away and back", UnitCount, BetterLower},
		{"failback.first", "heal to the first answer from home", UnitSeconds, BetterLower},
		{"failback.recovered", "heal to the steady state", UnitSeconds, BetterLower},
		{"failback.failed", "requests that failed after the heal", UnitCount, BetterLower},
	}
}

// reading is how a system came through the faults of a trial.
type reading struct {
	Recovery
	healed bool // while the load ran
}

func readingOf(o *model.Outcome) (reading, error) {
	f, err := faultOf(o)
	if err != nil {
		return reading{}, err
	}
	r, err := ReadRecovery(o.Load.Trace, f)
	return reading{r, f.Healed != 0}, err
}

// failoverOf returns one of the metrics of a load under a fault.
func failoverOf(name string, read func() (reading, error)) (float64, error) {
	r, err := read()
	if err != nil {
		return 0, err
	}
	if !r.healed && (name == "failback.first" || name == "failback.recovered" || name == "failback.failed") {
		return 0, fmt.Errorf("%w: its fault is not healed while it runs", ErrOtherLoad)
	}
	switch name {
	case "failover.failed":
		return float64(r.Failed), nil
	case "failover.slow":
		return float64(r.Slow), nil
	case "failover.wrong_region":
		return r.WrongRegion, nil
	case "failover.remote_before":
		return r.Remote, nil
	case "failover.flaps":
		return float64(r.Flaps), nil
	case "failback.failed":
		return float64(r.BackFailed), nil
	}
	return reached(map[string]time.Duration{
		"failover.detected": r.Detected, "failover.first_good": r.FirstGood,
		"failover.recovered50": r.Recovered50, "failover.recovered99": r.Recovered99,
		"failback.first": r.BackFirst, "failback.recovered": r.BackRecovered,
	}[name])
}

// reached is a time in seconds, if it came.
func reached(at time.Duration) (float64, error) {
	if at == Never {
		return 0, errors.New("it did not come to that while the load ran")
	}
	return at.Seconds(), nil
}

// Onset is when the first of the faults was begun; not so: none was.
func Onset(faults []model.FaultRecord) (at int64, ok bool) {
	for _, f := range faults {
		if f.InjectStart != 0 && (!ok || f.InjectStart < at) {
			at, ok = f.InjectStart, true
		}
	}
	return at, ok
}

// faultOf says what of an outcome's faults a reading needs: several count as
// one, from the first onset to the last heal.
func faultOf(o *model.Outcome) (f FaultTimes, err error) {
	if len(o.Faults) == 0 {
		return f, errNoFault
	}
	if o.Load.Trace == nil {
		return f, fmt.Errorf("trial %d kept no trace", o.Trial.Index)
	}
	f.End = o.Window.Duration()
	healed, all := int64(0), true
	for _, r := range o.Faults {
		if r.InjectStart == 0 {
			return f, fmt.Errorf("fault %s of trial %d was not done", r.Event.Fault.Kind, o.Trial.Index)
		}
		healed = max(healed, r.HealEnd)
		all = all && r.Event.Heal != 0
		for _, b := range o.Endpoints.Backends {
			if slices.Contains(r.Struck, b.Pod) {
				f.Struck = append(f.Struck, b.Identity)
			}
		}
	}
	onset, _ := Onset(o.Faults)
	f.Onset = time.Duration(onset - o.Window.Start)
	if all {
		f.Healed = time.Duration(healed - o.Window.Start)
	}
	for _, b := range o.Endpoints.Backends {
		if b.Nearest {
			f.Home = append(f.Home, b.Identity)
		}
	}
	return f, nil
}
