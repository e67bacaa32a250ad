package transfer

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/report"
)

// side is a run of two variants in which one has these ratios to the baseline.
func side(target string, ratios map[string]report.Estimate) *report.Model {
	m := &report.Model{
		Name: "s", Run: report.Run{Target: target, Baseline: "direct", Blocks: 10},
		Variants: []report.Variant{{Name: "direct", Baseline: true}, {Name: "mesh"}, {Name: "control", Control: true}},
		Loads:    []report.Load{{Name: "steady"}},
	}
	for name, ratio := range ratios {
		verdict := report.VerdictNone
		if ratio.Lo > 1 || ratio.Hi < 1 {
			verdict = report.VerdictDifferent
		}
		m.Metrics = append(m.Metrics, report.Metric{Name: name, Unit: "s", Primary: true})
		m.Comparisons = append(m.Comparisons, report.Comparison{
			Variant: "mesh", Load: "steady", Metric: name, Ratio: &ratio, Verdict: verdict, Difference: &report.Estimate{Value: ratio.Value - 1},
		})
	}
	return m
}

func TestRuns(t *testing.T) {
	t.Parallel()
	e := func(v, lo, hi float64) report.Estimate { return report.Estimate{Value: v, Lo: lo, Hi: hi, N: 10} }
	for name, tt := range map[string]struct {
		a, b         report.Estimate
		order, ratio string
	}{
		"the same":        {e(2, 1.98, 2.02), e(2.01, 1.99, 2.03), OrderSame, RatioSame},
		"twice as much":   {e(2, 1.9, 2.1), e(4, 3.8, 4.2), OrderSame, RatioDiffers},
		"other way round": {e(2, 1.9, 2.1), e(0.5, 0.4, 0.6), OrderReversed, RatioDiffers},
		"nothing":         {e(1, 0.99, 1.01), e(1, 0.99, 1.01), OrderNeither, RatioSame},
		"wide":            {e(2, 1.5, 2.5), e(1.2, 0.7, 2), OrderOne, RatioOpen},
		"shown, tiny":     {e(2, 1.999, 2.001), e(2.01, 2.009, 2.011), OrderSame, RatioSame},
		"no ratio":        {e(1, -0.5, 2), e(1, 0.5, 2), OrderNeither, RatioUnknown},
	} {
		r := Runs(side("lab", map[string]report.Estimate{"response.p50": tt.a}), side("kube", map[string]report.Estimate{"response.p50": tt.b}), 0.1)
		if len(r.Rows) != 1 || r.Rows[0].Order != tt.order || r.Rows[0].Ratio != tt.ratio {
			t.Errorf("%s: %+v, want %s and %s", name, r.Rows, tt.order, tt.ratio)
		}
	}
}

// A ratio of ratios has the width that independence gives it.
func TestWidth(t *testing.T) {
	t.Parallel()
	a, b := report.Estimate{Value: 2, Lo: 2 / 1.1, Hi: 2 * 1.1}, report.Estimate{Value: 3, Lo: 3 / 1.1, Hi: 3 * 1.1}
	_, change := ratio(&a, &b, 0.1)
	want := math.Exp(math.Sqrt2 * math.Log(1.1))
	if math.Abs(change.Value-1.5) > 1e-9 || math.Abs(change.Hi/1.5-want) > 1e-9 || math.Abs(1.5/change.Lo-want) > 1e-9 {
		t.Errorf("%+v, want 1.5 and a factor of %g either way", change, want)
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	a := side("lab", map[string]report.Estimate{"response.p50": {Value: 2, Lo: 1.9, Hi: 2.1}})
	a.Variants = append(a.Variants, report.Variant{Name: "envoy"})
	b := side("kube", map[string]report.Estimate{"response.p50": {Value: 2, Lo: 1.9, Hi: 2.1}})
	for _, format := range Formats() {
		var out bytes.Buffer
		if err := Runs(a, b, 0.1).Write(&out, format); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"mesh", "response.p50", "carried over", "variant envoy only in lab"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s has no %q:\n%s", format, want, out.String())
			}
		}
	}
}
