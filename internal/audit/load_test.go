package audit

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
)

// situation is a load of a study and a trial of it, and what a rule must say.
type situation struct {
	name  string
	load  func(l *model.Load)
	spoil func(o *model.Outcome)
	// severity is empty where the rule must say nothing; says is part of its
	// evidence.
	severity model.Severity
	says     string
}

// closed makes a trial a closed loop in which 32 connections are always busy.
func closed(o *model.Outcome) {
	o.Load.Arrival, o.Load.Rate, o.Load.Lateness = model.ArrivalClosed, 0, nil
	o.Load.Service = filled(20000, 32*time.Millisecond)
	o.Load.Response = o.Load.Service
}

// bulk makes a trial a transfer of 10 intervals; first is what the first two
// carried, in bytes, where all others carried 1,000.
func bulk(first uint64) func(o *model.Outcome) {
	return func(o *model.Outcome) {
		s := &model.StreamResult{Streams: 4, Direction: "up"}
		for i := range 10 {
			interval := model.StreamInterval{Length: time.Second, Up: 1000}
			if i < 2 {
				interval.Up = first
			}
			s.Up += interval.Up
			s.Intervals = append(s.Intervals, interval)
		}
		o.Load = &model.LoadResult{Arrival: model.ArrivalClosed, Connections: 4, Elapsed: 10 * time.Second, Workers: 1, GeneratorCPU: time.Second, Stream: s}
	}
}

// datagrams makes a trial a flow in which all counts agree; change spoils it.
func datagrams(change func(d *model.DatagramResult)) func(o *model.Outcome) {
	return func(o *model.Outcome) {
		d := &model.DatagramResult{Size: 1472, Sent: 100_000, Received: 99_000, Lost: 1_000, Interface: "eth0", InterfacePackets: 99_010}
		change(d)
		d.FlowSent, d.FlowReceived = d.Sent, d.Received
		o.Load = &model.LoadResult{Arrival: model.ArrivalOpen, Rate: 10_000, Elapsed: 10 * time.Second, Workers: 1, GeneratorCPU: time.Second, Datagrams: d}
	}
}

func tool(basis model.Basis, notes ...string) func(o *model.Outcome) {
	return func(o *model.Outcome) {
		o.Load.Tool = &model.Tool{Name: "fortio", Version: "1.69", Basis: basis, Notes: notes}
	}
}

func nothing(*model.Load) {}

// cases have, for each rule about loads, where it must fire and where not.
func cases() map[string][]situation {
	all := requestCases()
	maps.Copy(all, flowCases())
	maps.Copy(all, settingCases())
	return all
}

func requestCases() map[string][]situation {
	return map[string][]situation{
		"Little's law broken": {
			{"busy", nothing, closed, "", ""},
			{"an open loop", nothing, func(*model.Outcome) {}, "", ""},
			{"half of the connections idle", nothing, func(o *model.Outcome) { closed(o); o.Load.Connections = 64 }, model.SeveritySuspect, "1000/s x 32ms = 32.0 in flight, with room for 64 on 64"},
			{"half of the time taken by the generator", nothing, func(o *model.Outcome) {
				closed(o)
				o.Load.Connections, o.Load.Turnaround = 64, 32*o.Load.Elapsed
			}, "", ""},
			{"the generator's time twice", nothing, func(o *model.Outcome) { closed(o); o.Load.Turnaround = 32 * o.Load.Elapsed }, model.SeveritySuspect, "32.0 waiting for the generator"},
			{"more than there is room for", nothing, func(o *model.Outcome) { closed(o); o.Load.Connections = 16 }, model.SeveritySuspect, "32.0 in flight"},
			{"streams", nothing, func(o *model.Outcome) { closed(o); o.Load.Connections, o.Load.Streams = 4, 8 }, "", ""},
			{"think time", func(l *model.Load) { l.Think = 32 * time.Millisecond }, func(o *model.Outcome) { closed(o); o.Load.Connections = 64 }, "", ""},
			{"random think time", func(l *model.Load) { l.Think, l.Pattern.Poisson = 32*time.Millisecond, true }, func(o *model.Outcome) { closed(o); o.Load.Connections = 65 }, "", ""},
			{"far from any random think time", func(l *model.Load) { l.Think, l.Pattern.Poisson = 32*time.Millisecond, true }, func(o *model.Outcome) { closed(o); o.Load.Connections = 75 }, model.SeveritySuspect, ""},
			{"few random think times", func(l *model.Load) { l.Think, l.Pattern.Poisson = 32*time.Millisecond, true }, func(o *model.Outcome) {
				closed(o)
				o.Load.Connections, o.Load.Elapsed = 75, 100*time.Millisecond
				o.Load.Succeeded, o.Load.Service = 100, filled(100, 32*time.Millisecond)
			}, "", ""},
			{"think time that was not kept", func(l *model.Load) { l.Think = time.Second }, closed, model.SeveritySuspect, "1000.0 resting"},
			{"paced below what it could", func(l *model.Load) { l.Pace = 1000 }, func(o *model.Outcome) { closed(o); o.Load.Connections = 64 }, "", ""},
			{"paced and impossible", func(l *model.Load) { l.Pace = 1000 }, func(o *model.Outcome) { closed(o); o.Load.Connections = 16 }, model.SeveritySuspect, ""},
			{"failures hold connections, too", nothing, func(o *model.Outcome) {
				closed(o)
				o.Load.Connections = 64
				o.Load.Failed = map[model.Cause]uint64{model.CauseTimeout: 640}
				o.Load.FailedResponse = filled(640, 980*time.Millisecond) // and 20 ms of rest each
			}, "", ""},
			{"a stream", nothing, bulk(1000), "", ""},
		},
		"search limited": {
			{"no search", nothing, func(*model.Outcome) {}, "", ""},
			{"by the system", nothing, func(o *model.Outcome) {
				o.Search = &model.SearchResult{Highest: 900, Limit: model.LimitSystem}
			}, "", ""},
			{"by the generator", nothing, func(o *model.Outcome) {
				o.Search = &model.SearchResult{Highest: 900, Limit: model.LimitGenerator, Probes: make([]model.SearchProbe, 3)}
			}, model.SeveritySuspect, "at least 900/s held, in 3 probes"},
		},
		"generator late": {
			{"within the budget", nothing, func(o *model.Outcome) { o.Load.Lateness = filled(20000, 240*time.Microsecond) }, "", ""},
			{"over the budget", nothing, func(o *model.Outcome) { o.Load.Lateness = filled(20000, 300*time.Microsecond) }, model.SeverityNote, "budget of p99 250"},
			{"as late as a LAN is long", nothing, func(o *model.Outcome) { o.Load.Lateness = filled(20000, 8*time.Millisecond) }, model.SeveritySuspect, ""},
			{"as late as it was asked to be", func(l *model.Load) { l.Coalesce = time.Millisecond }, func(o *model.Outcome) { o.Load.Lateness = filled(20000, time.Millisecond) }, "", ""},
			{"a closed loop", nothing, closed, "", ""},
		},
		"generator saturated": {
			{"idle", nothing, func(o *model.Outcome) { o.Load.GeneratorIdle = 0.95 }, "", ""},
			{"open, all of its CPU", nothing, func(o *model.Outcome) { o.Load.GeneratorCPU = 19 * time.Second }, model.SeverityInvalid, "95 % of 1 core"},
			{"open, never waiting though little CPU", nothing, func(o *model.Outcome) { o.Load.GeneratorIdle = 0.01 }, model.SeverityInvalid, "waited for events 1.0 %"},
			{"spinning by design", func(l *model.Load) { l.Spin = 50 * time.Microsecond }, func(o *model.Outcome) { o.Load.GeneratorCPU = 20 * time.Second }, "", ""},
			{"closed", nothing, func(o *model.Outcome) { closed(o); o.Load.GeneratorCPU = 19 * time.Second }, model.SeveritySuspect, ""},
			{"a stream", nothing, func(o *model.Outcome) { bulk(1000)(o); o.Load.GeneratorCPU = 10 * time.Second }, model.SeverityNote, ""},
			{"four streams on one core", nothing, func(o *model.Outcome) { bulk(1000)(o); o.Load.Workers, o.Load.GeneratorCPU = 4, 10*time.Second }, model.SeverityNote, "4 worker(s) used 100 % of 1 core"},
		},
		"requests waited for a connection": {
			{"few", nothing, func(o *model.Outcome) { o.Load.Blocked = 100 }, "", ""},
			{"many", nothing, func(o *model.Outcome) { o.Load.Blocked = 4000 }, model.SeverityNote, "20.0 % of 20000"},
		},
		"waiting requests given up": {
			{"none was", func(l *model.Load) { l.Drop = true }, func(*model.Outcome) {}, "", ""},
			{"unsent for another reason", nothing, func(o *model.Outcome) { o.Load.Unsent = 10 }, "", ""},
			{"some were", func(l *model.Load) { l.Drop = true }, func(o *model.Outcome) { o.Load.Unsent = 10 }, model.SeveritySuspect, "10 of 20000"},
		},
		"requests failed": {
			{"none", nothing, func(*model.Outcome) {}, "", ""},
			{"by HTTP status", nothing, func(o *model.Outcome) {
				o.Load.Failed = map[model.Cause]uint64{model.CauseStatus: 5, model.CauseReset: 1}
				o.Load.Statuses = map[int]uint64{200: 19994, 503: 4, 404: 1}
			}, model.SeverityNote, "1 reset, 5 bad status (1 status 404, 4 status 503)"},
			{"many under a fault", func(l *model.Load) { l.Fault = "crash" }, func(o *model.Outcome) {
				o.Load.Failed = map[model.Cause]uint64{model.CauseRefused: 5000}
				o.Faults = []model.FaultRecord{{InjectStart: 1}}
			}, model.SeverityNote, "5000 refused"},
			{"nothing but time-outs under a fault", func(l *model.Load) { l.Fault = "crash" }, func(o *model.Outcome) {
				o.Load.Failed = map[model.Cause]uint64{model.CauseTimeout: 5000}
				o.Faults = []model.FaultRecord{{InjectStart: 1}}
			}, model.SeverityNote, "5000 timed out, all given up by the client"},
			{"by gRPC status", func(l *model.Load) { l.Protocol = "grpc" }, func(o *model.Outcome) {
				o.Load.Failed = map[model.Cause]uint64{model.CauseStatus: 1000}
				o.Load.Statuses = map[int]uint64{0: 19000, 14: 990, 8: 9, 99: 1}
			}, model.SeveritySuspect, "1000 bad status (9 RESOURCE_EXHAUSTED, 990 UNAVAILABLE, 1 status 99)"},
			{"lost datagrams are loss", nothing, func(o *model.Outcome) {
				datagrams(func(*model.DatagramResult) {})(o)
				o.Load.Failed = map[model.Cause]uint64{model.CauseTimeout: 1000}
			}, "", ""},
			{"without anything due", nothing, func(o *model.Outcome) { bulk(1000)(o); o.Load.Failed = map[model.Cause]uint64{model.CauseReset: 1} }, model.SeveritySuspect, "1 reset"},
		},
		"target rate not reached": {
			{"a flow", nothing, datagrams(func(*model.DatagramResult) {}), "", ""},
			{"one less of few", nothing, func(o *model.Outcome) { o.Load.Rate, o.Load.Elapsed, o.Load.Sent = 49.5, 2*time.Second, 98 }, "", ""},
			{"two less of few", nothing, func(o *model.Outcome) { o.Load.Rate, o.Load.Elapsed, o.Load.Sent = 49.5, 2*time.Second, 97 }, model.SeverityInvalid, "2.0 % short"},
			{"a flow that is short", nothing, datagrams(func(d *model.DatagramResult) { d.Sent = 90_000 }), model.SeverityInvalid, "10.0 % short"},
		},
		"too few samples": {
			{"enough", nothing, func(o *model.Outcome) { o.Load.Response = filled(10_000, time.Millisecond) }, "", ""},
			{"for p99.9", nothing, func(o *model.Outcome) { o.Load.Response = filled(9_999, time.Millisecond) }, model.SeverityNote, "beyond p99.9"},
			{"for p99", nothing, func(o *model.Outcome) { o.Load.Response = filled(999, time.Millisecond) }, model.SeverityNote, "10 beyond p99"},
			{"a stream", nothing, bulk(1000), "", ""},
		},
	}
}

func flowCases() map[string][]situation {
	return map[string][]situation{
		"stream still growing": {
			{"even", nothing, bulk(1000), "", ""},
			{"faster at first", nothing, bulk(2000), "", ""},
			{"within what blocks differ by", nothing, bulk(950), "", ""},
			{"slow start", nothing, bulk(400), model.SeveritySuspect, "first 2 of 10 intervals carried 60 % less"},
			{"too short to tell", nothing, func(o *model.Outcome) { bulk(10)(o); o.Load.Stream.Intervals = o.Load.Stream.Intervals[:4] }, "", ""},
		},
		"datagram counts disagree": {
			{"they agree, with a little ARP", nothing, datagrams(func(*model.DatagramResult) {}), "", ""},
			{"the interface saw more", nothing, datagrams(func(d *model.DatagramResult) { d.InterfacePackets = 105_000 }), model.SeveritySuspect, "eth0 counted 105000"},
			{"the difference is the socket's", nothing, datagrams(func(d *model.DatagramResult) {
				d.Received, d.Lost, d.SocketDrops, d.InterfacePackets = 90_000, 10_000, 9_000, 99_000
			}), "", ""},
			{"in six fragments each", nothing, datagrams(func(d *model.DatagramResult) { d.Size, d.InterfacePackets = 8192, 594_000 }), "", ""},
			{"small ones cannot be fragments", nothing, datagrams(func(d *model.DatagramResult) { d.Size, d.InterfacePackets = 100, 594_000 }), model.SeveritySuspect, "594000"},
			{"not readable", nothing, datagrams(func(d *model.DatagramResult) { d.Interface, d.InterfacePackets = "", 0 }), "", ""},
			{"counted in large packets", nothing, datagrams(func(d *model.DatagramResult) { d.Offload, d.InterfacePackets = true, 2_000 }), "", ""},
		},
		"receiver dropped datagrams": {
			{"lost on the way", nothing, datagrams(func(*model.DatagramResult) {}), "", ""},
			{"a few of many", nothing, datagrams(func(d *model.DatagramResult) { d.SocketDrops = 10 }), model.SeverityNote, "1000 lost in the window; warm-up included, 10"},
			{"most", nothing, datagrams(func(d *model.DatagramResult) { d.SocketDrops = 900 }), model.SeveritySuspect, ""},
			{"by the interface", nothing, datagrams(func(d *model.DatagramResult) { d.InterfaceDrops = 900 }), model.SeveritySuspect, "900 were dropped by the interface"},
		},
		"not sent packet by packet": {
			{"one by one", nothing, datagrams(func(*model.DatagramResult) {}), "", ""},
			{"with GSO", nothing, datagrams(func(d *model.DatagramResult) { d.Offload = true }), model.SeverityNote, "of 1472 bytes"},
		},
	}
}

func settingCases() map[string][]situation {
	still := func(*model.Outcome) {}
	closedLoad := func(l *model.Load) { l.Arrival, l.Connections = model.ArrivalClosed, 32 }
	return map[string][]situation{
		"closed loop": {
			{"open", nothing, still, "", ""},
			{"closed", closedLoad, closed, model.SeverityNote, "32 connections"},
			{"paced, with think time", func(l *model.Load) { closedLoad(l); l.Pace, l.Think = 500, time.Second }, closed, model.SeverityNote, "at most 500/s in all, and think for 1s"},
			{"a stream has no response time", closedLoad, bulk(1000), "", ""},
		},
		"coordinated omission": {
			{"our engine", nothing, still, "", ""},
			{"a tool that counts from due", nothing, tool(model.BasisDue), "", ""},
			{"one without latencies", nothing, tool(model.BasisNothing), "", ""},
			{"one that counts from sent", nothing, tool(model.BasisSent), model.SeveritySuspect, "fortio 1.69"},
			{"the same in a closed loop", closedLoad, func(o *model.Outcome) { closed(o); tool(model.BasisSent)(o) }, "", ""},
		},
		"what the tool does not tell": {
			{"our engine", nothing, still, "", ""},
			{"nothing to note", nothing, tool(model.BasisDue), "", ""},
			{"notes", nothing, tool(model.BasisDue, "no lateness", "buckets of 1 ms"), model.SeverityNote, "buckets of 1 ms; no lateness"},
		},
		"generator settings": {
			{"none", nothing, still, "", ""},
			{"all", func(l *model.Load) { l.Coalesce, l.Spin, l.Drop = time.Millisecond, 60*time.Microsecond, true }, still, model.SeverityNote, "coalesce 1ms"},
		},
		"certificates not verified": {
			{"in the clear", nothing, still, "", ""},
			{"verified", func(l *model.Load) { l.TLS = &model.TLS{} }, still, "", ""},
			{"not verified", func(l *model.Load) { l.TLS = &model.TLS{Insecure: true} }, still, model.SeverityNote, "insecure"},
		},
		"clocks differ": {
			{"one clock", nothing, func(o *model.Outcome) { o.Load.Clock = "CLOCK_MONOTONIC" }, "", ""},
		},
	}
}

func TestRulesFireOnlyWhereTheyMust(t *testing.T) {
	t.Parallel()
	for rule, all := range cases() {
		for _, tt := range all {
			t.Run(rule+"/"+tt.name, func(t *testing.T) {
				t.Parallel()
				l := model.Load{Name: "steady", Protocol: "http1", Arrival: model.ArrivalOpen}
				tt.load(&l)
				o := good()
				tt.spoil(&o)
				var found []model.Finding
				for _, f := range Judge(Evidence{Study: model.Study{Loads: []model.Load{l}}, Host: model.Host{Cores: 2, GeneratorCPUs: []int{1}}, Outcomes: []model.Outcome{o}}, Rules()) {
					if f.Rule == rule {
						found = append(found, f)
					}
				}
				switch {
				case tt.severity == "" && len(found) > 0:
					t.Errorf("it must say nothing: %+v", found)
				case tt.severity == "":
				case len(found) != 1 || found[0].Severity != tt.severity || !strings.Contains(found[0].Evidence, tt.says):
					t.Errorf("got %+v, want %s, %q", found, tt.severity, tt.says)
				}
			})
		}
	}
}

func TestClocksDiffer(t *testing.T) {
	t.Parallel()
	a, b := good(), good()
	a.Load.Clock, b.Load.Clock = "CLOCK_MONOTONIC", "CLOCK_MONOTONIC; receipt by the kernel"
	e := Evidence{Study: model.Study{Loads: []model.Load{{Name: "steady"}}}, Outcomes: []model.Outcome{a, b}}
	if f := Judge(e, []Rule{clocksDiffer()}); len(f) != 1 || f[0].Severity != model.SeveritySuspect || f[0].Load != "steady" || f[0].Variant != "" {
		t.Errorf("got %+v", f)
	}
}

// Every rule explains itself, and names only metrics that there are.
func TestRulesAreComplete(t *testing.T) {
	t.Parallel()
	known := func(name string) bool {
		return slices.ContainsFunc(metric.Names(), func(m string) bool { return m == name || strings.HasPrefix(m, name+".") })
	}
	for _, r := range Rules() {
		var name, doc, saved, advice string
		var metrics []string
		switch r := r.(type) {
		case TrialRule:
			name, doc, saved, advice, metrics = r.Name, r.Doc, r.Saved, r.Advice, r.Metrics
		case LoadRule:
			name, doc, saved, advice, metrics = r.Name, r.Doc, r.Saved, r.Advice, r.Metrics
			if len(cases()[name]) == 0 {
				t.Errorf("no test triggers %q", name)
			}
		case StudyRule:
			name, doc, saved, advice = r.Name, r.Doc, r.Saved, r.Advice // by TestWhatTheTargetDid
		}
		if name == "" || doc == "" || saved == "" || advice == "" {
			t.Errorf("rule %q says too little", name)
		}
		for _, m := range metrics {
			if !known(m) {
				t.Errorf("rule %q is about %q, which is no metric", name, m)
			}
		}
	}
}

// Flows have no latency: no rule may take its absence for a doubt.
func TestGoodFlowsHaveNoFinding(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(o *model.Outcome){"stream": bulk(1000), "datagrams": datagrams(func(*model.DatagramResult) {})} {
		o := good()
		spoil(&o)
		if f := judge(o); len(f) != 0 {
			t.Errorf("%s: %+v", name, f)
		}
	}
	o := good()
	o.Load.FailedResponse = &hist.Histogram{}
	closed(&o)
	if f := judge(o); len(f) != 0 {
		t.Errorf("closed loop: %+v", f)
	}
}
