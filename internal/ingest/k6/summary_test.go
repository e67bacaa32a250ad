package k6

import (
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/ingesttest"
)

func TestSummaries(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		n       uint64
		p95     time.Duration
		elapsed time.Duration
	}{
		"summary-export.json":   {3815, 0, time.Second},
		"handle-summary.json":   {2624, 1713667, 1000783416},
		"machine-readable.json": {3754, 875384, 1000541085},
	} {
		m := ingesttest.One(t, Format(), name)
		r := m.Result
		if r.Due != want.n || r.Succeeded != want.n || want.p95 > 0 && r.Tool.Figures["p95"] != want.p95 || r.Elapsed.Round(want.elapsed/100) != want.elapsed.Round(want.elapsed/100) {
			t.Errorf("%s: %+v %v", name, r, r.Tool.Figures)
		}
		if r.Tool.Figures["p50"] == 0 || r.Connections != 2 || r.Tool.Figures["mean"] == 0 || m.Labels["virtual users"] != "2" || r.BytesReceived == 0 {
			t.Errorf("%s: %v %v", name, r.Tool.Figures, m.Labels)
		}
	}
}

func TestPointsHaveRequests(t *testing.T) {
	t.Parallel()
	m := ingesttest.One(t, Format(), "points.json")
	if len(m.Requests) != int(m.Result.Due) || m.Started.Year() != 2026 {
		t.Errorf("%d requests, %d due, from %s", len(m.Requests), m.Result.Due, m.Started)
	}
	for i, q := range m.Requests {
		if i > 0 && q.Sent.Before(m.Requests[i-1].Sent) || (q.Code >= 400) != (q.Error != "") && q.Code > 0 {
			t.Errorf("request %d: %+v", i, q)
		}
	}
	if zipped := ingesttest.One(t, Format(), "points.csv.gz"); zipped.Result.Due == 0 {
		t.Error("nothing in what is compressed")
	}
}

func TestBadSummaries(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"root_group":{},"metrics":{}}`:                                                       "no HTTP requests",
		`{"root_group":{},"metrics":{"http_reqs":{"count":2,"rate":1}}}`:                       "http_req_duration",
		`{"root_group":{},"metrics":{"http_reqs":{"count":-2,"rate":1}}}`:                      "count of -2",
		`{"root_group":{},"metrics":{"http_reqs":{"count":2}}}`:                                "how long",
		`{"root_group":{},"metrics":{"http_reqs":{"count":2},"http_req_failed":{"passes":3}}}`: "3 of 2",
		`{"root_group":{},"metrics":[]}`:                                                       "metrics",
	} {
		if _, err := Format().Read(strings.NewReader(text), ingest.About{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzSummary(f *testing.F) { ingesttest.FuzzMeasurements(f, readSummary) }
