package simulate

import (
	"strings"
	"testing"
)

// The proof that docs/method.md speaks of, in its short form; make prove-stats
// is the long one.
func TestFalseDifferencesAndCoverage(t *testing.T) {
	t.Parallel()
	for _, blocks := range []int{6, 8} {
		got, err := Fixed("all", Realistic(), 2000, blocks, 1)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d blocks: %.4f false, %.4f covered, %.2f seen", blocks, got.FalseRate(), got.Coverage(), got.Power())
		if got.FalseRate() > 0.05 {
			t.Errorf("%d blocks: A/A studies show a difference in %.3f", blocks, got.FalseRate())
		}
		if got.Coverage() < 0.93 {
			t.Errorf("%d blocks: intervals cover in %.3f", blocks, got.Coverage())
		}
	}
}

func TestEveryKindOfNoise(t *testing.T) {
	t.Parallel()
	for _, k := range Kinds() {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			got, err := Fixed(k.Name, k.Noise, 500, 8, 2)
			if err != nil {
				t.Fatal(err)
			}
			if got.FalseRate() > 0.05 || got.Coverage() < 0.93 {
				t.Errorf("%.3f false, %.3f covered", got.FalseRate(), got.Coverage())
			}
		})
	}
}

func TestCoverageUnderTheStopRule(t *testing.T) {
	t.Parallel()
	got, err := Stopped("all", Realistic(), 400, 6, 24, 0.12, 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f blocks: %.4f false, %.4f covered", got.Blocks, got.FalseRate(), got.Coverage())
	if got.Blocks < 7 || got.Blocks > 23 {
		t.Errorf("the rule stops after %.1f blocks: nothing is proved", got.Blocks)
	}
	if got.FalseRate() > 0.05 || got.Coverage() < 0.92 {
		t.Errorf("%.3f false, %.3f covered", got.FalseRate(), got.Coverage())
	}
}

// The proof can fail: an arm that is called alike and is not is found out.
func TestAFalseClaimIsFoundOut(t *testing.T) {
	t.Parallel()
	c := Comparison{Arm: Delayed, Metric: "response.p50"}
	c.Difference.Lo, c.Difference.Hi = Delay*1.01, Delay*1.02
	if c.Covers() {
		t.Error("an interval above the truth covers it")
	}
	c.Arm, c.Ratio.Lo, c.Ratio.Hi = Same, 1.01, 1.02
	if c.Covers() {
		t.Error("an interval above one covers nothing's effect")
	}
	if text := Table([]Tally{{Name: "x", Studies: 100, Blocks: 7.5, False: 3, Covered: 1, Intervals: 2, Seen: 1, Planted: 4}}); !strings.Contains(text, "| x | 7.5, by the stop rule | 100 | 3.00 % | 50.00 % of 2 | 25 % |") {
		t.Error(text)
	}
}
