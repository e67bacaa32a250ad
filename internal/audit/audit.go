// Package audit judges trials: small pure rules, each of which would have
// saved a published study from a wrong conclusion. A finding names the cause,
// the evidence and what to do; reports show it wherever the number is shown.
package audit

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Evidence is all that a rule may look at.
type Evidence struct {
	Study    model.Study
	Host     model.Host
	Outcomes []model.Outcome
}

// Rule judges evidence. It must be pure: the same evidence, the same findings.
type Rule interface {
	Judge(e Evidence) []model.Finding
}

// Judge applies rules in order.
func Judge(e Evidence, rules []Rule) []model.Finding {
	var all []model.Finding
	for _, r := range rules {
		all = append(all, r.Judge(e)...)
	}
	weight := map[model.Severity]int{model.SeverityInvalid: 0, model.SeveritySuspect: 1, model.SeverityNote: 2}
	slices.SortStableFunc(all, func(a, b model.Finding) int {
		return cmp.Compare(weight[a.Severity], weight[b.Severity])
	})
	return all
}

// Invalid returns the indexes of the trials whose numbers must not be used.
func Invalid(findings []model.Finding) map[int]bool {
	bad := map[int]bool{}
	for _, f := range findings {
		if f.Severity == model.SeverityInvalid {
			for _, t := range f.Trials {
				bad[t] = true
			}
		}
	}
	return bad
}

// TrialRule is a rule that looks at one trial at a time. Trials of one variant
// and load with the same severity share one finding, which shows the worst.
type TrialRule struct {
	Name string
	// Doc says what the rule looks for and why; Saved names the published
	// study that it would have saved.
	Doc    string
	Saved  string
	Advice string
	// Check returns nil where there is nothing to say.
	Check func(e Evidence, o *model.Outcome) *Doubt
}

// Doubt is what a TrialRule saw in one trial. Of several, the one with the
// greatest Weight is shown.
type Doubt struct {
	Severity model.Severity
	Weight   float64
	Cause    string
	Evidence string
}

// Judge looks at every outcome.
func (r TrialRule) Judge(e Evidence) []model.Finding {
	type key struct {
		variant, load string
		severity      model.Severity
	}
	var order []key
	found := map[key]*model.Finding{}
	worst := map[key]float64{}
	total := map[[2]string]int{}
	for i := range e.Outcomes {
		o := &e.Outcomes[i]
		total[[2]string{o.Trial.Variant, o.Trial.Load}]++
		d := r.Check(e, o)
		if d == nil {
			continue
		}
		k := key{o.Trial.Variant, o.Trial.Load, d.Severity}
		f := found[k]
		if f == nil {
			f = &model.Finding{Rule: r.Name, Severity: d.Severity, Variant: k.variant, Load: k.load, Advice: r.Advice}
			found[k] = f
			order = append(order, k)
		}
		f.Trials = append(f.Trials, o.Trial.Index)
		if len(f.Trials) == 1 || d.Weight > worst[k] {
			worst[k], f.Cause, f.Evidence = d.Weight, d.Cause, fmt.Sprintf("trial %d: %s", o.Trial.Index, d.Evidence)
		}
	}
	var findings []model.Finding
	for _, k := range order {
		f := found[k]
		if n := total[[2]string{k.variant, k.load}]; n > 1 {
			f.Evidence = fmt.Sprintf("%d of %d trials; worst in %s", len(f.Trials), n, f.Evidence)
		}
		findings = append(findings, *f)
	}
	return findings
}
