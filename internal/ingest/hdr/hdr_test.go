package hdr

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/ingesttest"
	"github.com/windtunnel/windtunnel/internal/model"
)

// The sample has kinds in its tags, as Windtunnel's own logs.
func TestLog(t *testing.T) {
	t.Parallel()
	all := ingesttest.All(t, Format(), "sample.hlog")
	if len(all) != 1 || all[0].Name != "" {
		t.Fatalf("%+v", all)
	}
	r := all[0].Result
	if r.Due != 3 || r.Response.Count() != 3 || r.Response.Max().Round(10*time.Microsecond) != 2500*time.Microsecond || r.Service.Max() >= r.Response.Max() || r.Tool.Basis != model.BasisDue {
		t.Errorf("%+v %s", r, r.Response.Max())
	}
	if r.Elapsed != 10*time.Second || all[0].Started.Format(time.RFC3339) != "2026-11-20T12:00:00Z" {
		t.Errorf("%s from %s", r.Elapsed, all[0].Started)
	}
}

// Any other tag is a series of its own, and its latencies count from nobody knows what.
func TestTags(t *testing.T) {
	t.Parallel()
	var h hist.Histogram
	h.Record(1000)
	var log bytes.Buffer
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	if err := hist.WriteLog(&log, []hist.Tagged{
		{Tag: "a", Start: start, Interval: time.Second, Histogram: &h},
		{Tag: "a", Start: start.Add(time.Second), Interval: time.Second, Histogram: &h},
		{Tag: "b", Start: start, Interval: time.Second, Histogram: &h},
		{Tag: "mesh/peak/failed/3/valid", Start: start, Interval: time.Second, Histogram: &h},
		{Tag: "mesh/peak/service/3/valid", Start: start, Interval: time.Second, Histogram: &h},
	}); err != nil {
		t.Fatal(err)
	}
	all, err := Format().Read(&log, ingest.About{})
	if err != nil || len(all) != 3 || all[0].Name != "a" || all[1].Name != "b" || all[2].Name != "mesh/peak/3/valid" {
		t.Fatal(all, err)
	}
	if r := all[0].Result; r.Due != 2 || r.Elapsed != 2*time.Second || r.Service.Count() != 2 || r.Tool.Basis != model.BasisSent {
		t.Errorf("%+v", r)
	}
	if r := all[2].Result; r.Due != 2 || r.Succeeded != 1 || r.FailedTotal() != 1 {
		t.Errorf("%+v", r)
	}
}

func TestPercentiles(t *testing.T) {
	t.Parallel()
	r := ingesttest.All(t, Format(), "wrk2.hgrm")[0].Result
	if r.Due != 200 || r.Service.Min() != 309*time.Microsecond || r.Service.Max() != 19455*time.Microsecond || r.Tool.Figures["mean"] != 1967*time.Microsecond {
		t.Errorf("%+v %v", r, r.Tool)
	}
	q := r.Service.Quantile(0.5)
	if q < 1141*time.Microsecond || q > 1143*time.Microsecond {
		t.Error(q)
	}
	const plot = "Value(us)  Percentile  TotalCount  1/(1-Percentile)\n76.715   0.000000    0           1.000000\n439.370   0.100000    200         1.111111\n"
	all, err := Format().Read(strings.NewReader(plot), ingest.About{})
	if err != nil || all[0].Result.Due != 200 || all[0].Result.Service.Max() != 439370 {
		t.Error(all, err)
	}
}

func TestBad(t *testing.T) {
	t.Parallel()
	const head = "Value Percentile TotalCount 1/(1-Percentile)\n"
	for text, want := range map[string]string{
		head:                              "no values",
		head + "1 0.5 2\n":                "line 2: 3 columns",
		head + "1 0.5 2 2\n0.5 0.6 3 2\n": "line 3: the percentile spectrum does not ascend",
		head + "x 0.5 2 2\n":              "line 2",
		head + "1 0.5 -2 2\n":             "line 2",
		"#[Histogram log format version 1.3]\n0.0,1.0,1.0,HISTFAAAbroken\n": "line 2",
		"#[Histogram log format version 1.3]\n":                             "no values",
	} {
		if _, err := Format().Read(strings.NewReader(text), ingest.About{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"sample.hlog", "wrk2.hgrm"} {
		if data, err := os.ReadFile("testdata/" + name); err == nil {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := Format().Read(strings.NewReader(string(data)), ingest.About{})
		for _, m := range all {
			if r := m.Result; err != nil || r.Due != r.Succeeded+r.FailedTotal() || r.Due == 0 {
				t.Errorf("%+v, %v", r, err)
			}
		}
	})
}
