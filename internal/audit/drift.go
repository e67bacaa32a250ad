package audit

import (
	"fmt"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// driftShare is how much the settled part's mean must differ from the whole's
// to matter: less is inside what blocks differ by anyway.
const driftShare = 0.10

func drifting() Rule {
	return TrialRule{
		Name:    "still drifting",
		Metrics: []string{"response", "service"},
		Doc:     "A trial whose latency is still moving when the window ends measures its warm-up (MSER-5 over the timeline).",
		Saved:   "GEO (runs of 5 s whose first requests opened every connection)",
		Advice:  "make design.warmup or the load's duration longer",
		Check: func(_ Evidence, o *model.Outcome) *Doubt {
			if o.Load == nil {
				return nil
			}
			var means []float64
			for _, s := range o.Load.Timeline.Slots {
				if s.Succeeded > 0 {
					means = append(means, s.Mean.Seconds())
				}
			}
			cut, settled := stats.MSER5(means)
			if settled || cut >= len(means) {
				return nil
			}
			whole, rest := mean(means), mean(means[cut:])
			if off := whole/rest - 1; off > driftShare || off < -driftShare {
				return &Doubt{
					model.SeverityNote, max(off, -off), "latency had not settled when it was measured",
					fmt.Sprintf("settled after %d %% of the window; the mean before differs by %.0f %%", cut*100/len(means), off*100),
				}
			}
			return nil
		},
	}
}

func mean(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}
