package runner

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// harmless counts how often it was done and undone.
type harmless struct {
	done, undone *atomic.Int32
	err          error
}

func (f harmless) Inject(context.Context, model.Site) (func(context.Context) error, error) {
	if f.err != nil {
		return nil, f.err
	}
	f.done.Add(1)
	return func(context.Context) error { f.undone.Add(1); return nil }, nil
}

func (f harmless) Observe(context.Context, model.Site) (model.Ledger, error) {
	return model.Ledger{{Layer: "fault", Key: "harm", Value: "none"}}, nil
}

// under makes the settings' load run under two harms, the second without heal.
func under(s *Settings) (done, undone *atomic.Int32) {
	done, undone = &atomic.Int32{}, &atomic.Int32{}
	study := &s.Plan.Study
	study.Faults = []model.Scenario{{Name: "f", Events: []model.FaultEvent{
		{Fault: model.PluginRef{Kind: "harmless"}, At: 10 * time.Millisecond, Heal: 30 * time.Millisecond},
		{Fault: model.PluginRef{Kind: "harmless"}, At: 20 * time.Millisecond},
	}}}
	study.Loads[0].Fault, study.Loads[0].Duration = "f", 60*time.Millisecond
	s.Fault = func(model.PluginRef) (model.Fault, error) { return harmless{done, undone, nil}, nil }
	return done, undone
}

func TestFaultsAreDoneAndUndone(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	s, _, sk := settings(t)
	done, undone := under(&s)
	if _, err := Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if n := int32(2 * len(sk.outcomes)); done.Load() != n || undone.Load() != n || n == 0 {
		t.Errorf("%d harms in %d trials were done %d times and undone %d times", 2, len(sk.outcomes), done.Load(), undone.Load())
	}
	for _, o := range sk.outcomes {
		if o.Failure != nil || len(o.Faults) != 2 {
			t.Fatalf("%+v, faults %+v", o.Failure, o.Faults)
		}
		for _, f := range o.Faults {
			at := o.Window.Start + f.Event.At.Nanoseconds()
			if f.InjectStart < at || f.InjectEnd < f.InjectStart || f.HealStart < f.InjectEnd || f.HealEnd < f.HealStart || len(f.Observed) != 1 {
				t.Errorf("asked for at %d: %+v", at, f)
			}
		}
		trace := o.Load.Trace
		if trace == nil || len(trace.Due) != int(o.Load.Due) || trace.Missing != 0 {
			t.Fatalf("%d requests, trace %+v", o.Load.Due, trace)
		}
		if why := trace.Failure(0); why != "" && why != model.CauseUnsent { // a host may stall for all of so short a load
			t.Errorf("the first request: %s", why)
		}
	}
}

func TestFaultThatCannotBeDoneFailsItsTrial(t *testing.T) { //nolint:paralleltest // as above
	s, _, sk := settings(t)
	under(&s)
	s.Fault = func(model.PluginRef) (model.Fault, error) { return harmless{err: errors.New("no such pod")}, nil }
	if _, err := Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for _, o := range sk.outcomes {
		if o.Failure == nil || !strings.Contains(o.Failure.Error, "doing fault harmless: no such pod") || o.Faults[0].Error == "" || o.Load == nil {
			t.Errorf("%+v, %+v", o.Failure, o.Faults)
		}
	}
}
