package report_test

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/report"
	"github.com/windtunnel/windtunnel/internal/report/markdown"
	"github.com/windtunnel/windtunnel/internal/report/svg"
	"github.com/windtunnel/windtunnel/internal/report/text"
)

// broken is a breakdown trial: envoy's requests take 100 to 1,099 µs, of which
// 20 µs are the proxy's, 30 µs the app's and the rest nobody's; those of another
// variant failed.
func broken(trial model.Trial) model.Outcome {
	o := model.Outcome{Schema: model.OutcomeSchema, Trial: trial}
	if trial.Variant != "envoy" {
		o.Failure = &model.Failure{Step: "waiting for the path to be ready", Error: "no answer"}
		return o
	}
	const requests = 1000
	b := &model.Breakdown{Traced: requests + 2, Parts: []model.Part{
		{Kind: model.PartUnexplained, Name: "between"},
		{Kind: model.PartProxy, Name: "proxy|here"},
		{Kind: model.PartApp, Name: "app"},
		{Kind: model.PartNetwork, Name: "seldom"},
	}}
	us := time.Microsecond.Nanoseconds()
	for i := range int64(requests) {
		total := (100 + (i*7)%requests) * us // in no order
		b.Total = append(b.Total, total)
		for j, took := range []int64{total - 50*us, 20 * us, 30 * us, model.NoTime} {
			b.Parts[j].Took = append(b.Parts[j].Took, took)
		}
	}
	b.Parts[0].Took[0], b.Parts[3].Took[0] = b.Parts[0].Took[0]-5*us, 5*us
	o.Breakdown = b
	o.Load = &model.LoadResult{Due: requests + 5, Succeeded: requests + 2}
	return o
}

func TestBreakdown(t *testing.T) {
	t.Parallel()
	s := testStudy(6)
	s.Loads[0].Breakdown = time.Second
	m := buildStudy(t, s, nil)
	if len(m.Breakdowns) != 3 { // the control has none
		t.Fatalf("%d breakdowns", len(m.Breakdowns))
	}
	for _, b := range m.Breakdowns {
		if b.Variant != "envoy" {
			if b.Reason == "" || len(b.Parts) != 0 {
				t.Errorf("a failed trial gave %+v", b)
			}
			continue
		}
		var sum float64
		for _, p := range b.Parts {
			if math.Abs(p.Start-sum) > 1e-12 {
				t.Errorf("%s begins at %g, and the parts before it end at %g", p.Name, p.Start, sum)
			}
			sum += p.AtMedian
		}
		if math.Abs(sum-b.AtMedian) > 1e-12 || math.Abs(b.AtMedian-599.5e-6) > 1e-9 {
			t.Errorf("the parts come to %g, about the median it is %g", sum, b.AtMedian)
		}
		if b.N != 1000 || b.Traced != 1002 || *b.P50 != 600e-6 || *b.P99 != 1090e-6 {
			t.Errorf("%d of %d, p50 %g, p99 %g", b.N, b.Traced, *b.P50, *b.P99)
		}
		if seldom := b.Parts[3]; seldom.N != 1 || *seldom.P50 != 5e-6 || seldom.P99 != nil {
			t.Errorf("%+v", seldom)
		}
		if b.Measured == nil {
			t.Error("the results' service time is not beside it")
		}
	}
	wanted := []string{
		"Where time goes: envoy under " + s.Loads[0].Name, "Unexplained: 550 µs, 92 %", "the requests' median is 600 µs",
		"Left out: 2 of 1002 traced requests", "Of 1005 requests of the trial 3 did not succeed", "not broken down: the trial failed while waiting for the path to be ready: no answer",
	}
	for _, f := range []report.Format{text.Format{}, markdown.Format{}} {
		var out bytes.Buffer
		if err := f.Write(t.Context(), &out, m); err != nil {
			t.Fatal(err)
		}
		for _, want := range wanted {
			if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), want) {
				t.Errorf("%T does not say %q:\n%s", f, want, out.String())
			}
		}
	}
	files, err := svg.Format{}.Files(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name == "breakdown-"+s.Loads[0].Name+".svg" {
			if !strings.Contains(string(f.Data), "proxy|here") {
				t.Errorf("the figure has no such part: %s", f.Data)
			}
			return
		}
	}
	t.Error("there is no figure")
}
