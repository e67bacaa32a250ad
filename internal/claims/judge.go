package claims

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/audit"
	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// Verdict is what results say of a claim.
type Verdict string

// The verdicts.
const (
	Supported    Verdict = "supported"
	NotSupported Verdict = "not supported"
	Contradicted Verdict = "contradicted"
	CannotTell   Verdict = "cannot be told"
)

// Result is a claim with its verdict and what that rests on.
type Result struct {
	Claim   string  `json:"claim"`
	Says    string  `json:"says,omitempty"`
	Line    int     `json:"line,omitempty"`
	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why"`
	// Test, N, Estimate, Lo, Hi and P are of comparisons: the difference of left
	// and right, or their ratio; PHolm is P corrected for all claims of the file.
	Test     string   `json:"test,omitempty"`
	N        int      `json:"n,omitempty"`
	Estimate *float64 `json:"estimate,omitempty"`
	Lo       *float64 `json:"lo,omitempty"`
	Hi       *float64 `json:"hi,omitempty"`
	P        *float64 `json:"p,omitempty"`
	PHolm    *float64 `json:"p_holm,omitempty"`
	// Doubts are the findings that touch the runs of the claim.
	Doubts []string `json:"doubts,omitempty"`
	// Table is the comparison of a printed table with the runs.
	Table *Match `json:"table,omitempty"`
}

// Data is what claims are held against.
type Data struct {
	Evidence audit.Evidence
	Findings []model.Finding
	Tables   map[string]Table // by the name that the claim has for the file
}

// Judge gives every claim its verdict. Claims of one file are one family: their
// p-values are corrected by Holm.
func Judge(f File, d Data) []Result {
	all := subjects(d.Evidence)
	results := make([]Result, len(f.Claims))
	tests := make([]*tested, len(f.Claims))
	var family []int
	var ps []float64
	for i, c := range f.Claims {
		results[i] = Result{Claim: c.Text, Says: c.Says, Line: c.Line}
		if c.Table != "" {
			m := Compare(d.Tables[c.Table], d.Evidence, c.Names, c.Runs)
			results[i].Table = &m
			results[i].Verdict, results[i].Why = m.verdict()
			continue
		}
		t := prepare(c, all, d.Tables[c.Data])
		tests[i] = &t
		if t.err == nil && !math.IsNaN(t.p) {
			family, ps = append(family, i), append(ps, t.p)
		}
	}
	corrected := stats.Holm(ps)
	for at, i := range family {
		tests[i].holm, tests[i].family = corrected[at], len(family)
	}
	for i, t := range tests {
		if t != nil {
			t.judge(&results[i], d.Findings)
		}
	}
	return results
}

// tested is a claim with its test.
type tested struct {
	claim    Claim
	err      error // why there is no test
	unit     string
	pairs    int // that lie on the claimed side
	n, m     int // pairs, or values of either side
	paired   bool
	estimate stats.Estimate
	p, holm  float64
	family   int // claims that are corrected for together
	sign     float64
	left     float64 // medians, for people
	right    float64
	trials   map[int]bool
}

func prepare(c Claim, all []subject, table Table) tested {
	t := tested{claim: c, p: math.NaN(), trials: map[int]bool{}}
	e := c.expression
	var a, b map[string]float64
	if c.Data != "" {
		a, b, t.err = table.columns(e)
	} else {
		a, b, t.err = t.select2(e, all)
		t.unit = unitOf(e.metric)
	}
	if t.err != nil {
		return t
	}
	t.test(e, a, b)
	return t
}

// select2 is the values of both sides, each by what names it beside the side.
func (t *tested) select2(e expression, all []subject) (a, b map[string]float64, err error) {
	var in []subject
	keep := slices.Clone(all)
	for _, text := range append(slices.Clone(e.in), e.except...) {
		s := newSelection(text, all)
		wanted := !slices.Contains(e.except, text)
		in = nil
		for _, sub := range keep {
			if s.holds(sub) == wanted {
				in = append(in, sub)
			}
		}
		keep = in
	}
	a, err = t.side(e, e.left, keep)
	if err != nil || e.right == "" {
		return a, nil, err
	}
	b, err = t.side(e, e.right, keep)
	return a, b, err
}

func (t *tested) side(e expression, text string, all []subject) (map[string]float64, error) {
	s := newSelection(text, all)
	sums, counts := map[string]float64{}, map[string]float64{}
	for _, sub := range all {
		if !s.holds(sub) {
			continue
		}
		v, ok := sub.value(e.metric)
		if !ok {
			continue
		}
		key := s.rest(sub)
		sums[key] += v
		counts[key]++
		t.trials[sub.outcome.Trial.Index] = true
	}
	if len(sums) == 0 {
		var known []string
		for _, sub := range all {
			known = append(known, sub.Variant)
		}
		slices.Sort(known)
		return nil, fmt.Errorf("no run is %q with a %s; the variants are %s", text, e.metric, strings.Join(slices.Compact(known), ", "))
	}
	for k := range sums {
		sums[k] /= counts[k]
	}
	return sums, nil
}

// test compares: paired by what names both sides alike, or by ranks.
func (t *tested) test(e expression, a, b map[string]float64) {
	var left, right []float64
	for _, k := range sortedOf(a) {
		if v, ok := b[k]; ok || b == nil {
			left, right = append(left, a[k]), append(right, v)
		}
	}
	t.paired = b == nil || len(left) == len(a) && len(left) == len(b)
	if b == nil {
		for i := range right {
			right[i] = e.value
		}
	}
	if !t.paired {
		left, right = values(a), values(b)
	}
	t.left, t.right, t.n = stats.HodgesLehmann(left), stats.HodgesLehmann(right), len(left)
	t.m = len(right)
	compare := stats.Unpaired
	if t.paired {
		t.signs(e, left, right)
		compare = stats.Paired
	}
	c, err := compare(right, left)
	if few, ok := errors.AsType[*stats.TooFewError](err); ok {
		err = fmt.Errorf("%w: too few runs to tell", few)
	}
	t.err, t.p, t.estimate = err, c.P, c.Difference
	if err == nil && (e.op == opRatio || e.op == opEqual) {
		t.err, t.estimate = c.NoRatio, c.Ratio
	}
}

// signs counts the pairs on the claimed side, and gives the sign test's p.
func (t *tested) signs(e expression, left, right []float64) {
	less, more := 0, 0
	for i := range left {
		switch {
		case left[i] < right[i]:
			less++
		case left[i] > right[i]:
			more++
		}
	}
	t.sign = SignP(less, more)
	t.pairs = less
	if e.op == opGreater || e.op == opAtLeast {
		t.pairs = more
	}
}

// SignP is the two-sided p-value of the sign test: how often a fair coin falls
// at least so unevenly.
func SignP(less, more int) float64 {
	n, k := less+more, min(less, more)
	var tail float64
	for i := range k + 1 {
		ln, _ := math.Lgamma(float64(n + 1))
		li, _ := math.Lgamma(float64(i + 1))
		lr, _ := math.Lgamma(float64(n - i + 1))
		tail += math.Exp(ln - li - lr - float64(n)*math.Ln2)
	}
	return min(1, 2*tail) //nolint:mnd // two-sided
}

func (t *tested) judge(r *Result, findings []model.Finding) {
	r.Doubts = t.doubts(findings)
	if t.err != nil {
		r.Verdict, r.Why = CannotTell, t.err.Error()
		if t.n > 0 {
			r.N = t.n
			r.Why += "; " + t.medians()
			if t.paired && t.claim.expression.right != "" {
				r.Why += fmt.Sprintf("; %d of %d pairs as claimed", t.pairs, t.n)
			}
		}
		return
	}
	r.N, r.Test = t.n, t.estimate.Method
	r.Estimate, r.Lo, r.Hi, r.P, r.PHolm = &t.estimate.Value, &t.estimate.Lo, &t.estimate.Hi, &t.p, &t.holm
	r.Verdict, r.Why = t.verdict()
	if least := t.least() * float64(t.family); r.Verdict == NotSupported && least > 1-stats.Level {
		r.Verdict, r.Why = CannotTell, fmt.Sprintf("so few runs could not show it among %d claims, whatever they were: %s", t.family, r.Why)
	}
	if invalid := t.invalid(findings); len(invalid) > 0 {
		r.Why = fmt.Sprintf("the runs must not be used (%s); they show: %s", strings.Join(invalid, ", "), r.Why)
		r.Verdict = CannotTell
	}
}

func (t *tested) verdict() (Verdict, string) {
	e := t.claim.expression
	why := t.medians() + "; " + t.interval()
	if t.paired && e.right != "" && e.op != opEqual && e.op != opRatio {
		why += fmt.Sprintf("; %d of %d pairs as claimed, sign test p = %s", t.pairs, t.n, small(t.sign))
	}
	if e.op == opRatio {
		return t.within(e.low, e.high, why+fmt.Sprintf("; claimed %s to %s", digits(e.low), digits(e.high)))
	}
	if e.op == opEqual {
		margin := t.claim.Margin
		if margin == 0 {
			margin = 0.05
		}
		return t.within(1/(1+margin), 1+margin, why+fmt.Sprintf("; equal within %s %%", digits(margin*100)))
	}
	shown := t.holm <= 1-stats.Level
	below, above := shown && t.estimate.Hi < 0, shown && t.estimate.Lo > 0
	if e.op == opGreater || e.op == opAtLeast {
		below, above = above, below
	}
	return t.alone(below, above, why)
}

// within is for claims of a ratio: its interval lies inside or outside a range.
func (t *tested) within(low, high float64, why string) (Verdict, string) {
	lo, hi := t.estimate.Lo, t.estimate.Hi
	return side(lo >= low && hi <= high, hi < low || lo > high, why)
}

// alone is side for claims of a direction, whose p-value is corrected.
func (t *tested) alone(yes, no bool, why string) (Verdict, string) {
	if !yes && !no && t.p <= 1-stats.Level {
		return NotSupported, fmt.Sprintf("shown by itself, but not when corrected for %d claims: %s", t.family, why)
	}
	return side(yes, no, why)
}

// least is the smallest p-value that so many runs can give; nothing is asked of
// it where the claim is judged by the interval alone.
func (t *tested) least() float64 {
	switch op := t.claim.expression.op; {
	case op == opRatio || op == opEqual:
		return 0
	case t.paired:
		return math.Pow(2, 1-float64(t.n)) //nolint:mnd // Wilcoxon: all signs alike
	}
	return stats.SmallestRankSumP(t.n, t.m)
}

func side(yes, no bool, why string) (Verdict, string) {
	switch {
	case yes:
		return Supported, why
	case no:
		return Contradicted, why
	}
	return NotSupported, "no such difference shown: " + why
}

func (t *tested) medians() string {
	e := t.claim.expression
	right := e.right
	if right == "" {
		return fmt.Sprintf("%s %s", e.left, show(t.left, t.unit))
	}
	return fmt.Sprintf("%s %s, %s %s", e.left, show(t.left, t.unit), right, show(t.right, t.unit))
}

func (t *tested) interval() string {
	how := fmt.Sprintf("%d pairs", t.n)
	switch {
	case !t.paired:
		how = fmt.Sprintf("%d and %d runs, unpaired", t.n, t.m)
	case t.claim.expression.right == "":
		how = fmt.Sprintf("%d runs", t.n)
	}
	if e := t.claim.expression; e.op == opRatio || e.op == opEqual {
		return fmt.Sprintf("ratio %s, 95 %% interval %s to %s of %s", digits(t.estimate.Value), digits(t.estimate.Lo), digits(t.estimate.Hi), how)
	}
	return fmt.Sprintf("difference %s, 95 %% interval %s to %s of %s, p = %s, %s by Holm",
		show(t.estimate.Value, t.unit), show(t.estimate.Lo, t.unit), show(t.estimate.Hi, t.unit), how, small(t.p), small(t.holm))
}

// invalid are the rules that forbid to use a run of the claim.
func (t *tested) invalid(findings []model.Finding) []string {
	return rules(findings, t.trials, t.claim, model.SeverityInvalid)
}

func (t *tested) doubts(findings []model.Finding) []string {
	return append(rules(findings, t.trials, t.claim, model.SeverityInvalid), rules(findings, t.trials, t.claim, model.SeveritySuspect)...)
}

func rules(findings []model.Finding, trials map[int]bool, c Claim, severity model.Severity) []string {
	var all []string
	for _, f := range findings {
		touches := len(f.Trials) == 0 && c.Data == "" && severity != model.SeverityInvalid
		for _, i := range f.Trials {
			touches = touches || trials[i]
		}
		if f.Severity == severity && touches && about(f.Metrics, c.expression.metric) && !slices.Contains(all, f.Rule) {
			all = append(all, f.Rule)
		}
	}
	return all
}

// about says whether a finding on those metrics speaks of this one.
func about(metrics []string, name string) bool {
	if len(metrics) == 0 {
		return true
	}
	for _, m := range metrics {
		group, quantile, _ := strings.Cut(m, ".")
		if m == name || strings.HasPrefix(name, m+".") || quantile == name {
			return true
		}
		if _, latency := share(name); quantile == "" && (group == "response" || group == "service") && (latency || slices.Contains([]string{"min", "max", "mean"}, name)) {
			return true
		}
	}
	return false
}

func unitOf(name string) string {
	if m, ok := metric.Lookup(name); ok {
		return string(m.Unit)
	}
	switch name {
	case "success", "loss":
		return "share"
	case "rate":
		return "/s"
	case "goodput":
		return "bit/s"
	}
	return "s"
}

func show(v float64, unit string) string {
	switch unit {
	case "s":
		return digits(v*1000) + " ms"
	case "share":
		return digits(v*100) + " %"
	case "":
		return digits(v)
	}
	return digits(v) + unit
}

func digits(v float64) string {
	if math.Abs(v) >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.4g", v)
}

func small(p float64) string {
	if p < 0.001 {
		return "under 0.001"
	}
	return fmt.Sprintf("%.2g", p)
}

func values[V any](m map[string]V) []V {
	var all []V
	for _, k := range sortedOf(m) {
		all = append(all, m[k])
	}
	return all
}

func sortedOf[V any](m map[string]V) []string {
	var all []string
	for k := range m {
		all = append(all, k)
	}
	slices.SortFunc(all, cmp.Compare[string])
	return all
}
