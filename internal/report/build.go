package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/audit"
	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/plan"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/store"
)

// Build derives the model from a run's raw records. It is a pure function of
// the run: building it again gives the same model, which is what verify checks.
func Build(run *store.Run) (*Model, error) {
	var p plan.Plan
	if err := json.Unmarshal(run.Plan, &p); err != nil {
		return nil, fmt.Errorf("reading the run's plan: %w", err)
	}
	if err := p.Verify(); err != nil {
		return nil, fmt.Errorf("reading the run's plan: %w", err)
	}
	var err error
	if p.Study, err = p.Resolve(run.Frozen, run.Calibration); err != nil {
		return nil, fmt.Errorf("reading the run's calibration: %w", err)
	}
	b := newBuilder(p.Study, host(run), run.Outcomes)
	m := &Model{Schema: ModelSchema, Name: p.Study.Name, Question: p.Study.Question}
	m.Run = describeRun(run, p)
	m.Variants, m.Loads, m.Metrics = variants(p.Study), b.loads(), metrics(p.Study)
	m.Run.Blocks = b.completeBlocks()
	b.cells(m)
	b.compare(m)
	m.Findings = b.findings
	m.Curves, m.Timelines, m.Flows, m.Failovers, m.Resources = b.curves(), b.timelines(), b.flows(), b.failovers(), b.resources()
	m.Ledger, m.Topology, m.Trials = b.ledger(), b.topology(), b.trials()
	m.Gates = gates(p.Study, m)
	m.Published = b.published(m)
	m.Fleet = b.fleet(m)
	m.Breakdowns = b.breakdowns(run.Broken, m)
	m.Results = b.results(m)
	m.Provenance = provenance(run)
	m.Unavailable = b.unavailable()
	m.Answer = answer(m)
	return m, nil
}

func host(run *store.Run) model.Host {
	if len(run.Sessions) == 0 {
		return model.Host{}
	}
	return run.Sessions[len(run.Sessions)-1].Host
}

// errFewSamples is why a quantile is not compared.
var errFewSamples = errors.New("one trial has fewer than ten samples beyond this quantile: not compared")

// builder holds what the parts of a model are derived from.
type builder struct {
	study    model.Study
	host     model.Host
	outcomes []model.Outcome
	findings []model.Finding
	invalid  map[int]bool
	known    map[string][]metric.Metric                 // by load; see has
	values   map[*model.Outcome]map[string]metric.Value // see value
}

func newBuilder(s model.Study, h model.Host, outcomes []model.Outcome) *builder {
	b := &builder{study: s, host: h, outcomes: slices.Clone(outcomes), known: map[string][]metric.Metric{}, values: map[*model.Outcome]map[string]metric.Value{}}
	slices.SortFunc(b.outcomes, func(x, y model.Outcome) int { return x.Trial.Index - y.Trial.Index })
	b.findings = audit.Judge(audit.Evidence{Study: s, Host: h, Outcomes: b.outcomes}, audit.Rules())
	b.invalid = audit.Invalid(b.findings)
	return b
}

// value is a metric of one of the builder's outcomes. Every comparison asks for
// the baseline's again, so all of an outcome's are computed once.
func (b *builder) value(o *model.Outcome, name string) (float64, error) {
	all := b.values[o]
	if all == nil {
		all = metric.Values(o)
		b.values[o] = all
	}
	v, known := all[name]
	if !known {
		return metric.Of(o, name) // which says what is known
	}
	return v.Value, v.Err
}

// of returns the usable outcomes of a variant under a load, in block order.
func (b *builder) of(variant, load string) []*model.Outcome {
	var all []*model.Outcome
	for i := range b.outcomes {
		o := &b.outcomes[i]
		if o.Trial.Variant == variant && o.Trial.Load == load && !b.invalid[o.Trial.Index] {
			all = append(all, o)
		}
	}
	return all
}

func (b *builder) completeBlocks() int {
	count := map[int]int{}
	for _, o := range b.outcomes {
		count[o.Trial.Block]++
	}
	complete := 0
	for _, n := range count {
		if n == len(b.study.Variants)*len(b.study.Loads) {
			complete++
		}
	}
	return complete
}

func describeRun(run *store.Run, p plan.Plan) Run {
	r := Run{
		ID: run.Meta.ID, Started: run.Meta.Created, Target: p.Study.Target, Command: run.Meta.Command,
		Verify: "windtunnel verify " + run.Meta.Dir, Baseline: p.Study.Baseline, Planned: len(p.Trials), Done: len(run.Outcomes),
		PlanDigest: p.Digest, Seed: p.Study.Design.Seed, Level: stats.Level, Stopped: "not finished: windtunnel run --resume " + run.Meta.Dir,
	}
	for _, o := range run.Outcomes {
		if o.Failure != nil {
			r.Failed++
		}
	}
	if n := len(run.Sessions); n > 0 {
		r.Version = run.Sessions[n-1].Version
	}
	if run.End != nil {
		r.Stopped, r.Complete = run.End.Reason, run.End.Complete
		r.TookSeconds = math.Round(run.End.At.Sub(run.Meta.Created).Seconds())
	}
	return r
}

func variants(s model.Study) []Variant {
	var all []Variant
	for _, v := range s.Variants {
		out := Variant{Name: v.Name, Stack: []string{}, Baseline: v.Name == s.Baseline, Control: v.Control}
		for _, l := range v.Stack {
			out.Stack = append(out.Stack, l.Kind)
		}
		all = append(all, out)
	}
	return all
}

func metrics(s model.Study) []Metric {
	var all []Metric
	for _, d := range metric.All() {
		all = append(all, Metric{Name: d.Name, Label: d.Label, Unit: string(d.Unit), Better: string(d.Better), Primary: slices.Contains(s.Design.Primary, d.Name)})
	}
	return all
}

// cells fills in one cell for each variant, load and metric.
func (b *builder) cells(m *Model) {
	for _, v := range b.study.Variants {
		for _, l := range b.study.Loads {
			for _, d := range b.has(l.Name) {
				m.Cells = append(m.Cells, b.cell(v.Name, l.Name, d))
			}
		}
	}
}

func (b *builder) cell(variant, load string, d metric.Metric) Cell {
	c := Cell{Variant: variant, Load: load, Metric: d.Name, Values: []Value{}}
	var used []float64
	for i := range b.outcomes {
		o := &b.outcomes[i]
		if o.Trial.Variant != variant || o.Trial.Load != load {
			continue
		}
		v, err := b.value(o, d.Name)
		if err != nil {
			c.Reason = err.Error()
			continue
		}
		bad := b.invalid[o.Trial.Index]
		c.Values = append(c.Values, Value{Trial: o.Trial.Index, Block: o.Trial.Block, Value: v, Invalid: bad})
		if !bad {
			used = append(used, v)
		}
	}
	if len(used) == 0 {
		return c
	}
	if q, ok := metric.Quantile(d.Name); ok && !b.carries(variant, load, d.Name, q) {
		return b.pooled(c, q)
	}
	e, err := stats.SignedRank(used, stats.Level)
	if err != nil {
		slices.Sort(used)
		e = stats.Estimate{Value: stats.HodgesLehmann(used), Lo: used[0], Hi: used[len(used)-1], N: len(used), Method: "range: " + err.Error()}
	}
	c.Reason, c.Estimate = "", estimate(e)
	switch d.Name {
	case "success":
		c.Text = b.successText(variant, load)
	case "loss":
		c.Text = b.lossText(variant, load)
	}
	return c
}

func estimate(e stats.Estimate) *Estimate {
	return &Estimate{Value: e.Value, Lo: e.Lo, Hi: e.Hi, N: e.N, Method: e.Method}
}

// carries says whether every single trial has ten samples beyond the quantile.
func (b *builder) carries(variant, load, name string, q float64) bool {
	for _, o := range b.of(variant, load) {
		if h := metric.Histogram(o, name); h == nil || !stats.QuantileAllowed(h.Count(), q) {
			return false
		}
	}
	return true
}

// pooled gives a quantile of all trials together, with the interval of a
// bootstrap over blocks; or says why not even that is possible.
func (b *builder) pooled(c Cell, q float64) Cell {
	var hists []*hist.Histogram
	total := &hist.Histogram{}
	for _, o := range b.of(c.Variant, c.Load) {
		if h := metric.Histogram(o, c.Metric); h != nil {
			hists = append(hists, h)
			total.Merge(h)
		}
	}
	c.Pooled = true
	if !stats.QuantileAllowed(total.Count(), q) {
		c.Reason = fmt.Sprintf("%d samples in all trials together: fewer than ten lie beyond it", total.Count())
		return c
	}
	e := stats.PooledQuantile(hists, q, b.study.Design.Seed)
	c.Reason, c.Estimate = "", estimate(e)
	return c
}

func (b *builder) successText(variant, load string) string {
	var good, due uint64
	for _, o := range b.of(variant, load) {
		good += o.Load.Succeeded
		due += o.Load.Due
	}
	if due == 0 || good < due {
		return ""
	}
	return "100 % (≥ " + share(stats.RuleOfThree(due)) + ")"
}

// lossText bounds a loss of which nothing was seen.
func (b *builder) lossText(variant, load string) string {
	var lost, sent uint64
	for _, o := range b.of(variant, load) {
		if d := o.Load.Datagrams; d != nil {
			lost += d.Lost
			sent += d.Sent
		}
	}
	if sent == 0 || lost > 0 {
		return ""
	}
	return "0 % (≤ " + share(1-stats.RuleOfThree(sent)) + ")"
}

// paired returns the values of a metric in the blocks that have both arms.
func (b *builder) paired(reference, variant, load, name string) (base, other []float64) {
	baseline := map[int]float64{}
	for _, o := range b.of(reference, load) {
		if v, err := b.value(o, name); err == nil {
			baseline[o.Trial.Block] = v
		}
	}
	for _, o := range b.of(variant, load) {
		v, err := b.value(o, name)
		if was, ok := baseline[o.Trial.Block]; ok && err == nil {
			base, other = append(base, was), append(other, v)
		}
	}
	return base, other
}

// judged is a comparison with what its verdict rests on.
type judged struct {
	*Comparison
	raw        stats.Comparison
	equivalent bool
}

// compare sets every variant against the baseline, corrects the primary
// metrics as one family, and only then judges.
func (b *builder) compare(m *Model) {
	var all []judged
	for _, l := range b.study.Loads {
		for _, d := range b.has(l.Name) {
			floor := b.floor(l.Name, d.Name)
			for _, v := range b.study.Variants {
				if v.Name != b.study.Baseline {
					all = append(all, b.comparison(v, l, d, floor))
				}
			}
		}
	}
	b.correct(all)
	for _, j := range all {
		if j.Difference != nil && !b.isControl(j.Variant) {
			j.Verdict = string(stats.Judge(j.raw, j.Floor, j.equivalent))
		}
		m.Comparisons = append(m.Comparisons, *j.Comparison)
	}
}

// correct replaces the p-values of the primary metrics by Holm's.
func (b *builder) correct(all []judged) {
	var family []*judged
	var p []float64
	for i := range all {
		j := &all[i]
		j.Exploratory = b.isControl(j.Variant) || !slices.Contains(b.study.Design.Primary, j.Metric)
		if !j.Exploratory && j.Difference != nil {
			family, p = append(family, j), append(p, j.P)
		}
	}
	reachable := b.reachable(len(p))
	for i, corrected := range stats.Holm(p) {
		family[i].PHolm = corrected
		if reachable {
			family[i].raw.P = corrected
		}
	}
	if !reachable {
		b.findings = append(b.findings, model.Finding{
			Rule: "many comparisons uncorrected", Severity: model.SeverityNote,
			Cause:    "so few blocks cannot reach 5 % after a correction for so many comparisons; the verdicts are uncorrected",
			Evidence: fmt.Sprintf("%d primary comparisons; the smallest p of %d blocks is %.3g", len(p), b.completeBlocks(), smallestP(b.completeBlocks())),
			Advice:   "run more blocks (each halves the smallest p), or declare fewer primary metrics",
		})
	}
}

// reachable says whether the blocks can show anything in a family of this size.
func (b *builder) reachable(family int) bool {
	return smallestP(b.completeBlocks())*float64(family) <= 1-stats.Level
}

// smallestP is what Wilcoxon's signed ranks give when all blocks agree.
func smallestP(blocks int) float64 { return math.Pow(2, 1-float64(blocks)) }

func (b *builder) isControl(variant string) bool {
	return slices.ContainsFunc(b.study.Variants, func(v model.Variant) bool { return v.Name == variant && v.Control })
}

func (b *builder) floor(load, name string) float64 {
	for _, v := range b.study.Variants {
		if !v.Control {
			continue
		}
		base, control := b.paired(b.study.Baseline, v.Name, load, name)
		if c, err := stats.Paired(base, control); err == nil {
			return stats.Floor(c.Difference)
		}
	}
	return 0
}

func (b *builder) comparison(v model.Variant, l model.Load, d metric.Metric, floor float64) judged {
	c := &Comparison{Variant: v.Name, Load: l.Name, Metric: d.Name, Verdict: VerdictUnknown, Floor: floor, P: 1}
	j := judged{Comparison: c}
	r, equivalent, err := b.pair(b.study.Baseline, v.Name, l.Name, d.Name)
	if err != nil {
		few := new(stats.TooFewError)
		c.Reason, c.Few = err.Error(), errors.As(err, &few) && few.Have > 0
		return j
	}
	j.raw, j.equivalent = r, equivalent
	c.Difference, c.P = estimate(r.Difference), r.P
	c.Detectable = max(r.Detectable, floor)
	c.Verdict = VerdictNone
	if r.NoRatio != nil {
		c.Reason = r.NoRatio.Error()
	} else {
		c.Ratio = estimate(r.Ratio)
	}
	return j
}

// pair compares two variants block by block; the error says why it cannot.
func (b *builder) pair(reference, variant, load, name string) (r stats.Comparison, equivalent bool, err error) {
	if q, ok := metric.Quantile(name); ok && (!b.carries(variant, load, name, q) || !b.carries(reference, load, name, q)) {
		return r, false, errFewSamples
	}
	base, other := b.paired(reference, variant, load, name)
	if r, err = stats.Paired(base, other); err != nil {
		return r, false, err
	}
	return r, stats.Equivalent(base, other, b.study.Design.Equivalence), nil
}

func (b *builder) unavailable() []string {
	seen := map[string]bool{}
	for _, o := range b.outcomes {
		for _, u := range o.Unavailable {
			seen[u] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// cpuDistances is how far apart a virtual machine's CPUs were: the median before
// the loads, and the extremes.
func cpuDistances(all []model.Outcome) string {
	usual, least, most := metric.CPUDistances(all)
	if usual == 0 {
		return "not known"
	}
	return fmt.Sprintf("%s to read what another has just written (%s to %s)", usual, least, most)
}

func provenance(run *store.Run) []Entry {
	h := host(run)
	e := []Entry{
		{"run", run.Meta.ID},
		{"study", run.Meta.StudySource},
		{"study digest (SHA-256)", run.Meta.StudyDigest},
		{"plan digest (SHA-256)", run.Meta.PlanDigest},
		{"host", fmt.Sprintf("%s, kernel %s, %s", h.OS, h.Kernel, h.Arch)},
		{"CPU", fmt.Sprintf("%s, %d cores", h.CPU, h.Cores)},
		{"memory", FormatValue(metric.UnitBytes, float64(h.MemoryBytes))},
		{"virtual machine", orNo(h.Virtualised)},
		{"TCP congestion control", cmp.Or(h.Congestion, "not known")},
		{"idle CPUs", cmp.Or(h.IdleCPUs, "not known")},
		{"control groups", h.Cgroups},
		{"rootless", strconv.FormatBool(h.Rootless)},
		{"distance of the CPUs", cpuDistances(run.Outcomes)},
		{"generator's CPUs", fmt.Sprint(h.GeneratorCPUs)},
		{"CPUs of everything else", fmt.Sprint(h.OtherCPUs)},
	}
	for _, n := range h.Notes {
		e = append(e, Entry{"note", n})
	}
	for i, s := range run.Sessions {
		e = append(e, Entry{fmt.Sprintf("session %d", i+1), s.Started.Format("2006-01-02 15:04:05 MST") + ", windtunnel " + s.Version})
	}
	return e
}

func orNo(s string) string {
	if strings.TrimSpace(s) == "" {
		return "no"
	}
	return s
}

// FromOutcomes builds the cells and comparisons alone, for a run under way.
func FromOutcomes(p plan.Plan, outcomes []model.Outcome) *Model {
	b := newBuilder(p.Study, model.Host{}, outcomes)
	m := &Model{}
	b.cells(m)
	b.compare(m)
	return m
}
