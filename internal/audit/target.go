package audit

import (
	"fmt"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
)

// StudyRule is a rule that looks at the study alone.
type StudyRule struct {
	Name string
	// Doc and Saved are as in a TrialRule.
	Doc, Saved, Advice string
	// Check returns what there is to say of variants, by name.
	Check func(s model.Study) []Remark
}

// Remark is what a StudyRule has to say of one variant.
type Remark struct{ Variant, Cause, Evidence string }

// Judge looks at the study.
func (r StudyRule) Judge(e Evidence) []model.Finding {
	var all []model.Finding
	for _, m := range r.Check(e.Study) {
		all = append(all, model.Finding{
			Rule: r.Name, Severity: model.SeverityNote, Variant: m.Variant, Cause: m.Cause, Evidence: m.Evidence, Advice: r.Advice,
		})
	}
	return all
}

func variantLeftOut() Rule {
	return StudyRule{
		Name:   "variant left out",
		Doc:    "A variant that the study has and the run has not must not be missing silently.",
		Saved:  "SIDECAR (runs that are missing from its tables)",
		Advice: "run the study on a target on which the variant runs; do not compare figures of different targets",
		Check: func(s model.Study) []Remark {
			var all []Remark
			for _, k := range s.Skipped {
				all = append(all, Remark{k.Variant, "the variant was not run on this target", k.Variant + ": " + k.Reason})
			}
			return all
		},
	}
}

func triedAgain() Rule {
	return TrialRule{
		Name:   "hypervisor disturbed",
		Doc:    fmt.Sprintf("A trial from which a hypervisor took more than %.0f %% of the CPUs' time, or whose CPUs it moved, measured the hypervisor: it is run again, whatever it showed, and the try that was disturbed least counts.", metric.StealLimit*100),
		Saved:  "SIDECAR (preemptible shared machines, nothing recorded)",
		Advice: "figures of the trial are those of the least disturbed try; if it happens often, the host is not fit for measuring",
		Check: func(_ Evidence, o *model.Outcome) *Doubt {
			if len(o.Disturbed) == 0 {
				return nil
			}
			most, moved := 0.0, 0
			for _, d := range o.Disturbed {
				most = max(most, d.Stolen)
				if d.CPUs.Moved() {
					moved++
				}
			}
			return &Doubt{
				model.SeverityNote, float64(len(o.Disturbed)), "the hypervisor disturbed the trial so much that it was run again",
				fmt.Sprintf("%d times; up to %.0f %% of all CPU time were stolen; the CPUs were moved in %d", len(o.Disturbed), most*100, moved),
			}
		},
	}
}

func cpusElsewhere() Rule {
	return TrialRule{
		Name: "CPUs elsewhere",
		Doc: "A hypervisor moves virtual CPUs about: on one core, below one cache, on different dies or sockets. " +
			"What passes between them then takes two or three times the CPU time, whatever is measured.",
		Saved:  "SIDECAR (preemptible shared machines, nothing recorded)",
		Advice: "trust paired differences over absolute values; pin the virtual CPUs, or measure on a host of your own",
		Check: func(e Evidence, o *model.Outcome) *Doubt {
			usual, _, _ := metric.CPUDistances(e.Outcomes)
			if !o.CPUs.Moved() && !model.Elsewhere(usual, o.CPUs.Before) {
				return nil
			}
			return &Doubt{
				model.SeverityNote, float64(max(o.CPUs.Before, o.CPUs.After)), "the hypervisor had the CPUs in another place than in most trials, or moved them",
				fmt.Sprintf("%s from one to the other before the load, %s after it, usually %s", o.CPUs.Before, o.CPUs.After, usual),
			}
		},
	}
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
