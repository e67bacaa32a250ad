package plan

import (
	"math"
	"math/rand/v2"

	"github.com/windtunnel/windtunnel/internal/model"
)

// breakdowns lists the trials after the blocks that find out where the time goes:
// one of each variant under each load that asks for it. The control is the
// baseline once more.
func breakdowns(s model.Study) []model.Trial {
	var trials []model.Trial
	for _, v := range s.Variants {
		for _, l := range s.Loads {
			if !v.Control && l.Breakdown > 0 {
				trials = append(trials, model.Trial{Block: 1, Variant: v.Name, Load: l.Name, Breakdown: true})
			}
		}
	}
	// A stream of its own, which neither blocks nor calibrations come to.
	order(trials, rand.New(rand.NewPCG(s.Design.Seed, math.MaxUint64/2)), 0) //nolint:gosec // an experiment must be repeatable
	return trials
}
