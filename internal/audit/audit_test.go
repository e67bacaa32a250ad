package audit

import (
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/model"
)

func filled(n int, v time.Duration) *hist.Histogram {
	h := &hist.Histogram{}
	h.RecordN(int64(v), uint64(n))
	return h
}

// good is a trial that no rule has anything to say about.
func good() model.Outcome {
	const second = int64(time.Second)
	l := &model.LoadResult{
		Arrival: model.ArrivalOpen, Connections: 32, Rate: 1000, Elapsed: 20 * time.Second, Due: 20000, Sent: 20000, Succeeded: 20000,
		Response: filled(20000, time.Millisecond), Service: filled(20000, time.Millisecond), FailedResponse: &hist.Histogram{}, Lateness: filled(20000, 50*time.Microsecond),
		Responders: map[string]uint64{"server-0": 10000, "server-1": 10000}, GeneratorCPU: time.Second, Workers: 1, FirstSuccess: time.Millisecond,
	}
	for range 100 {
		l.Timeline.Slots = append(l.Timeline.Slots, model.Slot{Succeeded: 200, Mean: time.Millisecond})
	}
	return model.Outcome{
		Trial: model.Trial{Index: 1, Block: 1, Variant: "envoy", Load: "steady"}, Window: model.Window{Start: second, End: 21 * second}, Load: l,
		Ready:     &model.Ready{Passed: true, Streak: 20, Wanted: 20},
		Endpoints: model.Endpoints{Backends: []model.Backend{{Identity: "server-0"}, {Identity: "server-1"}}},
		Samples: []model.Series{
			{Subject: "server-0/app", Metric: model.SampleCPU, At: []int64{second, 21 * second}, Values: []float64{0, 1}},
			{Subject: "server-0/app", Metric: model.SampleThrottled, At: []int64{second, 21 * second}, Values: []float64{3, 3}},
			{Subject: model.SubjectHost, Metric: model.SampleSteal, At: []int64{second, 21 * second}, Values: []float64{0, 0}},
		},
		Claims: []model.Claim{{Layer: "envoy", Key: model.FactMTLS, Value: "TLSv1.3"}},
		Ledger: model.Ledger{{Layer: "envoy", Key: model.FactMTLS, Value: "TLSv1.3", Source: model.SourceCounters}},
	}
}

func judge(o ...model.Outcome) []model.Finding {
	return Judge(Evidence{Host: model.Host{Cores: 2}, Outcomes: o}, Rules())
}

func TestGoodTrialHasNoFinding(t *testing.T) {
	t.Parallel()
	if f := judge(good()); len(f) != 0 {
		t.Errorf("got %+v", f)
	}
}

// Every rule has a trial that triggers it, and says what it must.
func TestEveryRuleTriggers(t *testing.T) {
	t.Parallel()
	type want struct {
		severity model.Severity
		spoil    func(o *model.Outcome)
	}
	tests := map[string]want{
		"trial failed":         {model.SeverityInvalid, func(o *model.Outcome) { o.Failure = &model.Failure{Step: "deploying", Error: "boom"}; o.Load = nil }},
		"target lost":          {model.SeverityNote, func(o *model.Outcome) { o.Lost = []model.Failure{{Step: "running the load", Error: "boom"}} }},
		"hypervisor disturbed": {model.SeverityNote, func(o *model.Outcome) { o.Disturbed = []model.Disturbance{{Stolen: 0.4}} }},
		"CPUs elsewhere":       {model.SeverityNote, func(o *model.Outcome) { o.CPUs = model.CPUDistance{Before: 20, After: 120} }},
		"not ready":            {model.SeverityInvalid, func(o *model.Outcome) { o.Ready.Passed = false; o.Load = nil; o.Failure = &model.Failure{} }},
		"failing prefix": {model.SeverityInvalid, func(o *model.Outcome) {
			o.Load.FailedPrefix, o.Load.FirstSuccess = 100, time.Second
			o.Load.Succeeded -= 100
			o.Load.Failed = map[model.Cause]uint64{model.CauseRefused: 100}
		}},
		"requests failed": {model.SeverityNote, func(o *model.Outcome) {
			o.Load.Succeeded--
			o.Load.Failed = map[model.Cause]uint64{model.CauseReset: 1}
		}},
		"target rate not reached":          {model.SeverityInvalid, func(o *model.Outcome) { o.Load.Sent = 19000 }},
		"generator late":                   {model.SeveritySuspect, func(o *model.Outcome) { o.Load.Lateness = filled(20000, 8*time.Millisecond) }},
		"requests waited for a connection": {model.SeverityNote, func(o *model.Outcome) { o.Load.Blocked = 400 }},
		"generator saturated":              {model.SeverityInvalid, func(o *model.Outcome) { o.Load.GeneratorCPU = 19 * time.Second }},
		"unexpected responder":             {model.SeverityInvalid, func(o *model.Outcome) { o.Load.Responders["elsewhere"] = 1 }},
		"payload changed":                  {model.SeveritySuspect, func(o *model.Outcome) { o.Load.PayloadChanged = 3 }},
		"too few samples":                  {model.SeverityNote, func(o *model.Outcome) { o.Load.Response = filled(500, time.Millisecond) }},
		"CPU throttled":                    {model.SeveritySuspect, func(o *model.Outcome) { o.Samples[1].Values[1] = 4 }},
		"latency of a CPU quota's period":  {model.SeveritySuspect, stopped},
		"killed for want of memory": {model.SeverityInvalid, func(o *model.Outcome) {
			o.Samples = append(o.Samples, model.Series{Subject: "server-0/app", Metric: model.SampleMemoryKills, At: []int64{o.Window.Start, o.Window.End}, Values: []float64{1, 2}})
		}},
		"resources not covered":              {model.SeveritySuspect, func(o *model.Outcome) { o.Samples[0].At[1] = int64(11 * time.Second) }},
		"host noisy":                         {model.SeverityNote, func(o *model.Outcome) { o.Samples[2].Values[1] = 2 }},
		"no CPU time to spare under a fault": {model.SeveritySuspect, func(o *model.Outcome) { o.Samples, o.Faults = busyAfterFault(2.1), struck("kill") }},
		"variant not what it claims":         {model.SeverityInvalid, func(o *model.Outcome) { o.Ledger[0].Value = "TLSv1.2" }},
		"emulated link late": {model.SeveritySuspect, func(o *model.Outcome) {
			at := []int64{o.Window.Start, o.Window.End}
			o.Samples = append(o.Samples,
				model.Series{Subject: model.SubjectLink + "a>b", Metric: model.SampleLinkPackets, At: at, Values: []float64{0, 1000}},
				model.Series{Subject: model.SubjectLink + "a>b", Metric: model.SampleLinkLate, At: at, Values: []float64{0, 50}})
		}},
		"emulated link not as asked": {model.SeveritySuspect, func(o *model.Outcome) {
			o.Links = []model.LinkState{{From: "a", To: "b", Link: model.Link{Delay: 50 * time.Millisecond}, Observed: model.LinkObserved{Sent: 10, P50: 55 * time.Millisecond}}}
		}},
		"still drifting": {model.SeverityNote, func(o *model.Outcome) {
			for i := range o.Load.Timeline.Slots {
				o.Load.Timeline.Slots[i].Mean = time.Duration(100-i) * time.Millisecond
			}
		}},
	}
	for _, r := range Rules() {
		rule, ok := r.(TrialRule)
		if !ok || cases()[rule.Name] != nil {
			continue // by TestRulesFireOnlyWhereTheyMust
		}
		if rule.Name == farHopsName {
			continue // by TestHopsBetweenRegionsExplainModes: it needs a topology
		}
		if tests[rule.Name].spoil == nil {
			t.Errorf("no test triggers %q", rule.Name)
		}
		if rule.Doc == "" || rule.Saved == "" || rule.Advice == "" {
			t.Errorf("rule %q says too little", rule.Name)
		}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := good()
			tt.spoil(&o)
			for _, f := range judge(o, good()) {
				if f.Rule == name {
					if f.Severity != tt.severity || f.Cause == "" || f.Evidence == "" || len(f.Trials) != 1 {
						t.Errorf("got %+v", f)
					}
					return
				}
			}
			t.Error("the rule said nothing")
		})
	}
}

// A silent server is doubtful; answers of another one make a trial invalid.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	o := good()
	delete(o.Load.Responders, "server-1")
	if f := judge(o); len(f) != 1 || f[0].Severity != model.SeveritySuspect {
		t.Errorf("got %+v", f)
	}
}

func TestInvalidComesFirst(t *testing.T) {
	t.Parallel()
	o := good()
	o.Load.PayloadChanged, o.Load.Sent = 1, 1
	f := judge(o)
	if len(f) < 2 || f[0].Severity != model.SeverityInvalid || !Invalid(f)[1] {
		t.Errorf("got %+v", f)
	}
}
