package nighthawk

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestRead(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/result.json")
	if err != nil {
		t.Fatal(err)
	}
	_, all, err := ingest.Open(bytes.NewReader(data), []ingest.Format{Format()}, ingest.About{})
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	m := all[0]
	r := m.Result
	if r.Succeeded != 1999 || r.Failed[model.CauseStatus] != 3 || r.Unsent != 7 || r.Due != 2009 || r.Blocked != 4 || r.Sockets != 20 || r.Connections != 20 {
		t.Errorf("%+v", r)
	}
	if r.Service.Count() != 1999 || r.Service.Min() != 56611 || r.Service.Max() != 238255 || r.Tool.Figures["p50"] != 59131 || r.Elapsed.Round(time.Second) != 10*time.Second {
		t.Errorf("%d values, %v", r.Service.Count(), r.Tool.Figures)
	}
	if m.Labels[ingest.LabelAsked] != "200" || m.Labels[ingest.LabelThreads] != "2" || m.Started.Year() != 2026 {
		t.Error(m.Labels, m.Started)
	}
	if notes := strings.Join(r.Tool.Notes, "\n"); !strings.Contains(notes, "blocked 4 times") || !strings.Contains(notes, "of 1999 values") {
		t.Error(notes)
	}
}

func TestBad(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{}":                              "0 results",
		"[1]":                             "nighthawk",
		`{"results":[{"name":"global"}]}`: "no request",
		`{"results":[{"counters":[{"name":"benchmark.http_2xx","value":"-1"}]}]}`: "no count",
		`{"results":[{"counters":[{"name":"benchmark.http_2xx","value":"2"}],"statistics":[{"id":"benchmark_http_client.request_to_response",
		"percentiles":[{"count":2,"duration":"1s"},{"count":1,"duration":"2s"}]}]}]}`: "percentile 1",
		`{"results":[{"execution_duration":"soon"}]}`: "no duration",
	} {
		if _, err := Format().Read(strings.NewReader(text), ingest.About{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	if data, err := os.ReadFile("testdata/result.json"); err == nil {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := Format().Read(strings.NewReader(string(data)), ingest.About{})
		for _, m := range all {
			if r := m.Result; err != nil || r.Due != r.Succeeded+r.FailedTotal()+r.Unsent {
				t.Errorf("%+v, %v", r, err)
			}
		}
	})
}
