package audit

import (
	"fmt"

	"github.com/windtunnel/windtunnel/internal/model"
)

// variantsLeftOut says which variants a study has that did not run at all.
type variantsLeftOut struct{}

// Judge looks at the study only.
func (variantsLeftOut) Judge(e Evidence) []model.Finding {
	var all []model.Finding
	for _, s := range e.Study.Skipped {
		all = append(all, model.Finding{
			Rule: "variant left out", Severity: model.SeverityNote, Variant: s.Variant,
			Cause: "the variant was not run on this target", Evidence: s.Variant + ": " + s.Reason,
			Advice: "run the study on a target on which the variant runs; do not compare figures of different targets",
		})
	}
	return all
}

func targetLost() Rule {
	return TrialRule{
		Name:   "target lost",
		Doc:    "A trial whose pods or API server went away says nothing of the system under test; it was run again, and that is told.",
		Saved:  "none of the five says how often its clusters broke",
		Advice: "figures of the trial are those of the last try; if it happens often, the cluster is not fit for measuring",
		Check: func(_ Evidence, o *model.Outcome) *Doubt {
			if len(o.Lost) == 0 {
				return nil
			}
			last := o.Lost[len(o.Lost)-1]
			return &Doubt{
				model.SeverityNote, float64(len(o.Lost)), "the target was lost, and the trial run again",
				fmt.Sprintf("%d times; last while %s: %s", len(o.Lost), last.Step, last.Error),
			}
		},
	}
}
