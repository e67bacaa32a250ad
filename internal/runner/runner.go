// Package runner carries out a plan: trial after trial, each deployed afresh,
// each undone in reverse, each handed to the sink before the next begins.
//
// A trial reads from top to bottom in trial.go. A trial that breaks is an
// outcome like any other; only what makes every further trial pointless (this
// host cannot do it, the context has ended) ends the run.
package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/agent"
	"github.com/windtunnel/windtunnel/internal/driver"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/plan"
)

// Settings are what a run is made of; the caller owns all of it.
type Settings struct {
	Plan   plan.Plan
	Target model.Target
	App    model.App
	// Stack makes a variant's layers anew for each trial, bottom up.
	Stack func(v model.Variant) ([]model.Layer, error)
	// Driver makes the driver of a load that an outside tool sends.
	Driver func(name string) (driver.Driver, error)
	// Fault makes a fault of a scenario.
	Fault func(ref model.PluginRef) (model.Fault, error)
	// Witness watches the wire during the ready gate; nil: nobody does.
	Witness Witness
	// Sink keeps outcomes; an error makes the run end after one more try.
	Sink Sink
	// Finished are the trials that need not be run again, from earlier sessions.
	Finished []model.Outcome
	// Calibrated and Frozen are what earlier sessions kept of the calibration;
	// Frozen is nil if it was not finished.
	Calibrated []model.Outcome
	Frozen     *model.Frozen
	// Broken are the breakdown trials of earlier sessions.
	Broken []model.Outcome
	// Stop is asked after every complete block from Design.Blocks on; the
	// reason it returns is recorded. nil: all blocks are run.
	Stop     func(outcomes []model.Outcome) (reason string, stop bool)
	Progress Progress
	// Cores are the host's CPUs, where it is seen how much of their time a
	// hypervisor takes; 0: no trial is run again for that.
	Cores int
	// Placement is where a hypervisor has the host's CPUs; nil: nobody sees it.
	Placement Placement
	// SampleEvery is the time between resource readings in the window.
	SampleEvery time.Duration
}

// Witness watches the wire at a pod until stop is called, and says what it saw.
type Witness interface {
	Watch(ctx context.Context, s model.Site, pod string) (stop func() (model.Ledger, error), err error)
}

// Artefacter is a layer that has something to keep in the run folder besides
// logs, e.g. its live configuration; by file name. It must hold no secrets.
type Artefacter interface {
	Artefacts(ctx context.Context, s model.Site) (map[string][]byte, error)
}

// Sink keeps outcomes, with the files that came with them by name, and the
// rates that the calibration found.
type Sink interface {
	Outcome(o model.Outcome, files map[string][]byte) error
	Freeze(f model.Frozen) error
}

// Progress is told what happens, as it happens, from one goroutine at a time.
type Progress interface {
	Started(t model.Trial, done, total int)
	Step(t model.Trial, step string)
	Load(t model.Trial, p agent.Progress)
	Finished(o *model.Outcome, done, total int)
}

// End is how a run ended.
type End struct {
	Outcomes []model.Outcome // of all sessions, without the calibration's
	Reason   string
	Complete bool
	// Unkept are outcomes that the sink could not keep, e.g. on a full disk.
	Unkept int
}

// Run carries out the plan. The error is what ended the run early: an
// UnsupportedError, a sink that cannot keep anything, or the context's end.
func Run(ctx context.Context, s Settings) (End, error) {
	r := &run{
		Settings: s, outcomes: slices.Clone(s.Finished), calibration: slices.Clone(s.Calibrated),
		total: len(s.Plan.Calibration) + len(s.Plan.Trials) + len(s.Plan.Breakdown),
	}
	have := indexes(s.Finished)
	r.done = len(have) + len(indexes(s.Calibrated)) + len(indexes(s.Broken))
	r.again = triedAgain(s.Finished) + triedAgain(s.Calibrated) + triedAgain(s.Broken)
	if err := r.calibrate(ctx); err != nil {
		return r.end(stopped(err), false), err
	}
	reason, err := r.blocks(ctx, have)
	if err == nil {
		err = r.breakDown(ctx)
	}
	if err != nil {
		return r.end(stopped(err), false), err
	}
	if err := r.flush(); err != nil {
		return r.end("results could not be kept: "+err.Error(), false), err
	}
	return r.end(reason, true), nil
}

// blocks runs one block after the other and says why no more.
func (r *run) blocks(ctx context.Context, have map[int]bool) (reason string, err error) {
	block := 0
	for _, t := range r.Plan.Trials {
		if t.Block != block {
			if reason, stop := r.enough(block); stop {
				return reason, nil
			}
			block = t.Block
		}
		if have[t.Index] {
			continue
		}
		if err := r.one(ctx, t); err != nil {
			return "", err
		}
	}
	return "all planned blocks were run", nil
}

type run struct {
	Settings
	outcomes    []model.Outcome
	calibration []model.Outcome
	frozen      model.Frozen
	pending     []kept
	done        int
	total       int
	again       int // trials that were begun again because a hypervisor disturbed them
}

func indexes(outcomes []model.Outcome) map[int]bool {
	have := map[int]bool{}
	for i := range outcomes {
		have[outcomes[i].Trial.Index] = true
	}
	return have
}

// calibrate runs the trials before the first block and freezes what follows
// from them. Nothing of it is done twice: a resumed run goes on with what it
// finds.
func (r *run) calibrate(ctx context.Context) error {
	if r.Frozen != nil || len(r.Plan.Calibration) == 0 {
		if r.Frozen != nil {
			r.frozen = *r.Frozen
		}
		return nil
	}
	have := indexes(r.Calibrated)
	for _, t := range r.Plan.Calibration {
		if have[t.Index] {
			continue
		}
		if err := r.one(ctx, t); err != nil {
			return err
		}
	}
	if err := r.flush(); err != nil {
		return err
	}
	var err error
	if r.frozen, err = r.Plan.Freeze(r.calibration); err != nil {
		return fmt.Errorf("calibrating: %w", err)
	}
	return r.Sink.Freeze(r.frozen)
}

// kept is an outcome that waits for the sink to work again.
type kept struct {
	outcome model.Outcome
	files   map[string][]byte
}

func (r *run) one(ctx context.Context, t model.Trial) error {
	r.Progress.Started(t, r.done, r.total)
	outcome, files, err := r.undisturbed(ctx, t)
	if ctx.Err() != nil {
		return fmt.Errorf("trial %d was interrupted and is not kept: %w", t.Index, context.Cause(ctx))
	}
	if errors.Is(err, model.ErrUnsupported) || errors.Is(err, model.ErrTarget) {
		return err // nothing of the system under test: not kept
	}
	r.done++
	outcome = r.keep(outcome, files)
	switch {
	case t.Calibration:
		r.calibration = append(r.calibration, outcome)
	case !t.Breakdown:
		r.outcomes = append(r.outcomes, outcome)
	}
	r.Progress.Finished(&outcome, r.done, r.total)
	return nil
}

// keep hands an outcome to the sink. What cannot be kept now (a full disk) is
// marked failed, without its bulk, and tried again after the next trial. The
// outcome is returned as it will be read back.
func (r *run) keep(o model.Outcome, files map[string][]byte) model.Outcome {
	if err := r.flush(); err == nil {
		err = r.Sink.Outcome(o, files)
		if err == nil {
			return o
		}
		o = model.Outcome{
			Schema: o.Schema, Trial: o.Trial, Started: o.Started, Steps: o.Steps,
			Failure: &model.Failure{Step: "writing its results", Error: err.Error()},
		}
		files = nil
	}
	r.pending = append(r.pending, kept{o, files})
	return o
}

func (r *run) flush() error {
	for len(r.pending) > 0 {
		p := r.pending[0]
		if err := r.Sink.Outcome(p.outcome, p.files); err != nil {
			return err
		}
		r.pending = r.pending[1:]
	}
	return nil
}

func (r *run) enough(block int) (string, bool) {
	if r.Stop == nil || block < r.Plan.Study.Design.Blocks {
		return "", false
	}
	return r.Stop(r.outcomes)
}

func (r *run) end(reason string, complete bool) End {
	return End{Outcomes: r.outcomes, Reason: reason, Complete: complete && len(r.pending) == 0, Unkept: len(r.pending)}
}

func stopped(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	return err.Error()
}
