// Package audit judges trials: small pure rules, each of which would have
// saved a published study from a wrong conclusion. A finding names the cause,
// the evidence and what to do; reports show it wherever the number is shown.
package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Evidence is all that a rule may look at.
type Evidence struct {
	Study    model.Study
	Host     model.Host
	Outcomes []model.Outcome
	// Runs are what files of other tools say beside the outcomes, by the trials'
	// indexes; none of our own trials.
	Runs []Run
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
	Order(all)
	return all
}

// Order puts what weighs more first, and keeps the order of equals.
func Order(all []model.Finding) {
	weight := map[model.Severity]int{model.SeverityInvalid: 0, model.SeveritySuspect: 1, model.SeverityNote: 2}
	slices.SortStableFunc(all, func(a, b model.Finding) int {
		return cmp.Compare(weight[a.Severity], weight[b.Severity])
	})
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
	// Metrics are the numbers that a finding is about, by name or group; none:
	// all of the trial.
	Metrics []string
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
			f = &model.Finding{Rule: r.Name, Severity: d.Severity, Variant: k.variant, Load: k.load, Metrics: r.Metrics, Advice: r.Advice}
			found[k] = f
			order = append(order, k)
		}
		f.Trials = append(f.Trials, o.Trial.Index)
		if len(f.Trials) == 1 || d.Weight > worst[k] {
			worst[k], f.Cause, f.Evidence = d.Weight, d.Cause, e.label(o)+": "+d.Evidence
		}
	}
	var findings []model.Finding
	for _, k := range order {
		f := found[k]
		if n := total[[2]string{k.variant, k.load}]; n > 1 {
			f.Evidence = fmt.Sprintf("%d of %d %s; worst in %s", len(f.Trials), n, e.unit(), f.Evidence)
		}
		findings = append(findings, *f)
	}
	return findings
}

// LoadRule is a rule that looks at one load of the study at a time, with all its
// trials: what it says holds for every variant.
type LoadRule struct {
	Name    string
	Metrics []string
	// Doc and Saved are as in a TrialRule.
	Doc    string
	Saved  string
	Advice string
	// Check returns nil where there is nothing to say.
	Check func(l model.Load, trials []*model.Outcome) *Doubt
}

// Judge looks at every load.
func (r LoadRule) Judge(e Evidence) []model.Finding {
	var findings []model.Finding
	for _, l := range e.Study.Loads {
		var trials []*model.Outcome
		for i := range e.Outcomes {
			if o := &e.Outcomes[i]; o.Trial.Load == l.Name && o.Load != nil {
				trials = append(trials, o)
			}
		}
		if d := r.Check(l, trials); d != nil {
			findings = append(findings, model.Finding{
				Rule: r.Name, Severity: d.Severity, Load: l.Name, Metrics: r.Metrics, Cause: d.Cause, Evidence: d.Evidence, Advice: r.Advice,
			})
		}
	}
	return findings
}

// load is the study's load that a trial ran; the zero value where the study is
// not known, as of results that were read in.
func (e Evidence) load(o *model.Outcome) model.Load {
	i := slices.IndexFunc(e.Study.Loads, func(l model.Load) bool { return l.Name == o.Trial.Load })
	if i < 0 {
		return model.Load{}
	}
	return e.Study.Loads[i]
}

// unit is what the evidence is made of, in people's words.
func (e Evidence) unit() string {
	if e.Runs == nil {
		return "trials"
	}
	return "runs"
}

// label names a trial for people: ours by its number, another tool's by its file.
func (e Evidence) label(o *model.Outcome) string {
	r := e.run(o)
	if r == nil {
		return fmt.Sprintf("trial %d", o.Trial.Index)
	}
	if r.Measurement.Name != "" {
		return r.Measurement.Name
	}
	const tail = 2 // the last parts of a path
	parts := strings.Split(strings.ReplaceAll(r.File, "\\", "/"), "/")
	return strings.Join(parts[max(0, len(parts)-tail):], "/")
}
