package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windtunnel/windtunnel/internal/agent"
	"github.com/windtunnel/windtunnel/internal/model"
)

// lostTries is how often a trial is begun that the target loses: an API server
// that restarts, a node that goes away.
const lostTries = 3

// attempt runs a trial, and again if the target lost its site: what broke then
// says nothing of the system under test. How often is kept in the outcome.
func (r *run) attempt(ctx context.Context, at model.Trial) (model.Outcome, map[string][]byte, error) {
	var lost []model.Failure
	for {
		outcome, files, err := r.trial(ctx, at)
		var target *model.TargetError
		again := errors.As(err, &target) && target.Lost && ctx.Err() == nil && len(lost)+1 < lostTries
		if !again {
			outcome.Lost = lost
			return outcome, files, err
		}
		lost = append(lost, *outcome.Failure)
		r.Progress.Step(at, fmt.Sprintf("the target was lost (%s); beginning again", target.Why))
	}
}

// blame says whether an error is the target's: a site that is lost breaks
// whatever runs in it.
func (t *trial) blame(ctx context.Context, err error) error {
	site, ok := t.site.(model.LosableSite)
	if !ok || err == nil || errors.Is(err, model.ErrTarget) {
		return err
	}
	if lost := site.Lost(ctx); lost != nil {
		return fmt.Errorf("%w (%w)", lost, err)
	}
	return err
}

// makeSite makes the trial's site, in the meshes of its stack where the target
// has any.
func (t *trial) makeSite(ctx context.Context) (model.Site, error) {
	target, ok := t.Target.(model.MeshTarget)
	if !ok {
		return t.Target.Provision(ctx, t.Plan.Study.Topology)
	}
	layers, err := t.Stack(t.variant)
	if err != nil {
		return nil, err
	}
	return target.ProvisionIn(ctx, t.Plan.Study.Topology, model.Surroundings{Meshes: model.Meshes(layers), Protocol: t.load.Protocol})
}

func (r *run) limits() (provision, remove time.Duration) {
	if p, ok := r.Target.(model.PatientTarget); ok {
		return p.Patience()
	}
	return stepTimeout, undoTimeout
}

// clocks are how the clocks of the pods that send differ from that of this
// process: by how much each is ahead, and how far off that can be at most.
type clocks struct {
	ahead     []time.Duration
	uncertain time.Duration
	measured  bool
}

func (t *trial) clocks(pods []string) (clocks, error) {
	c := clocks{ahead: make([]time.Duration, len(pods))}
	site, ok := t.site.(model.ClockedSite)
	if !ok {
		return c, nil
	}
	c.measured = true
	site.SetReference(pods[0])
	for i, pod := range pods {
		ahead, uncertain, err := site.Clock(pod)
		if err != nil {
			return c, fmt.Errorf("comparing the clock of pod %s: %w", pod, err)
		}
		c.ahead[i] = ahead
		c.uncertain = max(c.uncertain, uncertain)
	}
	return c, nil
}

// together says when the generators begin, on the clock of each.
func (c clocks) together() ([]int64, error) {
	start, err := agent.CommonStart()
	starts := make([]int64, len(c.ahead))
	for i, ahead := range c.ahead {
		starts[i] = start + ahead.Nanoseconds()
	}
	return starts, err
}

// window is one of generator i on the clock of the first.
func (c clocks) window(i int, w model.Window) model.Window {
	shift := (c.ahead[0] - c.ahead[i]).Nanoseconds()
	return model.Window{Start: w.Start + shift, End: w.End + shift}
}

// facts are what is to be known of a common start.
func (c clocks) facts() model.Ledger {
	if !c.measured || len(c.ahead) < 2 {
		return nil
	}
	return model.Ledger{{
		Layer: "generator", Key: "common start", Source: model.SourceAnswer,
		Value: fmt.Sprintf("%d generators begin together within %s, by their measured clocks", len(c.ahead), (2 * c.uncertain).Round(time.Microsecond)),
	}}
}
