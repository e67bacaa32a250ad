package audit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/audit"
	"github.com/windtunnel/windtunnel/internal/model"
)

// counted is a counter that grows evenly from 0 over the window.
func counted(metric string, to float64) model.Series {
	return model.Series{Subject: model.SubjectLink + "a>b", Metric: metric, At: []int64{0, 1e9}, Values: []float64{0, to}}
}

func findings(o model.Outcome, rule string) []model.Finding {
	o.Window = model.Window{Start: 0, End: 1e9}
	var found []model.Finding
	for _, f := range audit.Judge(audit.Evidence{Outcomes: []model.Outcome{o}}, audit.Rules()) {
		if f.Rule == rule {
			found = append(found, f)
		}
	}
	return found
}

func TestLinkLate(t *testing.T) {
	t.Parallel()
	for late, want := range map[float64]int{0: 0, 10: 0, 11: 1} {
		o := model.Outcome{Samples: []model.Series{
			counted(model.SampleLinkPackets, 1000), counted(model.SampleLinkLate, late), counted(model.SampleLinkLateness, 0.5),
			{Subject: model.SubjectLink + "a>b", Metric: model.SampleLinkWorst, At: []int64{0, 1e9}, Values: []float64{9, 0.020}},
		}}
		got := findings(o, "emulated link late")
		if len(got) != want {
			t.Errorf("%g of 1000 late: %+v", late, got)
		}
		if want == 1 && !strings.Contains(got[0].Evidence, "a to b: 1.1 % of 1000 packets later than its bound, mean lateness 0.50 ms, worst 20.0 ms") {
			t.Error(got[0].Evidence)
		}
	}
}

func TestLinkNotAsAsked(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		link     model.Link
		observed time.Duration
		want     int
	}{
		"as asked":        {model.Link{Delay: 40 * ms}, 40*ms + ms/5, 0},
		"late":            {model.Link{Delay: 40 * ms}, 41*ms + ms/5, 1},
		"early":           {model.Link{Delay: 40 * ms}, 30 * ms, 1},
		"long":            {model.Link{Delay: 300 * ms}, 305 * ms, 0},
		"jitter in order": {model.Link{Delay: 40 * ms, Jitter: 5 * ms}, 44 * ms, 0},
		"slow":            {model.Link{Delay: 40 * ms, Rate: 64_000}, 54 * ms, 0},
	} {
		o := model.Outcome{Links: []model.LinkState{{From: "a", To: "b", Link: test.link, Observed: model.LinkObserved{Sent: 200, P50: test.observed}}}}
		if got := findings(o, "emulated link not as asked"); len(got) != test.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
