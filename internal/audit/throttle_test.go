package audit

import (
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// stopped is a trial whose app was stopped in 30 of 200 periods, and of whose
// answers one in ten waited for the next.
func stopped(o *model.Outcome) {
	at := []int64{o.Window.Start, o.Window.End}
	o.Samples[1].Values[1] = 5
	o.Samples = append(o.Samples,
		model.Series{Subject: "server-0/app", Metric: model.SampleThrottledPeriods, At: at, Values: []float64{0, 30}},
		model.Series{Subject: "server-0/app", Metric: model.SampleQuotaPeriods, At: at, Values: []float64{0, 200}})
	o.Load.Response = filled(18000, time.Millisecond)
	o.Load.Response.RecordN(int64(85*time.Millisecond), 2000)
}

// What the study itself limits is a note: that it is throttled was to be expected.
func TestThrottlingAsAsked(t *testing.T) {
	t.Parallel()
	o := good()
	stopped(&o)
	study := model.Study{
		Limits:   model.ComponentLimits{model.ComponentSidecar: {CPU: 0.05}, model.ComponentApp: {Memory: 1 << 30}},
		Variants: []model.Variant{{Name: "envoy"}, {Name: "other", Limits: model.ComponentLimits{model.ComponentApp: {CPU: 1}}}},
		Loads:    []model.Load{{Name: "steady"}},
	}
	for _, tt := range []struct {
		of   model.ComponentLimits
		want model.Severity
	}{
		{nil, model.SeveritySuspect},
		{model.ComponentLimits{model.ComponentApp: {CPU: 0.15}}, model.SeverityNote},
	} {
		study.Loads[0].Limits = tt.of
		found := map[string]model.Finding{}
		for _, f := range Judge(Evidence{Study: study, Host: model.Host{Cores: 2}, Outcomes: []model.Outcome{o}}, Rules()) {
			found[f.Rule] = f
		}
		for _, rule := range []string{"CPU throttled", periodName} {
			if f := found[rule]; f.Severity != tt.want || !strings.Contains(f.Evidence, "server-0/app waited 2000 ms in 30 periods of 200") {
				t.Errorf("limits %v: %q is %+v", tt.of, rule, f)
			}
		}
		if f := found[periodName]; !strings.Contains(f.Evidence, "10.0 % of answers took 25 ms or more, piled up short of 100 ms; p50 1") {
			t.Errorf("got %+v", f)
		}
	}
}

// A load that a limit of the study holds up is the study's result; one that
// the generator did not send is not.
func TestLimitHoldsTheLoadUp(t *testing.T) {
	t.Parallel()
	study := model.Study{Limits: model.ComponentLimits{model.ComponentApp: {CPU: 0.05}}}
	for name, tt := range map[string]struct {
		study model.Study
		spoil func(o *model.Outcome)
		want  model.Severity
	}{
		"its own limit":    {study, func(o *model.Outcome) { stopped(o); o.Load.Sent, o.Load.Blocked = 19000, 5000 }, model.SeveritySuspect},
		"somebody's limit": {model.Study{}, func(o *model.Outcome) { stopped(o); o.Load.Sent, o.Load.Blocked = 19000, 5000 }, model.SeverityInvalid},
		"nothing waited":   {study, func(o *model.Outcome) { stopped(o); o.Load.Sent = 19000 }, model.SeverityInvalid},
		"not stopped":      {study, func(o *model.Outcome) { o.Load.Sent, o.Load.Blocked = 19000, 5000 }, model.SeverityInvalid},
	} {
		o := good()
		tt.spoil(&o)
		var got []model.Severity
		for _, f := range Judge(Evidence{Study: tt.study, Host: model.Host{Cores: 2}, Outcomes: []model.Outcome{o}}, Rules()) {
			if f.Rule == "target rate not reached" {
				got = append(got, f.Severity)
			}
		}
		if len(got) != 1 || got[0] != tt.want {
			t.Errorf("%s: got %v, want %s", name, got, tt.want)
		}
	}
}

// Few throttled periods, or answers that nothing delayed, are no plateau.
func TestNoPeriodNoPlateau(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(o *model.Outcome){
		"seldom": func(o *model.Outcome) { stopped(o); o.Samples[3].Values[1] = 5 },
		"fast":   func(o *model.Outcome) { stopped(o); o.Load.Response = filled(20000, time.Millisecond) },
	} {
		o := good()
		spoil(&o)
		for _, f := range judge(o) {
			if f.Rule == periodName {
				t.Errorf("%s: got %+v", name, f)
			}
		}
	}
}
