package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/report"
	"github.com/windtunnel/windtunnel/internal/report/markdown"
	"github.com/windtunnel/windtunnel/internal/report/text"
)

func figure(variant, metric string, values ...float64) model.PublishedCell {
	c := model.PublishedCell{Variant: variant, Load: "steady", Metric: metric, Column: metric, Values: values, Unit: "us"}
	for range values {
		c.Printed = append(c.Printed, "1")
	}
	return c
}

// sources are published figures around what the fakes measure: 150 us of direct
// and same, 1,060 us of envoy.
func sources() []model.Published {
	claim := func(left, relation, right string, from, to float64) model.PublishedClaim {
		return model.PublishedClaim{Text: left + " is " + relation, Metric: "response.p50", Left: left, Relation: relation, Right: right, From: from, To: to}
	}
	far := figure("envoy", "response.p90", 5e-6)
	far.Incomparable = "measured over a wide-area network"
	return []model.Published{
		{
			Source: "Doe 2024, table 2", URL: "https://example.org/doe", Tolerance: 0.05,
			Cells: []model.PublishedCell{
				figure("direct", "response.p50", 145e-6), figure("envoy", "response.p50", 500e-6, 520e-6), figure("same", "response.p50", 100e-6),
				figure("direct", "response.p90", 190e-6), far,
				figure("direct", "response.mean", 1e-3), figure("envoy", "response.mean", 0.5e-3),
				figure("direct", "memory.total", 1e6), figure("direct", "goodput", 1e9),
			},
			Claims: []model.PublishedClaim{
				claim("envoy", "higher", "direct", 0, 0), claim("envoy", "lower", "direct", 0, 0), claim("same", "higher", "direct", 0, 0),
				claim("same", "equal", "direct", 0, 0), claim("same", "equal", "envoy", 0, 0),
				claim("direct", "lower", "envoy", 0.8, 0.9), claim("envoy", "higher", "same", 1, 2), claim("same", "lower", "direct", 1e-5, 1e-5),
				{Text: "It carries more.", Metric: "goodput", Left: "envoy", Relation: "higher", Right: "direct"},
			},
		},
		{Source: "Roe", Cells: []model.PublishedCell{figure("envoy", "response.p50", 9e-3)}},
	}
}

// Without a margin of equivalence, what is not shown to differ is not shown to
// be the same either.
func publishedModel(t *testing.T, equivalence float64) *report.Model {
	t.Helper()
	s := testStudy(10)
	s.Published, s.Design.Equivalence = sources(), equivalence
	return buildStudy(t, s, nil)
}

func TestPublishedCells(t *testing.T) {
	t.Parallel()
	m := publishedModel(t, 0.05)
	want := []struct{ agreement, detail string }{
		{report.AgreementCovers, "overlap"},
		{report.AgreementOrder, "times the published figure; both are above direct"},
		{report.AgreementNoOrder, "ours show no difference to direct"},
		{report.AgreementCovers, "overlap"},
		{report.AgreementNot, "measured over a wide-area network"},
		{report.AgreementOpposite, "theirs is above envoy, ours below"},
		{report.AgreementOpposite, "theirs is below direct, ours above"},
		{report.AgreementNot, "memory was not sampled"},
		{report.AgreementNot, "does not have this metric"},
	}
	for i, w := range want {
		c := m.Published[0].Cells[i]
		if c.Agreement != w.agreement || !strings.Contains(c.Detail, w.detail) {
			t.Errorf("cell %d, %s %s: %s (%s), want %s (%s)", i, c.Variant, c.Metric, c.Agreement, c.Detail, w.agreement, w.detail)
		}
	}
	if c := m.Published[0].Cells[1]; c.Printed != "1 to 1 us" || c.Lo != 500e-6 || c.Hi != 520e-6 {
		t.Errorf("several rows are %q, %g to %g", c.Printed, c.Lo, c.Hi)
	}
	if c := m.Published[1].Cells[0]; c.Agreement != report.AgreementNoOrder || !strings.Contains(c.Detail, "no other variant") {
		t.Errorf("a figure alone: %s (%s)", c.Agreement, c.Detail)
	}
}

func TestPublishedClaims(t *testing.T) {
	t.Parallel()
	for equivalence, want := range map[float64][]struct{ verdict, detail string }{
		0.05: {
			{report.ClaimSupported, "shown"},
			{report.ClaimContradicted, "the opposite is shown"},
			{report.ClaimNotSupported, "equivalent within the study's margin"},
			{report.ClaimSupported, "equivalent"},
			{report.ClaimContradicted, "they differ"},
			{report.ClaimSupported, "the size agrees"},
			{report.ClaimNotSupported, "the size is not"},
			{report.ClaimNotSupported, "equivalent"},
			{report.ClaimUnknown, "goodput was not measured of both"},
		},
		0: {
			2: {report.ClaimNotSupported, "would have been"},
			3: {report.ClaimUnknown, "not the same as none"},
			7: {report.ClaimUnknown, "is less than the"},
			8: {report.ClaimUnknown, "not measured"},
		},
	} {
		m := publishedModel(t, equivalence)
		claims := m.Published[0].Claims
		for i, w := range want {
			if w.verdict == "" {
				continue
			}
			if c := claims[i]; c.Verdict != w.verdict || !strings.Contains(c.Detail, w.detail) {
				t.Errorf("margin %g, claim %d (%s): %s (%s), want %s (%s)", equivalence, i, c.Sentence(), c.Verdict, c.Detail, w.verdict, w.detail)
			}
		}
	}
}

// Six blocks cannot carry a correction for so many claims; the report says so.
func TestPublishedClaimsOfFewBlocks(t *testing.T) {
	t.Parallel()
	s := testStudy(6)
	s.Published = sources()
	m := buildStudy(t, s, nil)
	if c := m.Published[0].Claims[0]; c.Verdict != report.ClaimSupported || !strings.Contains(c.Detail, "not corrected for 5 comparisons, which 6 blocks cannot carry") {
		t.Errorf("%s (%s)", c.Verdict, c.Detail)
	}
}

// A claim without a load is judged under every load.
func TestPublishedClaimUnderEveryLoad(t *testing.T) {
	t.Parallel()
	s := testStudy(10)
	s.Published = sources()[:1]
	s.Loads = append(s.Loads, s.Loads[0])
	s.Loads[1].Name, s.Loads[1].Duration = "again", 3*time.Second
	m := buildStudy(t, s, nil)
	claims := m.Published[0].Claims
	if len(claims) != 17 || claims[0].Load != "steady" || claims[1].Load != "again" || claims[1].Verdict != report.ClaimSupported {
		t.Errorf("%d claims, the first two under %s and %s", len(claims), claims[0].Load, claims[1].Load)
	}
}

func TestPublishedGolden(t *testing.T) {
	t.Parallel()
	golden(t, publishedModel(t, 0.05), map[string]report.Format{"published.txt": text.Format{}, "published.md": markdown.Format{}})
}

// A plain number has no unit, and no space where one would be.
func TestPlainNumbers(t *testing.T) {
	t.Parallel()
	e := report.Estimate{Value: 3, Lo: 2, Hi: 4}
	got := []string{report.FormatValue(metric.UnitCount, 3), report.FormatEstimate(metric.UnitCount, e), report.FormatDifference(metric.UnitCount, e)}
	if diff := cmp.Diff([]string{"3.00", "3.00 [2.00, 4.00]", "+3.00 [+2.00, +4.00]"}, got); diff != "" {
		t.Error(diff)
	}
}
