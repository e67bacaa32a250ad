package audit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
)

var epoch = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// openRun is one of vegeta's, of n requests, 10 ms apart, that all take about as
// long: nothing is wrong with it.
func openRun(variant string, rep, n int) Run {
	l := ingest.NewResult("vegeta", ingest.About{Arrival: model.ArrivalOpen, Rate: 100, Duration: time.Duration(n) * 10 * time.Millisecond}, model.BasisDue)
	r := Run{Name: Name{Variant: variant, Load: "100rps", Repetition: strconv.Itoa(rep)}, File: fmt.Sprintf("%s-%d/100rps.gob", variant, rep)}
	r.Measurement = ingest.Measurement{Result: l, Labels: map[string]string{}, Started: epoch.Add(time.Duration(rep) * time.Hour)}
	for i := range n {
		add(&r, i, time.Duration(3000+i%7*10)*time.Microsecond, "ok")
	}
	return r
}

func add(r *Run, i int, latency time.Duration, body string) {
	r.Requests = append(r.Requests, ingest.Request{Seq: uint64(i), Sent: r.Started.Add(time.Duration(i) * 10 * time.Millisecond), Latency: latency, Code: 200, Bytes: int64(len(body)), Payload: body})
	l := r.Result
	l.Due, l.Sent, l.Succeeded = l.Due+1, l.Sent+1, l.Succeeded+1
	l.Service.Record(int64(latency))
	l.Response.Record(int64(latency))
}

// refuse makes the first n requests of a run fail.
func refuse(r *Run, n int) {
	l := r.Result
	for i := range n {
		q := &r.Requests[i]
		q.Code, q.Error, q.Payload, q.Bytes, q.Latency = 0, "connection refused", "", 0, time.Millisecond
	}
	l.Succeeded -= uint64(n)
	l.Failed[model.CauseRefused] = uint64(n)
	l.FailedPrefix, l.FirstSuccess = uint64(n), time.Duration(n)*10*time.Millisecond
}

// pacedRun is one of fortio's, with one connection at 6000/s asked and 500/s
// reached, and headers of 241 bytes.
func pacedRun(variant string, rep int) Run {
	const n = 30_000
	l := ingest.NewResult("fortio", ingest.About{Arrival: model.ArrivalClosed, Connections: 1, Duration: time.Minute}, model.BasisSent)
	l.Due, l.Sent, l.Succeeded, l.Sockets = n, n, n, 1
	l.HeaderBytesMin, l.HeaderBytesMax, l.BodyBytesMin, l.BodyBytesMax = 241, 241, 612, 612
	l.Service.RecordN(int64(2*time.Millisecond), n)
	r := Run{Name: Name{Variant: variant, Load: "6000qps", Repetition: strconv.Itoa(rep)}, File: fmt.Sprintf("%s/run-%02d.json", variant, rep)}
	r.Measurement = ingest.Measurement{Result: l, Started: epoch.Add(time.Duration(rep) * time.Hour), Labels: map[string]string{
		ingest.LabelAsked: "6000", ingest.LabelAchieved: "500", ingest.LabelProcs: "1", ingest.LabelVersion: "1.69.5", ingest.LabelURL: "http://a:80/x",
	}}
	return r
}

// calm is a paced run that reaches what was asked for on 32 connections.
func calm(variant string, rep int) Run {
	r := pacedRun(variant, rep)
	r.Result.Connections, r.Result.Sockets = 32, 32
	r.Labels[ingest.LabelAsked], r.Labels[ingest.LabelAchieved] = "500", "500"
	return r
}

func pair(run func(variant string, rep int) Run, change func(b *Run)) []Run {
	var all []Run
	for rep := 1; rep <= 8; rep++ {
		a, b := run("a", rep), run("b", rep)
		// Each comes first in every other round.
		if rep%2 == 0 {
			b.Started = b.Started.Add(time.Minute)
		} else {
			a.Started = a.Started.Add(time.Minute)
		}
		change(&b)
		all = append(all, a, b)
	}
	return all
}

func openPair(change func(b *Run)) []Run {
	return pair(func(v string, rep int) Run { return openRun(v, rep, 1500) }, change)
}

func calmPair(change func(b *Run)) []Run { return pair(calm, change) }

// far makes every fourth request cross a path of 95 ms so often as it says.
func far(trips ...int) func(b *Run) {
	return func(b *Run) {
		for i := range b.Requests {
			if i%4 == 0 {
				n := trips[i/4%len(trips)]
				b.Requests[i].Latency += time.Duration(n)*95*time.Millisecond + time.Duration(i%3)*200*time.Microsecond
			}
		}
	}
}

// plateau makes the slowest 4 % wait for the end of a quota's period.
func plateau(low, high time.Duration) func(b *Run) {
	return func(b *Run) {
		h := &hist.Histogram{}
		h.RecordN(int64(2*time.Millisecond), 28_800)
		for i := range int64(1200) {
			h.Record(int64(low) + i*int64(high-low)/1200)
		}
		b.Result.Service = h
	}
}

type setting struct {
	name string
	runs []Run
	// severity is empty where the rule must say nothing; says is part of its
	// evidence.
	severity model.Severity
	says     string
}

func nothingMore(*Run) {}

func foreignCases() map[string][]setting {
	one := func(r Run, change func(*Run)) []Run { change(&r); return []Run{r} }
	return map[string][]setting{
		"run aborted": {
			{"it ended", openPair(nothingMore), "", ""},
			{"it was given up", one(calm("a", 1), func(r *Run) { r.Labels[ingest.LabelAborted] = "no route" }), model.SeverityInvalid, "no route"},
		},
		"failing prefix": {
			{"none failed", openPair(nothingMore), "", ""},
			{"the first 150", openPair(func(b *Run) { refuse(b, 150) }), model.SeverityInvalid, "150 of 150 failures came before the first success at 1.5s"},
		},
		"start-up whatever the load": {
			{"one load", openPair(func(b *Run) { refuse(b, 150) }), "", ""},
			{"at two loads", append(openPair(func(b *Run) { refuse(b, 150) }), openPair(func(b *Run) { refuse(b, 200); b.Load = "10rps" })...), model.SeveritySuspect, "first success after 1.5s to 2s under 100rps; 10rps"},
			{"longer under more load", append(openPair(func(b *Run) { refuse(b, 100) }), openPair(func(b *Run) { refuse(b, 1000); b.Load = "10rps" })...), "", ""},
		},
		"failures in the latencies": {
			{"none failed", openPair(nothingMore), "", ""},
			{"refused in 1 ms", openPair(func(b *Run) { refuse(b, 900) }), model.SeveritySuspect, "median with them 1ms, of the answers alone 3.03ms"},
			{"a report that mixes them", calmPair(func(b *Run) { b.Result.Failed[model.CauseReset] = 5; b.Result.Tool.Note(ingest.Mixed) }), model.SeveritySuspect, "5 of 30005"},
			{"a report that keeps them apart", calmPair(func(b *Run) { b.Result.Failed[model.CauseReset] = 5 }), "", ""},
		},
		"asked rate not reached": {
			{"reached", calmPair(nothingMore), "", ""},
			{"500 of 6000", pair(pacedRun, nothingMore), model.SeveritySuspect, "500.0/s of 6000/s on 1 connection"},
		},
		"falling behind": {
			{"no word of it", calmPair(nothingMore), "", ""},
			{"a little", calmPair(func(b *Run) { b.Labels[ingest.LabelBehind] = "0.4" }), "", ""},
			{"some", calmPair(func(b *Run) { b.Labels[ingest.LabelBehind] = "2.5" }), model.SeverityNote, "2.50 %"},
			{"where fortio warns", calmPair(func(b *Run) { b.Labels[ingest.LabelBehind] = "14.86" }), model.SeverityInvalid, "14.86 % of its pauses began too late; 500.0/s of 500/s"},
		},
		"maximum may be the generator's": {
			{"paced", calmPair(func(b *Run) { b.Labels[ingest.LabelAchieved] = "30000" }), "", ""},
			{"unpaced on one CPU", calmPair(func(b *Run) { b.Labels[ingest.LabelAsked], b.Labels[ingest.LabelAchieved] = "max", "30000" }), model.SeveritySuspect, "30000/s from 1 CPU"},
			{"unpaced on eight", calmPair(func(b *Run) {
				b.Labels[ingest.LabelAsked], b.Labels[ingest.LabelAchieved], b.Labels[ingest.LabelProcs] = "max", "30000", "8"
			}), "", ""},
		},
		"waiting not counted": {
			{"as fast as asked", calmPair(nothingMore), "", ""},
			{"one was slow", calmPair(func(b *Run) { b.Result.Service.Record(int64(time.Second)) }), model.SeverityNote, "was to send 16 requests"},
		},
		"rate is connections/latency": {
			{"32 connections", calmPair(nothingMore), "", ""},
			{"one, always busy", pair(pacedRun, nothingMore), model.SeveritySuspect, "1 connection(s) / 2ms = 500/s; measured 500/s"},
			{"one, mostly idle", pair(pacedRun, func(b *Run) { b.Labels[ingest.LabelAchieved] = "100" })[1:2], "", ""},
		},
		"answers from more than one place": {
			{"one answer", openPair(nothingMore), "", ""},
			{"two", openPair(func(b *Run) { b.Requests[7].Payload = "elsewhere" }), model.SeveritySuspect, `1 x "elsewhere"`},
			{"a clock in each", openPair(func(b *Run) {
				for i := range b.Requests {
					b.Requests[i].Payload = strconv.Itoa(i)
				}
			}), "", ""},
		},
		"empty answer counted as success": {
			{"full", openPair(nothingMore), "", ""},
			{"null", openPair(func(b *Run) { b.Requests[3].Payload = "null" }), model.SeverityInvalid, "1 of 1500"},
		},
		"keep-alive limit in the tail": {
			{"one socket each", calmPair(nothingMore), "", ""},
			{"one in a thousand", calmPair(func(b *Run) { b.Result.Connections, b.Result.Sockets = 1, 30 }), model.SeveritySuspect, "30 sockets for 30000 requests on 1 connection(s): one in 1000"},
			{"no round number", calmPair(func(b *Run) { b.Result.Connections, b.Result.Sockets = 1, 70 }), "", ""},
		},
		quotaName: {
			{"none", calmPair(nothingMore), "", ""},
			{"short of 100 ms", calmPair(plateau(72*time.Millisecond, 81*time.Millisecond)), model.SeveritySuspect, "4.0 % of answers took 50 to 105 ms"},
			{"a long tail, without a valley", calmPair(plateau(5*time.Millisecond, 200*time.Millisecond)), "", ""},
			{"slow, but not so slow", calmPair(plateau(20*time.Millisecond, 30*time.Millisecond)), "", ""},
			{"a path of 95 ms", openPair(func(b *Run) {
				far(1)(b)
				b.Result.Service.Reset()
				b.Result.Response.Reset()
				for _, q := range b.Requests {
					b.Result.Service.Record(int64(q.Latency))
				}
			}), "", ""},
		},
		"datagrams fragmented": {
			{"one packet each", one(calm("a", 1), func(r *Run) { r.Result.Datagrams = &model.DatagramResult{Size: 1472} }), "", ""},
			{"8 KiB", one(calm("a", 1), func(r *Run) { r.Result.Datagrams = &model.DatagramResult{Size: 8192} }), model.SeveritySuspect, "6 fragments"},
		},
		"versions not pinned": {
			{"pinned", calmPair(nothingMore), "", ""},
			{"latest", calmPair(func(b *Run) { b.Labels["image"] = "nginx:latest" }), model.SeverityNote, "image: nginx:latest"},
		},
		roundTripsName: {
			{"none", openPair(nothingMore), "", ""},
			{"one, two and three", openPair(far(1, 2, 2, 3)), model.SeveritySuspect, "752 took 1 RTT, 1504 took 2 RTT, 744 took 3 RTT"},
			{"one alone could be anything", openPair(far(1)), "", ""},
			{"a tail without steps", openPair(func(b *Run) {
				for i := range b.Requests {
					b.Requests[i].Latency += time.Duration(i*i%300_000) * time.Microsecond
				}
			}), "", ""},
		},
		"protocol level differs": {
			{"alike", calmPair(nothingMore), "", ""},
			{"headers", calmPair(func(b *Run) { b.Result.HeaderBytesMin, b.Result.HeaderBytesMax = 233, 238 }), model.SeveritySuspect, "b: 233 to 238 B of headers"},
			{"sockets", calmPair(func(b *Run) { b.Result.Connections, b.Result.Sockets = 1, 30 }), model.SeveritySuspect, "(one in 1000)"},
			{"server", calmPair(func(b *Run) { b.Response = map[string]string{"Server": "envoy"} }), "", ""}, // the other does not tell
			{"two servers", append(calmPair(func(b *Run) { b.Response = map[string]string{"Server": "envoy"} }), one(calm("a", 9), func(r *Run) { r.Response = map[string]string{"Server": "nginx"} })...), model.SeveritySuspect, "server: envoy"},
		},
		"answers differ between systems": {
			{"alike", calmPair(nothingMore), "", ""},
			{"612 and 4", calmPair(func(b *Run) { b.Result.BodyBytesMin, b.Result.BodyBytesMax = 4, 4 }), model.SeveritySuspect, "a: 612 to 612 B; b: 4 to 4 B"},
		},
		"packet size differs": {
			{"alike", calmPair(func(b *Run) { b.Result.Stream = &model.StreamResult{MSS: 1448} }), "", ""},
			{"MSS", pair(func(v string, rep int) Run {
				r := calm(v, rep)
				r.Result.Stream = &model.StreamResult{MSS: 1448}
				return r
			}, func(b *Run) { b.Result.Stream = &model.StreamResult{MSS: 1348} }), model.SeveritySuspect, "a: MSS 1448; b: MSS 1348"},
		},
		"order confounded with the system": {
			{"taking turns", calmPair(nothingMore), "", ""},
			{"54 days later", calmPair(func(b *Run) { b.Started = b.Started.AddDate(0, 0, 54) }), model.SeveritySuspect, "longest gap 54 days, between a and b"},
			{"always a first", pair(calm, func(b *Run) { b.Started = b.Started.Truncate(time.Hour).Add(10 * time.Minute) }), model.SeverityNote, "a, b, 8 times"},
			{"no times", calmPair(func(b *Run) { b.Started = time.Time{} }), "", ""},
		},
		"arms differ in more than the system": {
			{"alike", calmPair(nothingMore), "", ""},
			{"connections", calmPair(func(b *Run) { b.Result.Connections = 64 }), model.SeveritySuspect, "connections: 32 (a); 64 (b)"},
			{"path", calmPair(func(b *Run) { b.Labels[ingest.LabelURL] = "http://b:80/y" }), model.SeveritySuspect, "URL's path: /x (a); /y (b)"},
			{"another host is the system", calmPair(func(b *Run) { b.Labels[ingest.LabelURL] = "http://b:80/x" }), "", ""},
		},
		"runs missing": {
			{"as many each", calmPair(nothingMore), "", ""},
			{"one less", calmPair(nothingMore)[1:], model.SeveritySuspect, "7, where another has 8"},
			{"a hole", slices.DeleteFunc(calmPair(nothingMore), func(r Run) bool { return r.Repetition == "3" }), model.SeveritySuspect, "no run 3"},
		},
		"not repeated": {
			{"eight times", calmPair(nothingMore), "", ""},
			{"once", calmPair(nothingMore)[:2], model.SeveritySuspect, "a/6000qps; b/6000qps"},
			{"three times", calmPair(nothingMore)[:6], model.SeverityNote, "a/6000qps (3)"},
		},
		"many comparisons": {
			{"one", calmPair(nothingMore), "", ""},
			{"two", append(calmPair(nothingMore), calmPair(func(b *Run) { b.Variant = "c" })...), model.SeverityNote, "each needs 7 pairs"},
		},
		"report does not match raw data": {
			{"it does", openPair(withReport(func(*model.LoadResult) {})), "", ""},
			{"another count", openPair(withReport(func(l *model.LoadResult) { l.Succeeded-- })), model.SeverityInvalid, "1499 of 1500 good in the report"},
			{"another mean", openPair(withReport(func(l *model.LoadResult) { l.Tool.Figures["mean"] = time.Second })), model.SeverityInvalid, "mean is 1s in the report"},
		},
	}
}

// withReport lays a report beside a run, as change makes it.
func withReport(change func(*model.LoadResult)) func(b *Run) {
	return func(b *Run) {
		b.Result.Tool.Figures["mean"] = 3 * time.Millisecond
		l := ingest.NewResult("vegeta", ingest.About{}, model.BasisSent)
		l.Due, l.Succeeded, l.Tool.Figures = b.Result.Due, b.Result.Succeeded, map[string]time.Duration{"mean": 3 * time.Millisecond}
		change(l)
		b.Report = &ingest.Measurement{Result: l}
	}
}

// Every rule about other tools' results, and about sets, has something that
// triggers it and something that does not.
func TestForeignRules(t *testing.T) {
	t.Parallel()
	all := foreignCases()
	for _, r := range slices.Concat(Foreign(), SetRules()) {
		name, doc := "", ""
		switch x := r.(type) {
		case TrialRule:
			name, doc = x.Name, x.Doc+x.Saved+x.Advice
		case SetRule:
			name, doc = x.Name, x.Doc+x.Saved+x.Advice
		}
		fires, silent := 0, 0
		for _, c := range all[name] {
			if c.severity == "" {
				silent++
			} else {
				fires++
			}
		}
		if fires == 0 || silent == 0 || len(doc) < 100 {
			t.Errorf("%q: %d cases trigger it and %d do not; %d characters about it", name, fires, silent, len(doc))
		}
	}
	for name, cases := range all {
		for _, c := range cases {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				checkSetting(t, name, c)
			})
		}
	}
}

func checkSetting(t *testing.T, name string, c setting) {
	t.Helper()
	e := NewEvidence(c.runs)
	for _, f := range Judge(e, Catalog()) {
		if f.Rule != name {
			continue
		}
		switch {
		case c.severity == "":
			t.Errorf("it says %+v", f)
		case f.Severity == c.severity && strings.Contains(f.Evidence, c.says):
			if f.Advice == "" || f.Cause == "" {
				t.Errorf("it says too little: %+v", f)
			}
			Picture(e, f) // must not fail
			return
		default:
			t.Logf("it says %+v", f)
		}
	}
	if c.severity != "" {
		t.Errorf("nothing is %s and says %q", c.severity, c.says)
	}
}

// A clean set of another tool's runs has no finding but that the tool is coarse.
func TestCleanRunsOfOtherTools(t *testing.T) {
	t.Parallel()
	e := NewEvidence(openPair(nothingMore))
	for _, f := range Judge(e, Catalog()) {
		if f.Rule != "too few samples" { // 1500 requests do not carry a p99.9
			t.Errorf("%s: %s, %s", f.Rule, f.Cause, f.Evidence)
		}
	}
	if a := Answer(e, nil); !strings.Contains(a, "may be used; nothing speaks against comparing") {
		t.Error(a)
	}
}

// A clean run of our own has nothing invalid or suspect, whichever rules look at it.
func TestCleanRunOfOurOwn(t *testing.T) {
	t.Parallel()
	var e Evidence
	e.Host.Cores = 2
	e.Study.Loads = []model.Load{{Name: "steady", Arrival: model.ArrivalOpen, Rate: 1000, Connections: 32}}
	for block := 1; block <= 10; block++ {
		for i, v := range []string{"direct", "nft-service", "envoy"} {
			o := good()
			place := (i + block*block) % 3
			o.Trial = model.Trial{Index: len(e.Outcomes) + 1, Block: block, Variant: v, Load: "steady"}
			o.Started = epoch.Add(time.Duration(block)*time.Hour + time.Duration(place)*time.Minute)
			e.Outcomes = append(e.Outcomes, o)
		}
	}
	for _, f := range Judge(e, Catalog()) {
		if f.Severity != model.SeverityNote {
			t.Errorf("%s: %s, %s", f.Rule, f.Cause, f.Evidence)
		}
	}
	if a := Answer(e, nil); !strings.HasPrefix(a, "All 30 trials may be used") {
		t.Error(a)
	}
}

func TestAnswerOfInvalidRuns(t *testing.T) {
	t.Parallel()
	e := NewEvidence(openPair(func(b *Run) { refuse(b, 150) }))
	a := Answer(e, Judge(e, Catalog()))
	if !strings.HasPrefix(a, "8 of 16 runs must not be used: failing prefix; read with care: ") {
		t.Error(a)
	}
}

func TestPictures(t *testing.T) {
	t.Parallel()
	e := NewEvidence(append(openPair(func(b *Run) { refuse(b, 750) }), openPair(func(b *Run) { far(1, 2, 3)(b); b.Variant = "c" })...))
	var seen []string
	for _, f := range Judge(e, Catalog()) {
		lines := Picture(e, f)
		if len(lines) == 0 {
			continue
		}
		seen = append(seen, f.Rule)
		switch f.Rule {
		case "failing prefix":
			if lines[0] != "|"+strings.Repeat("x", 30)+strings.Repeat(".", 30)+"|  x failed  . answered  % both" {
				t.Error(lines[0])
			}
		case roundTripsName:
			if !strings.Contains(lines[1], "1") || !strings.Contains(lines[1], "2") || !strings.Contains(lines[1], "3") {
				t.Error(lines[1])
			}
		}
	}
	if len(seen) < 2 {
		t.Errorf("pictures of %v only", seen)
	}
}
