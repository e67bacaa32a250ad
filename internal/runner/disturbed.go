package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
)

// A trial from which a hypervisor took more of the CPUs' time than
// metric.StealLimit, or whose CPUs it moved, measured the hypervisor. It is run
// again, so often that it was begun disturbedTries times at most. A run must
// end, so beyond the first few tries only a share disturbedExtra of the trials so
// far are run again: of those so far, so that one bad phase does not use up what
// later ones will need.
const (
	disturbedTries = 3
	disturbedExtra = 0.20
)

// Placement watches how far apart a virtual machine's CPUs are.
type Placement interface {
	// Settle waits a little until they are as far apart as usual, and returns how
	// far they are; 0: not known.
	Settle(ctx context.Context) (time.Duration, error)
	Distance() time.Duration
}

// undisturbed runs a trial, and again if a hypervisor disturbed it too much. The
// try that it disturbed least counts. Nothing else of a try is looked at, so
// results cannot be chosen by it; that there were others is kept.
func (r *run) undisturbed(ctx context.Context, at model.Trial) (best model.Outcome, files map[string][]byte, err error) {
	best, files, err = r.attempt(ctx, at)
	least := r.disturbance(&best)
	var others []model.Disturbance
	for !ends(ctx, err) && tooMuch(least) != "" && len(others)+1 < disturbedTries && r.again < r.extra() {
		r.again++
		r.Progress.Step(at, tooMuch(least)+"; beginning again")
		outcome, produced, failure := r.attempt(ctx, at)
		other := r.disturbance(&outcome)
		if ends(ctx, failure) || less(other, least) {
			best, files, err = outcome, produced, failure
			least, other = other, least
		}
		others = append(others, other)
	}
	best.Disturbed = others
	return best, files, err
}

// ends says whether what a trial ended with ends the run.
func ends(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, model.ErrUnsupported) || errors.Is(err, model.ErrTarget)
}

// disturbance is what a hypervisor did to a try; nothing where that is not known.
func (r *run) disturbance(o *model.Outcome) model.Disturbance {
	return model.Disturbance{Stolen: metric.HostNoise(o, r.Cores).Steal, CPUs: o.CPUs}
}

// tooMuch says why a try measured the hypervisor; "" if it did not.
func tooMuch(d model.Disturbance) string {
	switch {
	case d.Stolen > metric.StealLimit:
		return fmt.Sprintf("the hypervisor took %.0f %% of the CPUs' time", d.Stolen*100)
	case d.CPUs.Moved():
		return fmt.Sprintf("the hypervisor moved the CPUs, %s apart before and %s after", d.CPUs.Before, d.CPUs.After)
	}
	return ""
}

// less says whether one try was disturbed less than another: if only the other
// was too much, else if less was stolen.
func less(a, b model.Disturbance) bool {
	if one, other := tooMuch(a) == "", tooMuch(b) == ""; one != other {
		return one
	}
	return a.Stolen < b.Stolen
}

// triedAgain is how often trials of earlier sessions were begun again.
func triedAgain(outcomes []model.Outcome) (n int) {
	for i := range outcomes {
		n += len(outcomes[i].Disturbed)
	}
	return n
}

// extra is how many tries there may have been by now beyond one a trial.
func (r *run) extra() int {
	return disturbedTries - 1 + int(disturbedExtra*float64(r.done))
}
