package claims

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/audit"
	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestParseTellsAllProblems(t *testing.T) {
	t.Parallel()
	_, err := Parse("c.yaml", []byte(`claims:
  - claim: p95 of a is lower than b
  - claim: speed of a < b
  - {claim: p95 of a < b, table: t.csv}
  - {table: t.csv, runs: none}
  - {claim: p50 of a = b, margin: 5}
  - {clam: p50 of a < b}
other: 1
`))
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	for _, want := range []string{
		"c.yaml:2:5: the claim", "c.yaml:3:5: no metric \"speed\"", "c.yaml:4:5: a claim has either", "c.yaml:5:26: runs is a number", "c.yaml:6:35: margin is a share",
		"c.yaml:7:6: unknown key \"clam\"; known: claim, data, margin, names, runs, says, table", "c.yaml:8:1: unknown key \"other\"",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing says %s:\n%v", want, err)
		}
	}
	for _, text := range []string{"", "claims: 3", "claims: []", "[", "- x"} {
		if _, err := Parse("c.yaml", []byte(text)); err == nil {
			t.Errorf("%q is no file of claims", text)
		}
	}
}

func TestParseExpression(t *testing.T) {
	t.Parallel()
	tests := map[string]expression{
		"p95 of asm < mcs in multi-cluster":           {metric: "p95", left: "asm", op: opLess, right: "mcs", in: []string{"multi-cluster"}},
		"99.9th of a >= b at 100rps except control":   {metric: "p99.9", left: "a", op: opAtLeast, right: "b", in: []string{"100rps"}, except: []string{"control"}},
		"mean of X is 20-30 % lower than Y":           {metric: "mean", left: "X", op: opRatio, right: "Y", low: 0.695, high: 0.805},
		"qps of X is 2.7 times Y":                     {metric: "rate", left: "X", op: opRatio, right: "Y", low: 2.65, high: 2.75},
		"median of X is 50% higher than Y in Z":       {metric: "p50", left: "X", op: opRatio, right: "Y", low: 1.495, high: 1.505, in: []string{"Z"}},
		"p99 of a < 20ms":                             {metric: "p99", left: "a", op: opLess, value: 0.02},
		"success of a >= 99.9%":                       {metric: "success", left: "a", op: opAtLeast, value: 0.999},
		"response.p99 of envoy > direct":              {metric: "response.p99", left: "envoy", op: opGreater, right: "direct"},
		"p50 of a = b":                                {metric: "p50", left: "a", op: opEqual, right: "b"},
		"max of single-asm sea > mc sea in system=mc": {metric: "max", left: "single-asm sea", op: opGreater, right: "mc sea", in: []string{"system=mc"}},
	}
	for text, want := range tests {
		got, err := parseExpression(text, false)
		if err != nil || fmt.Sprint(round(got)) != fmt.Sprint(round(want)) {
			t.Errorf("%s: %+v, want %+v; %v", text, got, want, err)
		}
	}
	for _, text := range []string{"", "p95", "p95 of a", "p95 of a !! b", "p95 of a < "} {
		if _, err := parseExpression(text, false); err == nil {
			t.Errorf("%q is no claim", text)
		}
	}
}

// round cuts what floating point leaves.
func round(e expression) expression {
	for _, v := range []*float64{&e.low, &e.high, &e.value} {
		*v = math.Round(*v*1e6) / 1e6
	}
	return e
}

// evidence is runs of systems whose latencies differ by a factor each; the runs
// of one repetition share what is special about it.
func evidence(reps int, scale map[string]float64, change func(r *audit.Run)) audit.Evidence {
	var runs []audit.Run
	var sources []audit.Source
	for rep := 1; rep <= reps; rep++ {
		for _, system := range sortedOf(scale) {
			l := ingest.NewResult("fortio", ingest.About{Arrival: model.ArrivalClosed, Connections: 8, Duration: time.Second}, model.BasisSent)
			l.Due, l.Sent, l.Succeeded = 1000, 1000, 1000
			ms := (1 + 0.1*float64(rep)) * scale[system] * (1 + 0.001*float64(rep%3))
			l.Service.RecordN(int64(ms*float64(time.Millisecond)), 1000)
			r := audit.Run{Measurement: ingest.Measurement{Result: l, Labels: map[string]string{}}}
			change(&r)
			runs = append(runs, r)
			sources = append(sources, audit.Source{Path: fmt.Sprintf("%s/100rps-%d.json", system, rep)})
		}
	}
	for i, n := range audit.Names(sources) {
		runs[i].Name = n
	}
	return audit.NewEvidence(runs)
}

func TestJudge(t *testing.T) {
	t.Parallel()
	e := evidence(10, map[string]float64{"slow": 1.25, "fast": 1, "same": 1.001}, func(*audit.Run) {})
	tests := map[string]struct {
		verdict Verdict
		says    string
	}{
		"p50 of fast < slow":                       {Supported, "of 10 pairs, p = 0.002"},
		"p50 of fast > slow":                       {Contradicted, "0 of 10 pairs as claimed"},
		"mean of slow is 20-30 % higher than fast": {Supported, "ratio 1.25"},
		"mean of slow is 50 % higher than fast":    {Contradicted, "claimed 1.495 to 1.505"},
		"p50 of same = fast":                       {Supported, "equal within 5 %"},
		"p50 of slow = fast":                       {Contradicted, ""},
		"p50 of fast < 3ms":                        {Supported, "of 10 runs"},
		"p50 of fast < 1ms":                        {Contradicted, ""},
		"p50 of fast < slow in 200rps":             {CannotTell, `no run is "fast"`},
		"p50 of none < slow":                       {CannotTell, "the variants are fast, same, slow"},
	}
	for text, want := range tests {
		f, err := Parse("c", []byte("claims:\n  - claim: "+text+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		r := Judge(f, Data{Evidence: e})[0]
		if r.Verdict != want.verdict || !strings.Contains(r.Why, want.says) {
			t.Errorf("%s: %s, %s", text, r.Verdict, r.Why)
		}
	}
}

// Few runs, many claims and runs that must not be used all make that nothing can
// be told.
func TestWhatCannotBeTold(t *testing.T) {
	t.Parallel()
	scale := map[string]float64{"slow": 1.25, "fast": 1}
	one, err := Parse("c", []byte("claims:\n  - claim: p50 of fast < slow\n"))
	if err != nil {
		t.Fatal(err)
	}
	many, err := Parse("c", []byte("claims:\n"+strings.Repeat("  - claim: p50 of fast < slow\n", 4)))
	if err != nil {
		t.Fatal(err)
	}
	few := Judge(one, Data{Evidence: evidence(3, scale, func(*audit.Run) {})})[0]
	if few.Verdict != CannotTell || !strings.Contains(few.Why, "needs 6 blocks: there are 3: too few runs to tell; fast 1.2") || !strings.Contains(few.Why, "3 of 3 pairs as claimed") {
		t.Errorf("%+v", few)
	}
	six := evidence(6, scale, func(*audit.Run) {})
	if r := Judge(one, Data{Evidence: six})[0]; r.Verdict != Supported {
		t.Errorf("%+v", r)
	}
	if r := Judge(many, Data{Evidence: six})[0]; r.Verdict != CannotTell || !strings.Contains(r.Why, "could not show it among 4 claims") {
		t.Errorf("%+v", r)
	}
	behind := evidence(10, scale, func(r *audit.Run) { r.Labels[ingest.LabelBehind] = "20" })
	r := Judge(one, Data{Evidence: behind, Findings: audit.Judge(behind, audit.Catalog())})[0]
	if r.Verdict != CannotTell || !strings.Contains(r.Why, "must not be used (falling behind)") || r.Doubts[0] != "falling behind" {
		t.Errorf("%+v", r)
	}
}

func TestUnpaired(t *testing.T) {
	t.Parallel()
	e := evidence(10, map[string]float64{"slow": 3, "fast": 1}, func(*audit.Run) {})
	e = audit.NewEvidence(e.Runs[:len(e.Runs)-1]) // one run is missing
	f, err := Parse("c", []byte("claims:\n  - claim: p50 of fast < slow\n"))
	if err != nil {
		t.Fatal(err)
	}
	if r := Judge(f, Data{Evidence: e})[0]; r.Verdict != Supported || !strings.Contains(r.Why, "10 and 9 runs, unpaired") || !strings.Contains(r.Test, "Mann-Whitney") {
		t.Errorf("%+v", r)
	}
}

// Claims work on trials of our own, too.
func TestOwnTrials(t *testing.T) {
	t.Parallel()
	e := evidence(8, map[string]float64{"envoy": 1.25, "direct": 1}, func(*audit.Run) {})
	for i := range e.Outcomes {
		e.Outcomes[i].Trial.Block, e.Outcomes[i].Trial.Load = i/2+1, "100rps"
		e.Outcomes[i].Load.Response.Merge(e.Outcomes[i].Load.Service)
		e.Outcomes[i].Load.Tool = nil
	}
	e.Runs = nil
	f, err := Parse("c", []byte("claims:\n  - claim: response.p99 of envoy is 20-30 % higher than direct in 100rps\n"))
	if err != nil {
		t.Fatal(err)
	}
	if r := Judge(f, Data{Evidence: e})[0]; r.Verdict != Supported || r.N != 8 {
		t.Errorf("%+v", r)
	}
}

func TestSignP(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		less, more int
		want       float64
	}{{10, 8, 0.8145}, {12, 6, 0.2379}, {15, 3, 0.0075}, {0, 6, 0.03125}, {0, 0, 1}} {
		if got := SignP(c.less, c.more); math.Abs(got-c.want) > 1e-4 {
			t.Errorf("%d to %d: %g, want %g", c.less, c.more, got, c.want)
		}
	}
}

func TestPrinted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text   string
		v      float64
		same   bool
		hasOdd bool
	}{
		{"3.37ms", 0.00337, true, false},
		{"3.37ms", 0.0033749, true, false},  // rounds to it
		{"3.37ms", 0.0033799, true, false},  // is cut to it
		{"3.37ms", 0.0033649, false, false}, // does neither
		{"29.0k", 29099, true, false},
		{"29.0k", 28900, false, false},
		{"11.21ma", 0.01121, true, true},
		{"10ms", 0.010, true, false},
	} {
		p, odd, ok := parsePrinted(c.text, 1)
		if !ok || p.is(c.v) != c.same || (odd != "") != c.hasOdd {
			t.Errorf("%s and %g: %v, %q", c.text, c.v, p.is(c.v), odd)
		}
	}
	if _, _, ok := parsePrinted("none", 1); ok {
		t.Error("none is no number")
	}
}

func TestLikeness(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		alike func(a, b string) bool
		a, b  string
		want  bool
	}{
		{equalWord, "nsm-vl3", "nsmvl3", true},
		{partOf, "istio-asm", "asm", true},
		{startOf, "mcs", "mc", true},
		{startOf, "linkerd2", "linkerd", true},
		{within, "southeast-asia", "sea", true},
		{within, "australia", "aus", true},
		{within, "southeast-asia", "aus", false},
		{initial, "kuma", "kmz", true},
		{initial, "kuma", "imp", false},
	} {
		if got := c.alike(c.a, c.b); got != c.want {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("claims:\n  - claim: p95 of a < b in c\n  - {table: t.csv, runs: 3, names: {a: b}}\n"))
	f.Add([]byte("claims: [{claim: mean of a is 20-30 % lower than b, margin: 5%}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse("c.yaml", data)
		if err != nil {
			return
		}
		for _, r := range Judge(file, Data{}) {
			if r.Verdict == Supported {
				t.Errorf("%s is supported by nothing", r.Claim)
			}
		}
	})
}

func FuzzReadTable(f *testing.F) {
	f.Add([]byte("system,rps,p99_ms\na,10,1.5\nb,10,2 - 3\n"))
	f.Add([]byte("case,as_published\nHTTP a at 10 qps,Duration: 5m; qps: 12; p99.9: 1ms - 2ma\n"))
	e := evidence(2, map[string]float64{"a": 1, "b": 2}, func(*audit.Run) {})
	f.Fuzz(func(_ *testing.T, data []byte) {
		if table, err := ReadTable("t.csv", data); err == nil {
			Lint(table, Compare(table, e, nil, 0))
		}
	})
}
