package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/stats"
)

const percent = 100

// Published is another source's figures and claims beside ours.
type Published struct {
	Source    string           `json:"source"`
	URL       string           `json:"url"`
	Tolerance float64          `json:"tolerance"` // of its figures, as a share
	Cells     []PublishedCell  `json:"cells"`
	Claims    []PublishedClaim `json:"claims"`
}

// How a published figure agrees with ours.
const (
	AgreementCovers   = "covered"        // our interval and the figure, with its tolerance, overlap
	AgreementOrder    = "same order"     // not covered, but on the same side of the reference variant
	AgreementOpposite = "opposite order" // on the other side of it
	AgreementNoOrder  = "not covered"    // and there is no order: theirs, ours or the reference is missing
	AgreementNot      = "not comparable"
)

// PublishedCell is a published figure beside our estimate of the same metric.
type PublishedCell struct {
	Variant string `json:"variant"`
	Load    string `json:"load"`
	Metric  string `json:"metric"` // empty: none of ours
	Column  string `json:"column"`
	Printed string `json:"printed"` // as it was published, e.g. "0.75 ms"
	// Lo and Hi are its rows' extremes in the metric's unit, without the tolerance.
	Lo        float64   `json:"lo"`
	Hi        float64   `json:"hi"`
	Ours      *Estimate `json:"ours,omitempty"`
	Agreement string    `json:"agreement"`
	Detail    string    `json:"detail"`
}

// What our intervals say of a published claim.
const (
	ClaimSupported    = "supported"
	ClaimNotSupported = "not supported"
	ClaimContradicted = "contradicted"
	ClaimUnknown      = "cannot be told"
)

// PublishedClaim is a published sentence under one load, judged by ours. Ours is
// left / right.
type PublishedClaim struct {
	Text     string    `json:"text"`
	Metric   string    `json:"metric"`
	Load     string    `json:"load"`
	Left     string    `json:"left"`
	Relation string    `json:"relation"`
	Right    string    `json:"right"`
	Size     string    `json:"size"` // e.g. "by 20 % to 30 %"; empty: none is claimed
	Ours     *Estimate `json:"ours,omitempty"`
	Verdict  string    `json:"verdict"`
	Detail   string    `json:"detail"`
}

func (b *builder) published(m *Model) []Published {
	var all []Published
	claims := b.newClaims()
	for _, p := range b.study.Published {
		out := Published{Source: p.Source, URL: p.URL, Tolerance: p.Tolerance, Cells: []PublishedCell{}, Claims: []PublishedClaim{}}
		for _, c := range p.Cells {
			out.Cells = append(out.Cells, b.publishedCell(m, p, c))
		}
		for _, c := range p.Claims {
			out.Claims = append(out.Claims, claims.judge(c, p.Tolerance)...)
		}
		all = append(all, out)
	}
	return all
}

// span is where a published figure may lie: the extremes of its rows, widened
// by the tolerance.
func span(c model.PublishedCell, tolerance float64) (lo, hi float64) {
	lo, hi = slices.Min(c.Values), slices.Max(c.Values)
	return lo - math.Abs(lo)*tolerance, hi + math.Abs(hi)*tolerance
}

// printed is a figure as it was published: one row, or the range of several.
func printed(c model.PublishedCell) string {
	low, high := 0, 0
	for i, v := range c.Values {
		if v < c.Values[low] {
			low = i
		}
		if v > c.Values[high] {
			high = i
		}
	}
	text := c.Printed[low]
	if c.Values[low] < c.Values[high] {
		text += " to " + c.Printed[high]
	}
	return text + " " + c.Unit
}

func (b *builder) publishedCell(m *Model, p model.Published, c model.PublishedCell) PublishedCell {
	out := PublishedCell{Variant: c.Variant, Load: c.Load, Metric: c.Metric, Column: c.Column, Printed: printed(c), Lo: slices.Min(c.Values), Hi: slices.Max(c.Values), Agreement: AgreementNot}
	cell := m.Cell(c.Variant, c.Load, c.Metric)
	if cell != nil {
		out.Ours = cell.Estimate
	}
	switch {
	case c.Incomparable != "":
		out.Detail = c.Incomparable
	case cell == nil:
		out.Detail = "the load does not have this metric"
	case cell.Estimate == nil:
		out.Detail = orElse(cell.Reason, "not measured")
	case strings.HasPrefix(cell.Estimate.Method, "range"):
		out.Detail = cell.Estimate.Method
	default:
		out.Agreement, out.Detail = b.agreement(p, c, *cell.Estimate)
	}
	return out
}

func orElse(text, other string) string {
	if text != "" {
		return text
	}
	return other
}

// agreement sets a figure beside our interval and, where that does not cover
// it, their order of two variants beside ours.
func (b *builder) agreement(p model.Published, c model.PublishedCell, ours Estimate) (agreement, detail string) {
	lo, hi := span(c, p.Tolerance)
	if ours.Lo <= hi && lo <= ours.Hi {
		return AgreementCovers, "our interval and the published figure overlap"
	}
	times := "ours is " + digits(ours.Value/((lo+hi)/2)) + " times the published figure" //nolint:mnd // the middle
	if lo+hi == 0 {
		times = "the published figure is 0"
	}
	i := slices.IndexFunc(p.Cells, func(r model.PublishedCell) bool { return b.isReference(p, r, c) })
	if i < 0 {
		return AgreementNoOrder, times + "; there is no other variant to order it by"
	}
	reference := p.Cells[i]
	theirLo, theirHi := span(reference, p.Tolerance)
	theirs := 0
	switch {
	case lo > theirHi:
		theirs = 1
	case hi < theirLo:
		theirs = -1
	}
	r, equivalent, err := b.pair(reference.Variant, c.Variant, c.Load, c.Metric)
	if err != nil {
		return AgreementNoOrder, times + "; our order against " + reference.Variant + " cannot be told: " + err.Error()
	}
	verdict := stats.Judge(r, b.floor(c.Load, c.Metric), equivalent)
	switch ourSign := int(math.Copysign(1, r.Difference.Value)); {
	case theirs == 0:
		return AgreementNoOrder, times + "; the published figures show no order against " + reference.Variant
	case verdict != stats.VerdictDifferent:
		return AgreementNoOrder, times + "; ours show no difference to " + reference.Variant
	case ourSign == theirs:
		return AgreementOrder, times + "; both are " + side(theirs) + " " + reference.Variant
	}
	return AgreementOpposite, times + "; theirs is " + side(theirs) + " " + reference.Variant + ", ours " + side(-theirs)
}

func side(sign int) string {
	if sign > 0 {
		return "above"
	}
	return "below"
}

// isReference picks what a published figure is ordered by: the study's
// baseline or, where that was not published or is the figure itself, nothing
// else than the first variant that was.
func (b *builder) isReference(p model.Published, r, c model.PublishedCell) bool {
	same := func(x model.PublishedCell) bool {
		return x.Load == c.Load && x.Metric == c.Metric && x.Incomparable == ""
	}
	hasBaseline := slices.ContainsFunc(p.Cells, func(x model.PublishedCell) bool { return same(x) && x.Variant == b.study.Baseline })
	if hasBaseline && c.Variant != b.study.Baseline {
		return same(r) && r.Variant == b.study.Baseline
	}
	return same(r) && r.Variant != c.Variant
}

// claims judges published claims. All of a study are one family, corrected by
// Holm: whoever asks many questions of one run finds some answer by chance.
type claims struct {
	*builder
	corrected map[string]float64 // p by claim and load
	note      string
}

type pairing struct{ left, right, load, metric string }

func (p pairing) key() string {
	return strings.Join([]string{p.left, p.right, p.load, p.metric}, "\x00")
}

func (b *builder) newClaims() *claims {
	c := &claims{builder: b, corrected: map[string]float64{}}
	var keys []string
	var raw []float64
	for _, p := range b.study.Published {
		for _, claim := range p.Claims {
			for _, load := range b.loadsOf(claim) {
				k := pairing{claim.Left, claim.Right, load, claim.Metric}
				if r, _, err := b.pair(k.right, k.left, load, claim.Metric); err == nil && !slices.Contains(keys, k.key()) {
					keys, raw = append(keys, k.key()), append(raw, r.P)
				}
			}
		}
	}
	judgedBy := stats.Holm(raw)
	if !b.reachable(len(raw)) {
		judgedBy = raw
		c.note = fmt.Sprintf("; not corrected for %d comparisons, which %d blocks cannot carry", len(raw), b.completeBlocks())
	}
	for i, k := range keys {
		c.corrected[k] = judgedBy[i]
	}
	return c
}

func (b *builder) loadsOf(c model.PublishedClaim) []string {
	if c.Load != "" {
		return []string{c.Load}
	}
	var all []string
	for _, l := range b.study.Loads {
		if slices.ContainsFunc(b.has(l.Name), func(d metric.Metric) bool { return d.Name == c.Metric }) {
			all = append(all, l.Name)
		}
	}
	if len(all) == 0 {
		all = append(all, b.study.Loads[0].Name) // to say that it has not been measured
	}
	return all
}

func (c *claims) judge(claim model.PublishedClaim, tolerance float64) []PublishedClaim {
	var all []PublishedClaim
	for _, load := range c.loadsOf(claim) {
		out := PublishedClaim{
			Text: claim.Text, Metric: claim.Metric, Load: load, Left: claim.Left, Relation: claim.Relation, Right: claim.Right, Size: size(claim),
		}
		if c.unmeasured(claim, load) {
			out.Verdict, out.Detail = ClaimUnknown, claim.Metric+" was not measured of both"
			all = append(all, out)
			continue
		}
		r, equivalent, err := c.pair(claim.Right, claim.Left, load, claim.Metric)
		if err != nil {
			out.Verdict, out.Detail = ClaimUnknown, err.Error()
			all = append(all, out)
			continue
		}
		r.P = c.corrected[pairing{claim.Left, claim.Right, load, claim.Metric}.key()]
		if r.NoRatio == nil {
			out.Ours = estimate(r.Ratio)
		}
		floor := c.floor(load, claim.Metric)
		verdict := stats.Judge(r, floor, equivalent)
		if claim.Relation == model.RelationEqual {
			out.Verdict, out.Detail = equalClaim(verdict)
		} else {
			out.Verdict, out.Detail = c.directed(claim, load, r, verdict, floor)
			if out.Verdict == ClaimSupported && claim.To > 0 {
				out.Verdict, out.Detail = sized(claim, tolerance, r)
			}
		}
		out.Detail = c.found(claim.Metric, r) + out.Detail + c.note
		all = append(all, out)
	}
	return all
}

func (c *claims) unmeasured(claim model.PublishedClaim, load string) bool {
	left, right := c.paired(claim.Left, claim.Right, load, claim.Metric)
	return len(left) == 0 || len(right) == 0
}

// found is what was measured, in words.
func (c *claims) found(name string, r stats.Comparison) string {
	d, _ := metric.Lookup(name)
	text := FormatDifference(d.Unit, *estimate(r.Difference))
	if r.NoRatio == nil {
		text += ", " + FormatRatio(*estimate(r.Ratio))
	}
	return text + ": "
}

func equalClaim(verdict stats.Verdict) (string, string) {
	switch verdict {
	case stats.VerdictDifferent:
		return ClaimContradicted, "they differ"
	case stats.VerdictEquivalent:
		return ClaimSupported, "equivalent within the study's margin"
	case stats.VerdictNone:
	}
	return ClaimUnknown, "no difference is shown, which is not the same as none"
}

func (c *claims) directed(claim model.PublishedClaim, load string, r stats.Comparison, verdict stats.Verdict, floor float64) (string, string) {
	up := r.Difference.Value > 0
	switch {
	case verdict == stats.VerdictDifferent && up == (claim.Relation == model.RelationHigher):
		return ClaimSupported, "shown"
	case verdict == stats.VerdictDifferent:
		return ClaimContradicted, "the opposite is shown"
	case verdict == stats.VerdictEquivalent:
		return ClaimNotSupported, "the two are equivalent within the study's margin"
	}
	d, _ := metric.Lookup(claim.Metric)
	seen := max(r.Detectable, floor)
	right := stats.HodgesLehmann(values(c.builder, claim.Right, load, claim.Metric))
	if wanted := claim.From * math.Abs(right); claim.To > 0 && wanted < seen {
		return ClaimUnknown, fmt.Sprintf("no difference is shown, and %s is less than the %s that would have been", FormatValue(d.Unit, wanted), FormatValue(d.Unit, seen))
	}
	return ClaimNotSupported, fmt.Sprintf("no difference is shown; one of %s would have been", FormatValue(d.Unit, seen))
}

func values(b *builder, variant, load, name string) []float64 {
	var all []float64
	for _, o := range b.of(variant, load) {
		if v, err := b.value(o, name); err == nil {
			all = append(all, v)
		}
	}
	return all
}

// sized judges by how much, once the direction is shown.
func sized(claim model.PublishedClaim, tolerance float64, r stats.Comparison) (string, string) {
	if r.NoRatio != nil {
		return ClaimUnknown, "the direction is shown; its size cannot be told: " + r.NoRatio.Error()
	}
	lo, hi := r.Ratio.Lo-1, r.Ratio.Hi-1
	if claim.Relation == model.RelationLower {
		lo, hi = 1-r.Ratio.Hi, 1-r.Ratio.Lo
	}
	ours := fmt.Sprintf("%s %% to %s %%", digits(lo*percent), digits(hi*percent))
	if lo <= claim.To*(1+tolerance) && claim.From*(1-tolerance) <= hi {
		return ClaimSupported, "shown, and the size agrees: ours is " + ours
	}
	return ClaimNotSupported, "the direction is shown, the size is not: ours is " + ours
}

func size(c model.PublishedClaim) string {
	text := func(v float64) string { return digits(v*percent) + " %" }
	switch {
	case c.To == 0:
		return ""
	case c.From == c.To:
		return "by " + text(c.From)
	}
	return "by " + text(c.From) + " to " + text(c.To)
}

// results are the raw results of all trials that measured something.
func (b *builder) results(m *Model) []Result {
	var all []Result
	for i := range b.outcomes {
		if l := b.outcomes[i].Load; l != nil {
			all = append(all, Result{Trial: m.Trials[i], Load: *l})
		}
	}
	return all
}

// PublishedTable is a source's figures beside ours, for the text formats.
func PublishedTable(m *Model, p Published) Table {
	t := Table{
		Title:   p.Source,
		Caption: fmt.Sprintf("published beside ours, %.0f %% interval", m.Run.Level*percent),
		Header:  []string{"", "load", "metric", "published", "ours", "agreement"},
		Order:   []int{0, 1, 2, 3, 4, 5}, //nolint:mnd // the columns
	}
	if p.Tolerance > 0 {
		t.Caption += ", tolerance " + share(p.Tolerance)
	}
	for _, c := range p.Cells {
		t.Rows = append(t.Rows, []string{c.Variant, c.Load, orElse(c.Metric, c.Column), c.Printed, c.OursText(), c.Agreement})
	}
	return t
}

// OursText is our estimate, or "-".
func (c PublishedCell) OursText() string {
	if c.Ours == nil {
		return "-"
	}
	d, _ := metric.Lookup(c.Metric)
	return FormatEstimate(d.Unit, *c.Ours)
}

// Sentence is a claim in the words of the study: what is compared, not what the
// source wrote.
func (c PublishedClaim) Sentence() string {
	text := c.Metric + " of " + c.Left + " " + c.Relation + " than that of " + c.Right
	if c.Relation == model.RelationEqual {
		text = c.Metric + " of " + c.Left + " equal to that of " + c.Right
	}
	if c.Size != "" {
		text += " " + c.Size
	}
	return text + ", under " + c.Load
}
