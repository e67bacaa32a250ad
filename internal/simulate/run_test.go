package simulate

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/plan"
	"github.com/windtunnel/windtunnel/internal/report"
)

// What is proved of Judge holds of reports: of the same trials they print the
// same floors, p-values and verdicts, and the stop rule says the same.
func TestReportsJudgeAlike(t *testing.T) {
	t.Parallel()
	verdicts := map[string]int{}
	for seed := range uint64(6) {
		run, err := Runs{Noise: Realistic(), Blocks: 6 + 3*int(seed%3), Seed: seed + 1, At: time.Unix(1_800_000_000, 0)}.Run()
		if err != nil {
			t.Fatal(err)
		}
		var p plan.Plan
		if err = json.Unmarshal(run.Plan, &p); err != nil {
			t.Fatal(err)
		}
		v := Values{}
		for i := range run.Outcomes {
			o := &run.Outcomes[i]
			for _, name := range Metrics() {
				value, missing := metric.Of(o, name)
				if missing != nil {
					t.Fatal(missing)
				}
				if v[o.Trial.Variant] == nil {
					v[o.Trial.Variant] = map[string][]float64{}
				}
				v[o.Trial.Variant][name] = append(v[o.Trial.Variant][name], value)
			}
		}
		arms := []string{Same, Delayed, Slower}
		blocks := p.Study.Design.Blocks
		want, err := Judge(v, arms, blocks)
		if err != nil {
			t.Fatal(err)
		}
		m := report.FromOutcomes(p, run.Outcomes)
		for _, c := range want {
			got := m.Comparison(c.Arm, load, c.Metric)
			verdicts[got.Verdict]++
			if got.Verdict != string(c.Verdict) || math.Abs(got.Floor-c.Floor) > 1e-15 || got.Difference.Lo != c.Difference.Lo || got.Ratio.Hi != c.Ratio.Hi {
				t.Errorf("%s %s: a report says %+v, Judge %+v", c.Arm, c.Metric, got, c)
			}
		}
		for _, width := range []float64{0.03, 0.1, 0.2, 0.4} {
			narrow, err := Narrow(v, arms, blocks, width)
			if err != nil {
				t.Fatal(err)
			}
			if got := m.Narrow(width); got != narrow {
				t.Errorf("seed %d: at %v the report's stop rule says %v, ours %v", seed, width, got, narrow)
			}
		}
	}
	if verdicts["different"] == 0 || verdicts["~"] == 0 {
		t.Errorf("nothing was told apart: %v", verdicts)
	}
}
