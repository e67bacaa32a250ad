package study

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/studies"
)

// another is a study beside which something is published.
const another = `apiVersion: windtunnel/v1
kind: Study
metadata: {name: another}
question: Does it hold?
app: {kind: echo}
baseline: direct
variants:
  - {name: direct, stack: []}
  - {name: envoy, stack: [envoy]}
loads:
  - {name: low, protocol: http1, model: open, rate: 100/s}
  - {name: high, protocol: http1, model: open, rate: 1000/s}
`

const wholePublished = `published:
  - source: Doe 2024, table 2
    url: https://example.org/doe
    tolerance: 5%
    table: |
      # what was measured in the laboratory
      place,mesh,rps,mean_ms,gigabits,cpu_percent
      lab,none,100,0.25,-,10
      lab,istio,100,0.75,,20
      lab,istio,100,0.80,,30
      lab,linkerd,100,0.5,1,1
      cloud,none,100,9,9,9
    map:
      where: {place: lab}
      variant: {column: mesh, names: {none: direct, istio: envoy}}
      load: {column: rps, names: {"100": low}}
      columns:
        mean_ms: {metric: response.mean, unit: ms}
        gigabits: {metric: goodput, unit: Gbit/s}
        cpu_percent: {unit: "%", incomparable: of a limit that the source does not give}
    claims:
      - {claim: The mesh is slower., metric: response.p50, left: envoy, relation: higher, right: direct, by: from 20.5% to 400%}
      - {claim: It costs as much., metric: cpu.total, load: high, left: envoy, relation: equal, right: direct}
`

func TestPublished(t *testing.T) {
	t.Parallel()
	s, err := Parse("another.yaml", []byte(another+wholePublished), catalog())
	if err != nil {
		t.Fatal(err)
	}
	const reason = "of a limit that the source does not give"
	want := []model.Published{{
		Source: "Doe 2024, table 2", URL: "https://example.org/doe", Tolerance: 0.05,
		Cells: []model.PublishedCell{
			{Variant: "direct", Load: "low", Metric: "response.mean", Column: "mean_ms", Values: []float64{0.25e-3}, Printed: []string{"0.25"}, Unit: "ms"},
			{Variant: "direct", Load: "low", Column: "cpu_percent", Values: []float64{10}, Printed: []string{"10"}, Unit: "%", Incomparable: reason},
			{Variant: "envoy", Load: "low", Metric: "response.mean", Column: "mean_ms", Values: []float64{0.75e-3, 0.8e-3}, Printed: []string{"0.75", "0.80"}, Unit: "ms"},
			{Variant: "envoy", Load: "low", Column: "cpu_percent", Values: []float64{20, 30}, Printed: []string{"20", "30"}, Unit: "%", Incomparable: reason},
		},
		Claims: []model.PublishedClaim{
			{Text: "The mesh is slower.", Metric: "response.p50", Left: "envoy", Relation: model.RelationHigher, Right: "direct", From: 0.205, To: 4},
			{Text: "It costs as much.", Metric: "cpu.total", Load: "high", Left: "envoy", Relation: model.RelationEqual, Right: "direct"},
		},
	}}
	if diff := cmp.Diff(want, s.Published); diff != "" {
		t.Error(diff)
	}
}

// A column may tell variant and load itself, and a study with one load needs to
// name none.
func TestPublishedColumnsOfVariants(t *testing.T) {
	t.Parallel()
	text := strings.Replace(another, "  - {name: high, protocol: http1, model: open, rate: 1000/s}\n", "", 1) + `published:
  - source: Roe
    table: {file: tables/roe.csv}
    map:
      columns:
        a: {metric: response.p50, unit: us, variant: direct}
        b: {metric: response.p50, unit: us, variant: envoy, incomparable: over another network}
`
	known := catalog()
	known.ReadFile = func(name string) ([]byte, error) {
		if name != "tables/roe.csv" {
			return nil, errors.New("no such file")
		}
		return []byte("a,b\n100,200\n"), nil
	}
	s, err := Parse("another.yaml", []byte(text), known)
	if err != nil {
		t.Fatal(err)
	}
	want := []model.PublishedCell{
		{Variant: "direct", Load: "low", Metric: "response.p50", Column: "a", Values: []float64{100e-6}, Printed: []string{"100"}, Unit: "us"},
		{Variant: "envoy", Load: "low", Metric: "response.p50", Column: "b", Values: []float64{200e-6}, Printed: []string{"200"}, Unit: "us", Incomparable: "over another network"},
	}
	if diff := cmp.Diff(want, s.Published[0].Cells, cmp.Comparer(func(a, b float64) bool { return a-b < 1e-12 && b-a < 1e-12 })); diff != "" {
		t.Error(diff)
	}
}

func TestPublishedProblems(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ old, new, want string }{
		"unit of another kind":  {"unit: ms", "unit: MiB", `published[0].map.columns.mean_ms.unit: "MiB" is no unit of response.mean: it is one of ms, ns, s, us, µs`},
		"unknown metric":        {"metric: response.mean", "metric: response.median", `mean_ms.metric: unknown metric "response.median"`},
		"unknown column":        {"mean_ms: {", "mean: {", `published[0].map.columns.mean: unknown column "mean"`},
		"unknown where":         {"where: {place", "where: {plaice", `unknown column "plaice"; did you mean "place"?`},
		"unknown variant":       {"istio: envoy", "istio: envoi", `map.variant.names.istio: unknown variant "envoi"; did you mean "envoy"?`},
		"name that no row has":  {"istio: envoy", "isto: envoy", `map.variant.names.isto: no chosen row has "isto" in column mesh`},
		"value without a name":  {", names: {none: direct, istio: envoy}", "", `line 3 of the table: unknown variant "none"`},
		"no variant":            {"      variant: {column: mesh, names: {none: direct, istio: envoy}}\n", "", `does not say which variant it is about`},
		"no load":               {`      load: {column: rps, names: {"100": low}}` + "\n", "", `does not say which load it is about`},
		"no reason":             {", incomparable: of a limit that the source does not give", "", `cpu_percent: needs a metric or, where it is none of ours, incomparable with the reason`},
		"no number":             {"0.75", "fast", `published[0].table: line 4, column mean_ms: "fast" is not a number`},
		"no figure":             {"place: lab", "place: moon", `no chosen row has "100"`},
		"ragged":                {"lab,none,100,0.25,-,10", "lab,none", `is not CSV with a header line`},
		"column twice":          {"rps,mean_ms", "mesh,mean_ms", `column 3 of the table's header is "mesh": names are needed, each once`},
		"address":               {"https://example.org/doe", "example.org", `is no address`},
		"claim about no metric": {"metric: response.p50", "metric: speed", `published[0].claims[0].metric: unknown metric "speed"`},
		"claim about itself":    {"right: direct, by", "right: envoy, by", `published[0].claims[0].right: "envoy" is left, too`},
		"claim's load":          {"load: high, left", "load: hihg, left", `published[0].claims[1].load: unknown load "hihg"; did you mean "high"?`},
		"claim's relation":      {"relation: equal", "relation: same", `published[0].claims[1].relation: unknown value "same"`},
		"claim's size":          {"from 20.5% to 400%", "a lot", `published[0].claims[0].by: "a lot" is no size`},
		"claim's size backward": {"from 20.5% to 400%", "from 40% to 20%", `does not go from a smaller share to a larger one`},
		"size of what is equal": {"relation: equal, right: direct", "relation: equal, right: direct, by: 3%", `published[0].claims[1].by: has no meaning where left and right are equal`},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(another+wholePublished, c.old, c.new, 1)
			if text == another+wholePublished {
				t.Fatalf("%q is not in the study", c.old)
			}
			_, err := Parse("another.yaml", []byte(text), catalog())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwant %s", err, c.want)
			}
		})
	}
	for name, entry := range map[string]string{
		"has one of table and map":       `{source: x, table: "a,b\n1,2"}`,
		"has nothing to compare with":    `{source: x}`,
		"has no row below its header":    `{source: x, table: "a,b", map: {columns: {a: {metric: rate, unit: /s, variant: direct, load: low}}}}`,
		"columns: names no column":       `{source: x, table: "a,b\n1,2", map: {columns: {}}}`,
		"chooses no figure of the table": `{source: x, table: "a,b\n-,2", map: {columns: {a: {metric: rate, unit: /s, variant: direct, load: low}}}}`,
	} {
		_, err := Parse("another.yaml", []byte(another+"published: ["+entry+"]\n"), catalog())
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v\nwant %s", entry, err, name)
		}
	}
}

// The published tables that come with the program can be read, and mapped.
func TestPublishedFiles(t *testing.T) {
	t.Parallel()
	known := catalog()
	known.ReadFile = func(name string) ([]byte, error) { return fs.ReadFile(studies.Files(), name) }
	for name, want := range map[string]struct {
		entry string
		cells int
	}{
		"geo-success":  {`where: {clusters: "1", location: australia}, variant: {column: method, names: {mcs-mci: direct, istio-asm: envoy}}, load: {column: rps, names: {"10": low, "100": high}}, columns: {success_percent: {metric: success, unit: "%"}}`, 4},
		"geo-latency":  {`where: {location: australia}, load: {column: rps, names: {"10": low}}, columns: {median_mcs_ms: {metric: response.p50, unit: ms, variant: direct}, median_asm_ms: {metric: response.p50, unit: ms, variant: envoy}}`, 2},
		"bookinfo":     {`where: {endpoint: api}, variant: {column: mesh, names: {kubernetes: direct, istio: envoy}}, load: {column: users, names: {"300": low, "500": high}}, columns: {response_time_ms: {metric: response.mean, unit: ms}, cpu_percent: {unit: "%", incomparable: of something unsaid}}`, 8},
		"multicluster": {`where: {environment: aws-eks}, variant: {column: mesh, names: {istio: envoy}}, columns: {p99_ms: {metric: service.p99, unit: ms, load: low}}`, 1},
		"sidecar":      {`where: {protocol: http, connections: "4"}, variant: {column: mesh, names: {baseline: direct, istio: envoy}}, load: {column: rate, names: {"120": low, "1000": high}}, columns: {p99_9_lo_ms: {metric: response.p99.9, unit: ms}, p99_9_hi_ms: {metric: response.p99.9, unit: ms}}`, 4},
	} {
		text := another + "published:\n  - source: " + name + "\n    table: {file: published/" + name + ".csv}\n    map: {" + want.entry + "}\n"
		s, err := Parse("another.yaml", []byte(text), known)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := s.Published[0].Cells; len(got) != want.cells {
			t.Errorf("%s: %d cells, want %d: %v", name, len(got), want.cells, got)
		}
	}
	data, err := fs.ReadFile(studies.Files(), "published/cni-claims.csv")
	if err != nil {
		t.Fatal(err)
	}
	if rows, err := readTable(string(data)); err != nil || len(rows) < 10 {
		t.Errorf("cni-claims: %d rows, %v", len(rows), err)
	}
}

func TestUnitsOfMetrics(t *testing.T) {
	t.Parallel()
	for metric, unit := range map[string]string{
		"response.p50": "ms", "failover.detected": "ms", "failback.first": "s", "failover.failed": "1", "failover.wrong_region": "%", "goodput": "Gbit/s",
		"retransmits": "/GB", "memory.total": "MiB", "rate.highest": "k/s", "loss": "share",
	} {
		if unitsOf(metric)[unit] == 0 {
			t.Errorf("%s cannot be in %s: %v", metric, unit, unitsOf(metric))
		}
	}
}

func FuzzPublishedTable(f *testing.F) {
	for _, seed := range []string{"a,b\n1,2\n", "a\n", "a,a\n1,2", "\"a\n\",b\n1,\"x", "# x\na,b\n 1 , -\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rows, err := readTable(text)
		if err != nil {
			return
		}
		for _, r := range rows {
			if len(r.fields) != len(rows[0].fields) || r.line < 1 {
				t.Errorf("row %v of %q", r, text)
			}
		}
	})
}

func FuzzShares(f *testing.F) {
	for _, seed := range []string{"30%", "from 1% to 2.5%", "from x to y", "1", "from 2% to 1%"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		from, to, err := shares(text)
		if err == nil && (from < 0 || to <= 0 || from > to) {
			t.Errorf("%q is %g to %g", text, from, to)
		}
	})
}
