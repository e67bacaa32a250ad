package compare_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/windtunnel/windtunnel/internal/compare"
	"github.com/windtunnel/windtunnel/internal/manifest"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/report"
	"github.com/windtunnel/windtunnel/internal/simulate"
)

func quiet() simulate.Noise {
	return simulate.Noise{Trial: 0.01, Request: 0.3, Requests: 100}
}

func side(t *testing.T, r simulate.Runs) *compare.Side {
	t.Helper()
	if r.At.IsZero() {
		r.At = time.Unix(1_800_000_000, 0).UTC()
	}
	run, err := r.Run()
	if err != nil {
		t.Fatal(err)
	}
	m, err := report.Build(run)
	if err != nil {
		t.Fatal(err)
	}
	all, err := manifest.New(run)
	if err != nil {
		t.Fatal(err)
	}
	return &compare.Side{Run: run, Model: m, Manifest: all}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	before := side(t, simulate.Runs{Noise: quiet(), Blocks: 10, Seed: 1, Name: "before", Version: "v1"})
	tests := map[string]struct {
		factor, allow float64
		want          string
	}{
		"slower by a fifth":              {1.2, 0.05, compare.Regression},
		"slower by a fifth, and allowed": {1.2, 0.30, compare.None},
		"faster by a fifth":              {1 / 1.2, 0.05, compare.Improvement},
		"the same":                       {1, 0.05, compare.None},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after := side(t, simulate.Runs{Noise: quiet(), Blocks: 10, Seed: 2, Name: "after", Version: "v2", Factor: tt.factor})
			r := compare.Runs(before, after, manifest.FactorVersion, tt.allow)
			if len(r.Comparisons) != 4*4 || !r.Corrected || r.Undeclared {
				t.Fatalf("%d comparisons, corrected %v, undeclared %v", len(r.Comparisons), r.Corrected, r.Undeclared)
			}
			for _, c := range r.Comparisons {
				if c.Verdict != tt.want {
					t.Errorf("%s %s: %s (%s, floor %v), want %s", c.Variant, c.Metric, c.Verdict, c.ChangeText(), c.Floor, tt.want)
				}
				if c.Ratio.Lo > tt.factor || tt.factor > c.Ratio.Hi {
					t.Logf("%s %s: %s does not hold %v", c.Variant, c.Metric, c.ChangeText(), tt.factor)
				}
			}
			if got := r.Regressions() > 0; got != (tt.want == compare.Regression) {
				t.Errorf("%d regressions", r.Regressions())
			}
		})
	}
}

// Of two runs of one version a gate says nothing, but in few cases.
func TestTheGateErrsSeldom(t *testing.T) {
	t.Parallel()
	const pairs = 60
	failed := 0
	for i := range uint64(pairs) {
		a := side(t, simulate.Runs{Noise: simulate.Realistic(), Blocks: 8, Seed: 2*i + 1, Variants: []string{simulate.Baseline, simulate.Same}})
		b := side(t, simulate.Runs{Noise: simulate.Realistic(), Blocks: 8, Seed: 2*i + 2, Variants: []string{simulate.Baseline, simulate.Same}})
		if compare.Runs(a, b, manifest.FactorVersion, 0).Regressions() > 0 {
			failed++
		}
	}
	// Drift makes a run's blocks alike, and unlike another run's: docs/method.md
	// says that this is not in the intervals. It may not be the rule.
	if failed > pairs/5 {
		t.Errorf("%d of %d pairs of like runs show a regression", failed, pairs)
	}
}

func TestWhatCannotBeCompared(t *testing.T) {
	t.Parallel()
	a := side(t, simulate.Runs{Noise: quiet(), Blocks: 6, Seed: 1})
	b := side(t, simulate.Runs{Noise: quiet(), Blocks: 6, Seed: 2, Variants: []string{simulate.Baseline, simulate.Slower}})
	if more := manifest.Undeclared(manifest.Diff(a.Manifest, b.Manifest), manifest.FactorVersion); len(more) == 0 {
		t.Error("two runs of other variants differ in nothing")
	}
	r := compare.Runs(a, b, manifest.FactorVersion, 0.05)
	if !r.Undeclared || len(r.Comparisons) != 2*4 {
		t.Errorf("%d comparisons, undeclared %v", len(r.Comparisons), r.Undeclared)
	}
	a.Run.Frozen = &model.Frozen{Rates: []model.FrozenRate{{Load: "steady", Variant: simulate.Baseline, Rate: 100}, {Load: "steady", Variant: simulate.Slower, Rate: 100}}}
	b.Run.Frozen = &model.Frozen{Rates: []model.FrozenRate{{Load: "steady", Variant: simulate.Baseline, Rate: 100.5}, {Load: "steady", Variant: simulate.Slower, Rate: 150}}}
	for _, c := range compare.Runs(a, b, manifest.FactorVersion, 0.05).Comparisons {
		if unknown := c.Verdict == compare.Unknown; unknown != (c.Variant == simulate.Slower) {
			t.Errorf("%s %s: %s, %s", c.Variant, c.Metric, c.Verdict, c.Reason)
		}
	}
}

func written(t *testing.T, r compare.Result, format string) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b, format); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestFormats(t *testing.T) {
	t.Parallel()
	long := func(s *model.Study) {
		for i := range s.Variants {
			if s.Variants[i].Name == simulate.Slower {
				s.Variants[i].Name = "a-variant-with-a-name-that-is-much-too-long-for-any-table-of-a-hundred-columns"
			}
		}
	}
	a := side(t, simulate.Runs{Noise: quiet(), Blocks: 8, Seed: 1, Name: "a", Version: "v1", Change: long})
	b := side(t, simulate.Runs{Noise: quiet(), Blocks: 8, Seed: 2, Name: "b", Version: "v2", Change: long, Factor: 1.3, Host: model.Host{Kernel: "6.12"}})
	r := compare.Runs(a, b, manifest.FactorVersion, 0.05)
	for format, wants := range map[string][]string{
		"text":  {"16 regressions, 0 improvements in 16 comparisons", "regression", "host.kernel", "B: 6.12", "A: v1", "More differs", "+3"},
		"md":    {"## simulated: B against A", "❌ regression", "| variant | metric ", "### steady", "host.kernel"},
		"junit": {`tests="16" failures="16" skipped="0"`, `classname="simulated.baseline.steady" name="response.p50"`, "<failure message="},
		"json":  {`"verdict": "regression"`, `"undeclared": true`},
	} {
		text := written(t, r, format)
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", format, want, text)
			}
		}
		if format != "text" && format != "md" {
			continue
		}
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
				t.Errorf("%s: a line of %d columns: %s", format, n, line)
			}
		}
	}
	var back compare.Result
	if err := json.Unmarshal([]byte(written(t, r, "json")), &back); err != nil || len(back.Comparisons) != 16 {
		t.Errorf("the JSON reads back as %d comparisons: %v", len(back.Comparisons), err)
	}
	var suite struct {
		Cases []struct {
			Name string `xml:"name,attr"`
		} `xml:"testcase"`
	}
	if err := xml.Unmarshal([]byte(written(t, r, "junit")), &suite); err != nil || len(suite.Cases) != 16 {
		t.Errorf("the XML reads back as %d cases: %v", len(suite.Cases), err)
	}
}
