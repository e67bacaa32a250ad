package claims

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/audit"
	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/ingest/fortio"
	"github.com/windtunnel/windtunnel/internal/ingest/vegeta"
	"github.com/windtunnel/windtunnel/internal/model"
)

const studies = "../ingest/testdata/studies"

// read reads the raw data below a folder of the studies, without reports, and
// names the runs by their paths.
func read(t *testing.T, folder string) audit.Evidence {
	t.Helper()
	var runs []audit.Run
	var sources []audit.Source
	root := filepath.Join(studies, folder)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".report.json") {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		_, all, err := ingest.Open(f, []ingest.Format{vegeta.Format(), fortio.Format()}, ingest.About{})
		rel, _ := filepath.Rel(root, path)
		for _, m := range all {
			runs = append(runs, audit.Run{Measurement: m, File: path})
			sources = append(sources, audit.Source{Path: filepath.ToSlash(rel), Name: m.Name, Protocol: strings.ToLower(m.Labels[ingest.LabelProtocol])})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range audit.Names(sources) {
		runs[i].Name = n
	}
	return audit.NewEvidence(runs)
}

func published(t *testing.T, name string) Table {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(studies, "published", name))
	if err != nil {
		t.Fatal(err)
	}
	table, err := ReadTable(name, data)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// of are the findings of a rule.
func of(all []model.Finding, rule string) []model.Finding {
	return slices.DeleteFunc(slices.Clone(all), func(f model.Finding) bool { return f.Rule != rule })
}

// about1 is the finding of a rule about a variant and load.
func about1(t *testing.T, all []model.Finding, rule, variant, load string) model.Finding {
	t.Helper()
	for _, f := range of(all, rule) {
		if f.Variant == variant && f.Load == load {
			return f
		}
	}
	t.Fatalf("%q says nothing of %s under %s", rule, variant, load)
	return model.Finding{}
}

// The thesis' single-cluster failures are start-up, its outliers are a path of
// 95 ms, and its empty answers are no successes.
func TestGEO(t *testing.T) {
	t.Parallel()
	e := read(t, "vegeta")
	if len(e.Runs) != 36 {
		t.Fatalf("%d runs", len(e.Runs))
	}
	findings := audit.Judge(e, audit.Catalog())
	for _, place := range []string{"sea", "aus"} {
		for _, load := range []string{"10rps", "50rps", "100rps"} {
			if f := about1(t, findings, "failing prefix", "single-asm-"+place, load); f.Severity != model.SeverityInvalid {
				t.Errorf("%+v", f)
			}
			about1(t, findings, "failures in the latencies", "single-asm-"+place, load)
		}
		about1(t, findings, "start-up whatever the load", "single-asm-"+place, "")
	}
	for _, f := range of(findings, "failing prefix") {
		if strings.HasPrefix(f.Variant, "mc-") || strings.HasPrefix(f.Variant, "asm-") {
			t.Errorf("nothing failed there: %+v", f)
		}
	}
	f := about1(t, findings, "latencies at multiples of a round trip", "rr-sea", "100rps")
	if !strings.Contains(f.Cause, "about 95 ms") || !strings.Contains(f.Evidence, "51 took 1 RTT, 98 took 2 RTT, 5 took 3 RTT") {
		t.Errorf("%s: %s", f.Cause, f.Evidence)
	}
	about1(t, findings, "empty answer counted as success", "single-mc-aus", "50rps")
	about1(t, findings, "answers from more than one place", "single-asm-aus", "50rps")
	if o := of(findings, "order confounded with the system"); len(o) != 1 || !strings.Contains(o[0].Evidence, "longest gap 53 days") {
		t.Errorf("%+v", o)
	}
	if !strings.HasPrefix(audit.Answer(e, findings), "12 of 36 runs must not be used: empty answer counted as success, failing prefix") {
		t.Error(audit.Answer(e, findings))
	}
}

func TestGEOTables(t *testing.T) {
	t.Parallel()
	e := read(t, "vegeta")
	m := Compare(published(t, "geo-table-5.3.csv"), e, nil, 0)
	// Two of three repetitions are in the repository: of 180 figures, 120.
	if m.Count(Same) != 120 || m.Count(Unknown) != 60 || len(m.Cells) != 180 {
		t.Errorf("table 5.3: %d same, %d without data of %d; %v", m.Count(Same), m.Count(Unknown), len(m.Cells), m.Words)
	}
	m = Compare(published(t, "geo-table-5.1-5.2.csv"), e, map[string]string{"clusters=1": "single", "clusters=2": "!single"}, 0)
	// The single-cluster rows are means of three runs, of which one is here:
	// no number of successes in it gives them, one in three times as many does.
	if m.Count(Same) != 15 || m.Count(Missing) != 6 || m.Count(Unknown) != 3 {
		t.Errorf("tables 5.1 and 5.2: %+v", m.Cells)
	}
	if m = Compare(published(t, "geo-table-5.1-5.2.csv"), e, nil, 0); m.Count(Several) != 24 {
		t.Errorf("nobody said which runs are of one cluster: %+v", m.Cells)
	}
}

// The thesis' claims about medians and 95th percentiles do not hold; that about
// maxima does.
func TestGEOClaims(t *testing.T) {
	t.Parallel()
	f, err := Parse("thesis.yaml", []byte(`claims:
  - {claim: median_asm_ms > median_mcs_ms, data: t}
  - {claim: p95_asm_ms < p95_mcs_ms, data: t}
  - {claim: max_asm_ms > max_mcs_ms, data: t}
`))
	if err != nil {
		t.Fatal(err)
	}
	results := Judge(f, Data{Tables: map[string]Table{"t": published(t, "geo-table-5.3.csv")}})
	for i, want := range []struct {
		verdict Verdict
		says    string
	}{
		{NotSupported, "10 of 18 pairs as claimed, sign test p = 0.81"},
		{NotSupported, "12 of 18 pairs as claimed, sign test p = 0.24"},
		{Supported, "15 of 18 pairs as claimed, sign test p = 0.0075"},
	} {
		if results[i].Verdict != want.verdict || !strings.Contains(results[i].Why, want.says) {
			t.Errorf("%s: %s, %s", results[i].Claim, results[i].Verdict, results[i].Why)
		}
	}
	if !strings.HasPrefix(results[0].Why, "no such difference shown") {
		t.Error(results[0].Why)
	}
}

func TestMULTICLUSTER(t *testing.T) {
	t.Parallel()
	e := read(t, "fortio-json")
	findings := audit.Judge(e, audit.Catalog())
	level := of(findings, "protocol level differs")
	if len(level) != 1 || !strings.Contains(level[0].Evidence, "imp: 241 to 242 B of headers, 3 socket(s)") || !strings.Contains(level[0].Evidence, "kmz: 233 to 238 B of headers, 163 socket(s) for 161066 requests (one in 988)") {
		t.Errorf("%+v", level)
	}
	for variant, want := range map[string]int{"imp": 0, "kmz": 1, "nsmvl3": 1} {
		n := 0
		for _, f := range of(findings, "keep-alive limit in the tail") {
			if f.Variant == variant {
				n++
			}
		}
		if n != want {
			t.Errorf("keep-alive limit of %s: %d findings, want %d", variant, n, want)
		}
	}
	if len(of(findings, "rate is connections/latency")) != 3 || len(of(findings, "order confounded with the system")) != 1 {
		t.Errorf("%+v", findings)
	}
	if m := Compare(published(t, "multicluster-tables-1-2.csv"), e, nil, 5); m.Count(Missing) != 12 || m.Count(Same) != 3 || m.Count(Differs) != 0 {
		t.Errorf("three of five runs cannot refute a mean: %+v", m.Cells)
	}
}

// fiveRuns have the figures of all five runs of each system, as others.md has
// them: the repository holds the files of three.
func fiveRuns() audit.Evidence {
	figures := map[string][][5]float64{ // rate, mean, p90, p99, p99.9 of each run
		"istio": {{497.8, 2.0, 2.66, 5.84, 11.01}, {510.5, 1.95, 2.46, 6.09, 11.82}, {501.6, 1.99, 2.47, 5.77, 10.27}, {459.3, 2.17, 2.62, 6.29, 11.68}, {511.2, 1.95, 2.49, 5.43, 9.49}},
		"kuma":  {{862.0, 1.15, 1.33, 4.23, 9.17}, {905.7, 1.1, 1.23, 3.77, 8.87}, {916.6, 1.08, 1.23, 4.21, 9.2}, {803.9, 1.24, 1.48, 5.02, 10.15}, {964.8, 1.03, 1.17, 3.72, 8.84}},
		"nsm":   {{1328.7, 0.74, 0.84, 1.07, 2.45}, {1328.2, 0.74, 0.86, 1.1, 2.46}, {1335.4, 0.74, 0.82, 0.99, 2.47}, {1335.6, 0.74, 0.83, 1.0, 2.45}, {1333.9, 0.74, 0.84, 1.02, 2.42}},
	}
	var runs []audit.Run
	var sources []audit.Source
	for _, system := range sortedOf(figures) {
		for i, f := range figures[system] {
			l := ingest.NewResult("fortio", ingest.About{Arrival: model.ArrivalClosed, Connections: 1}, model.BasisSent)
			for at, name := range []string{"", "mean", "p90", "p99", "p99.9"} {
				if name != "" {
					l.Tool.Figures[name] = time.Duration(f[at]*1000) * time.Microsecond
				}
			}
			l.Succeeded = 1
			m := ingest.Measurement{Result: l, Labels: map[string]string{ingest.LabelAchieved: fmt.Sprint(f[0]), ingest.LabelAsked: "6000"}}
			runs = append(runs, audit.Run{Measurement: m})
			sources = append(sources, audit.Source{Path: fmt.Sprintf("aws/%s-%d.json", system, i+1)})
		}
	}
	for i, n := range audit.Names(sources) {
		runs[i].Name = n
	}
	return audit.NewEvidence(runs)
}

// Of the AWS rows, Kuma's is not that of its runs, and the other two are.
func TestKumasRow(t *testing.T) {
	t.Parallel()
	m := Compare(published(t, "multicluster-tables-1-2.csv"), fiveRuns(), map[string]string{"aws-eks": "", "equinix-metal": "nowhere"}, 5)
	for _, c := range m.Cells {
		kuma := strings.HasPrefix(c.Row, "aws-eks kuma")
		rounding := c.Column == "mean_ms" || strings.Contains(c.Note, "0.00") // others.md has few digits of each run
		if kuma && c.State != Differs {
			t.Errorf("%+v", c)
		}
		if !kuma && c.State == Differs && !rounding {
			t.Errorf("%+v", c)
		}
	}
	found := Lint(published(t, "multicluster-tables-1-2.csv"), m)
	if f := of(found, "printed table does not match raw data"); len(f) != 1 || !strings.Contains(f[0].Evidence, "aws-eks kuma, qps: 886.37 for 890.60") {
		t.Errorf("%+v", f)
	}
}

func TestSIDECAR(t *testing.T) {
	t.Parallel()
	e := read(t, "fortio-log")
	findings := audit.Judge(e, audit.Catalog())
	behind := map[int]bool{}
	for _, f := range of(findings, "falling behind") {
		if f.Severity == model.SeverityInvalid {
			for _, i := range f.Trials {
				behind[i] = true
			}
		}
	}
	// The logs have 80 lines "WARNING x % of sleep were falling behind".
	if len(behind) != 80 {
		t.Errorf("%d runs fall behind, want 80", len(behind))
	}
	for i := range behind {
		if e.Runs[i].Variant != "istio" {
			t.Errorf("%s does not fall behind", e.Runs[i].Measurement.Name)
		}
	}
	for _, variant := range []string{"baseline", "linkerd", "istio"} {
		n := 0
		for _, f := range of(findings, "latency plateau of a CPU quota") {
			if f.Variant == variant {
				n++
				if !strings.Contains(f.Load, "50mcpu") {
					t.Errorf("no quota there: %+v", f)
				}
			}
		}
		if n != 2 {
			t.Errorf("%s was throttled under both protocols: %d findings", variant, n)
		}
	}
	for _, f := range of(findings, "maximum may be the generator's") {
		if f.Variant != "baseline" {
			t.Errorf("the generator sent more to another system: %+v", f)
		}
	}
	table := published(t, "sidecar-tables.csv")
	m := Compare(table, e, nil, 0)
	swap := of(Lint(table, m), "digits in another order")
	if len(swap) != 1 || !strings.Contains(swap[0].Evidence, "63.36ms has the digits of 36.36ms") || swap[0].Severity != model.SeverityInvalid {
		t.Errorf("%+v", swap)
	}
	problems := strings.Join(m.Problems, "\n")
	for _, want := range []string{"11.21ma", "names 1000 and 500", "names 1500 and 1200"} {
		if !strings.Contains(problems, want) {
			t.Errorf("nothing says %q: %s", want, problems)
		}
	}
	for _, c := range m.Cells {
		if c.Row == "HTTP baseline at 120 qps" && (c.State != Same || c.Runs != 20) || c.Row == "HTTP Istio-meshed at 1500 qps" && c.Column != "p99.9" && c.State != Same {
			t.Errorf("%+v", c)
		}
	}
}

// What can be seen in printed tables alone.
func TestTablesAlone(t *testing.T) {
	t.Parallel()
	tests := map[string]map[string]string{
		"bookinfo-tables-1-4.csv": {
			"Little's law broken between rows": "300 kubernetes front-page: 2.19 s; 300 istio front-page: 11.28 s",
			"stale sample":                     "ram_percent is 23.83 in 4 of 8 rows",
		},
		"cni-claims.csv":              {"percentages of percentages": "808.33 - 1584.2 percent"},
		"sidecar-tables.csv":          {"extremes compared as estimates": "48 figures"},
		"multicluster-tables-1-2.csv": {},
		"geo-table-5.3.csv":           {},
	}
	triggered := map[string]bool{"digits in another order": true, "printed table does not match raw data": true} // by TestKumasRow and TestSIDECAR
	for name, want := range tests {
		found := Lint(published(t, name), Match{})
		if len(found) != len(want) {
			t.Errorf("%s: %+v", name, found)
		}
		for _, f := range found {
			triggered[f.Rule] = true
			if !strings.Contains(f.Evidence, want[f.Rule]) {
				t.Errorf("%s: %s: %s", name, f.Rule, f.Evidence)
			}
		}
	}
	for _, r := range TableRules() {
		if !triggered[r.Name] || r.Doc == "" || r.Saved == "" || r.Advice == "" {
			t.Errorf("nothing triggers %q, or it says too little", r.Name)
		}
	}
}
