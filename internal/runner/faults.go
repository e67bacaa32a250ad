package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/agent"
	"github.com/windtunnel/windtunnel/internal/model"
)

// healTimeout bounds what undoing one harm may take.
const healTimeout = 20 * time.Second

// harms are the fault events of a load under way. They are made before the load
// begins, so that nothing about them can be wrong in the middle of it.
type harms struct {
	site    model.Site
	events  []*harm
	running sync.WaitGroup
	cancel  context.CancelFunc
	ahead   time.Duration // of the clock that windows are on, the first generator's
}

// harm is one event.
type harm struct {
	model.FaultRecord
	fault model.Fault
	ahead time.Duration
	err   error
	heal  func(context.Context) error
}

// harmsOf makes the harms of a load; none if it names no scenario.
func (t *trial) harmsOf(l model.Load) (*harms, error) {
	h := &harms{site: t.site}
	if l.Fault == "" {
		return h, nil
	}
	scenarios := t.Plan.Study.Faults
	i := slices.IndexFunc(scenarios, func(s model.Scenario) bool { return s.Name == l.Fault })
	if i < 0 {
		return nil, fmt.Errorf("load %s: the study has no fault %q", l.Name, l.Fault)
	}
	for _, e := range scenarios[i].Events {
		f, err := t.Fault(e.Fault)
		if err != nil {
			return nil, fmt.Errorf("fault %s: %w", e.Fault.Kind, err)
		}
		if on, ok := f.(model.StackFault); ok {
			f = on.OnStack(t.layers, t.kinds())
		}
		h.events = append(h.events, &harm{FaultRecord: model.FaultRecord{Event: e}, fault: f})
	}
	return h, nil
}

// kinds are the names of the stack's layers.
func (t *trial) kinds() []string {
	var all []string
	for _, l := range t.variant.Stack {
		all = append(all, l.Kind)
	}
	return all
}

// start lets all events take their course from when the window opens.
func (h *harms) start(ctx context.Context, w model.Window) {
	ctx, h.cancel = context.WithCancel(ctx)
	for _, e := range h.events {
		e.ahead = h.ahead
		h.running.Go(func() { e.err = e.run(ctx, h.site, w) })
	}
}

// run does one harm when it is due and undoes it when that is due. What has no
// heal, or is interrupted, is undone by finish.
func (e *harm) run(ctx context.Context, s model.Site, w model.Window) error {
	if err := until(ctx, w.Start+e.Event.At.Nanoseconds()-e.ahead.Nanoseconds()); err != nil {
		return nil //nolint:nilerr // the load has ended first: the record says that nothing was done
	}
	var err error
	if e.InjectStart, err = e.now(); err != nil {
		return err
	}
	if e.heal, err = e.fault.Inject(ctx, s); err != nil {
		return fmt.Errorf("doing fault %s: %w", e.Event.Fault.Kind, err)
	}
	if e.InjectEnd, err = e.now(); err != nil {
		return err
	}
	if k, ok := e.fault.(model.Striker); ok {
		e.Struck = k.Struck(s)
	}
	if o, ok := e.fault.(model.FaultObserver); ok {
		if e.Observed, err = o.Observe(ctx, s); err != nil && ctx.Err() == nil {
			return fmt.Errorf("measuring fault %s: %w", e.Event.Fault.Kind, err)
		}
	}
	if e.Event.Heal == 0 {
		return nil
	}
	if err := until(ctx, w.Start+e.Event.Heal.Nanoseconds()-e.ahead.Nanoseconds()); err != nil {
		return nil //nolint:nilerr // the load has ended first: finish undoes it
	}
	return e.undo(ctx)
}

// now is on the generator's clock.
func (e *harm) now() (int64, error) {
	now, err := agent.Now()
	return now + e.ahead.Nanoseconds(), err
}

// undo heals once.
func (e *harm) undo(ctx context.Context) (err error) {
	if e.heal == nil || e.HealEnd != 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healTimeout)
	defer cancel()
	if e.HealStart == 0 {
		if e.HealStart, err = e.now(); err != nil {
			return err
		}
	}
	if err = e.heal(ctx); err != nil {
		return fmt.Errorf("undoing fault %s: %w", e.Event.Fault.Kind, err)
	}
	e.HealEnd, err = e.now()
	return err
}

// finish ends what still goes on and undoes what has not been, the last first.
func (h *harms) finish(ctx context.Context) ([]model.FaultRecord, error) {
	if h.cancel != nil {
		h.cancel()
	}
	h.running.Wait()
	var errs []error
	for _, e := range slices.Backward(h.events) {
		errs = append(errs, e.err, e.undo(ctx))
	}
	var records []model.FaultRecord
	for _, e := range h.events {
		if e.err != nil {
			e.Error = e.err.Error()
		}
		records = append(records, e.FaultRecord)
	}
	return records, errors.Join(errs...)
}

// until waits for a moment on CLOCK_MONOTONIC.
func until(ctx context.Context, at int64) error {
	now, err := agent.Now()
	if err != nil {
		return err
	}
	timer := time.NewTimer(time.Duration(at - now))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
