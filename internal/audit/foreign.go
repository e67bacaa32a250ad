package audit

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Run is one load that another tool has measured, with what its path and its
// file say of it. Its place in Evidence.Runs is the index of its trial.
type Run struct {
	ingest.Measurement
	Name
	File string
	// Report is what the tool's own report says of the same run, where there is
	// one beside the raw data.
	Report *ingest.Measurement
}

// NewEvidence makes evidence of what other tools have measured: a trial a run,
// and of every load what the runs have in common.
func NewEvidence(runs []Run) Evidence {
	e := Evidence{Runs: runs}
	blocks := map[string]int{}
	for i := range runs {
		r := &runs[i]
		if r.Result == nil {
			r.Result = ingest.NewResult("unknown", ingest.About{}, model.BasisNothing)
		}
		out := *r.Result
		asked, known := r.Asked()
		if known && out.Rate == 0 && out.Arrival == model.ArrivalOpen {
			out.Rate = asked
		}
		group := r.Variant + "\x00" + r.Load
		blocks[group]++
		e.Outcomes = append(e.Outcomes, model.Outcome{
			Trial:   model.Trial{Index: i, Block: blocks[group], Variant: r.Variant, Load: r.Load},
			Started: r.Started, Load: &out,
		})
		if !slices.ContainsFunc(e.Study.Loads, func(l model.Load) bool { return l.Name == r.Load }) {
			l := model.Load{Name: r.Load, Arrival: out.Arrival, Rate: out.Rate, Connections: out.Connections}
			if known && out.Arrival == model.ArrivalClosed {
				l.Pace = asked
			}
			e.Study.Loads = append(e.Study.Loads, l)
		}
	}
	return e
}

// run is what a file says beside the outcome; nil for our own trials.
func (e Evidence) run(o *model.Outcome) *Run {
	if o.Trial.Index < 0 || o.Trial.Index >= len(e.Runs) || o.Load == nil {
		return nil
	}
	return &e.Runs[o.Trial.Index]
}

// Asked is the rate that the tool was told to send at: by its own words, or by
// the name of the load.
func (r *Run) Asked() (rate float64, ok bool) {
	if r.Labels[ingest.LabelAsked] != "" { // "max" is no rate
		v, found := r.Number(ingest.LabelAsked)
		return v, found && v > 0
	}
	if r.Result != nil && r.Result.Rate > 0 {
		return r.Result.Rate, true
	}
	for _, w := range Words(r.Load) {
		n, unit, found := quantity(w)
		if found && n > 0 && (unit == "rps" || unit == "qps") {
			return n, true
		}
	}
	return 0, false
}

// Achieved is the rate of all answers, as the tool says or as it follows.
func (r *Run) Achieved() float64 {
	if v, ok := r.Number(ingest.LabelAchieved); ok && v > 0 {
		return v
	}
	if r.Result.Elapsed <= 0 {
		return 0
	}
	return float64(r.Result.Succeeded+r.Result.FailedTotal()) / r.Result.Elapsed.Seconds()
}

// Latencies are those of the successes among single requests, in order of time.
func (r *Run) Latencies() []time.Duration {
	var all []time.Duration
	for i := range r.Requests {
		if right(&r.Requests[i]) {
			all = append(all, r.Requests[i].Latency)
		}
	}
	return all
}

// right says whether a request had a right answer. Tools without status codes
// tell failures by their error alone.
func right(q *ingest.Request) bool {
	const bad = 400
	return q.Error == "" && q.Code >= 0 && q.Code < bad
}

// answered is the distribution of a trial's successes, from whatever basis the
// tool has; nil if it tells none.
func answered(l *model.LoadResult) *hist.Histogram {
	for _, h := range []*hist.Histogram{l.Response, l.Service} {
		if h != nil && h.Count() > 0 {
			return h
		}
	}
	return nil
}

// Exact is a quantile of sorted values: the smallest that has at least the share
// q at or under it.
func Exact(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(q * float64(len(sorted)) * (1 - 4e-16))
	return sorted[min(max(rank, 0), len(sorted)-1)]
}

// SetRule is a rule that looks at all trials together: at what they have in
// common, and at how they differ.
type SetRule struct {
	Name    string
	Metrics []string
	// Doc and Saved are as in a TrialRule.
	Doc    string
	Saved  string
	Advice string
	Check  func(e Evidence) []SetDoubt
}

// SetDoubt is what a SetRule saw. Without a variant, a load or trials it is of
// the whole set.
type SetDoubt struct {
	Doubt
	Variant, Load string
	Trials        []int
}

// Judge looks at the set.
func (r SetRule) Judge(e Evidence) []model.Finding {
	var findings []model.Finding
	for _, d := range r.Check(e) {
		findings = append(findings, model.Finding{
			Rule: r.Name, Severity: d.Severity, Variant: d.Variant, Load: d.Load, Trials: d.Trials, Metrics: r.Metrics,
			Cause: d.Cause, Evidence: d.Evidence, Advice: r.Advice,
		})
	}
	return findings
}

// group is the trials of one variant under one load.
type group struct {
	variant, load string
	trials        []*model.Outcome
}

// groups are those of all trials that measured something, in order of
// appearance.
func (e Evidence) groups() []group {
	var all []group
	for i := range e.Outcomes {
		o := &e.Outcomes[i]
		if o.Load == nil || e.aborted(o) {
			continue
		}
		at := slices.IndexFunc(all, func(g group) bool { return g.variant == o.Trial.Variant && g.load == o.Trial.Load })
		if at < 0 {
			at = len(all)
			all = append(all, group{variant: o.Trial.Variant, load: o.Trial.Load})
		}
		all[at].trials = append(all[at].trials, o)
	}
	return all
}

// loads are the groups of each load that more than one variant had: what is
// compared.
func (e Evidence) loads() [][]group {
	by := map[string][]group{}
	var order []string
	for _, g := range e.groups() {
		if by[g.load] == nil {
			order = append(order, g.load)
		}
		by[g.load] = append(by[g.load], g)
	}
	var all [][]group
	for _, l := range order {
		if len(by[l]) > 1 {
			all = append(all, by[l])
		}
	}
	return all
}

// aborted says that another tool gave up.
func (e Evidence) aborted(o *model.Outcome) bool {
	r := e.run(o)
	return r != nil && r.Labels[ingest.LabelAborted] != ""
}

func (g group) indexes() []int {
	var all []int
	for _, o := range g.trials {
		all = append(all, o.Trial.Index)
	}
	return all
}

// merged joins doubts that say the same of several loads.
func merged(doubts []SetDoubt) []SetDoubt {
	var all []SetDoubt
	loads := map[int][]string{}
	for _, d := range doubts {
		at := slices.IndexFunc(all, func(x SetDoubt) bool {
			return x.Cause == d.Cause && x.Evidence == d.Evidence && x.Severity == d.Severity && x.Variant == d.Variant
		})
		if at < 0 {
			at = len(all)
			all = append(all, d)
		} else {
			all[at].Trials = append(all[at].Trials, d.Trials...)
		}
		loads[at] = append(loads[at], d.Load)
	}
	for i := range all {
		if len(loads[i]) > 1 {
			all[i].Load = strings.Join(loads[i], ", ")
		}
	}
	return all
}

// few joins texts, and counts those beyond the first.
func few(all []string, most int) string {
	if len(all) > most {
		return strings.Join(all[:most], "; ") + fmt.Sprintf("; and %d more", len(all)-most)
	}
	return strings.Join(all, "; ")
}

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func number(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
