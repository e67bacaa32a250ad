package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
)

// A trial from which a hypervisor took more of the CPUs' time than
// metric.StealLimit measured the hypervisor. It is run again, so often that it
// was begun stolenTries times at most. A run must end, so beyond the first few
// tries only a share stolenExtra of the trials so far are run again: of those so
// far, so that one bad phase does not use up what later ones will need.
const (
	stolenTries = 3
	stolenExtra = 0.10
)

// undisturbed runs a trial, and again if too much CPU time was stolen meanwhile.
// The try from which the least was stolen counts. Nothing else of a try is looked
// at, so results cannot be chosen by it; that there were others is kept.
func (r *run) undisturbed(ctx context.Context, at model.Trial) (best model.Outcome, files map[string][]byte, err error) {
	best, files, err = r.attempt(ctx, at)
	least := r.stolen(&best)
	var others []float64
	for !ends(ctx, err) && least > metric.StealLimit && len(others)+1 < stolenTries && r.again < r.extra() {
		r.again++
		r.Progress.Step(at, fmt.Sprintf("the hypervisor took %.0f %% of the CPUs' time; beginning again", least*100))
		outcome, produced, failure := r.attempt(ctx, at)
		share := r.stolen(&outcome)
		if ends(ctx, failure) || share < least {
			best, files, err = outcome, produced, failure
			least, share = share, least
		}
		others = append(others, share)
	}
	best.Stolen = others
	return best, files, err
}

// ends says whether what a trial ended with ends the run.
func ends(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, model.ErrUnsupported) || errors.Is(err, model.ErrTarget)
}

// stolen is the share of all CPUs' time that a hypervisor took in a trial's
// window; 0 where that is not known.
func (r *run) stolen(o *model.Outcome) float64 {
	return metric.HostNoise(o, r.Cores).Steal
}

// extra is how many tries there may have been by now beyond one a trial.
func (r *run) extra() int {
	return stolenTries - 1 + int(stolenExtra*float64(r.done))
}
