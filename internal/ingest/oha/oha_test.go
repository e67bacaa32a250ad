package oha

import (
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/ingesttest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestJSON(t *testing.T) {
	t.Parallel()
	m := ingesttest.One(t, Format(), "oha-1.16.json")
	r, f := m.Result, m.Result.Tool.Figures
	if r.Due != 101 || r.Succeeded != 101 || r.Elapsed.Round(time.Millisecond) != 1005*time.Millisecond || f["p50"] != 564365 || f["max"] != 4243225 || f["mean"] != 709052 {
		t.Errorf("%+v %v", r, f)
	}
	if !strings.Contains(strings.Join(r.Tool.Notes, "\n"), "1 requests were under way") {
		t.Error(r.Tool.Notes)
	}
	// An older shape: no bytes of the first answer, no "metrics", numbers that are null.
	r = ingesttest.One(t, Format(), "oha-0.5.json").Result
	if r.Due != 15 || r.Succeeded != 11 || r.Failed[model.CauseStatus] != 1 || r.Failed[model.CauseRefused] != 3 {
		t.Errorf("%+v", r)
	}
	if _, known := r.Tool.Figures["p99"]; known || r.Tool.Figures["p95"] != 454240625 || r.BytesReceived != 6144 {
		t.Error(r.Tool.Figures)
	}
}

func TestCSV(t *testing.T) {
	t.Parallel()
	m := ingesttest.One(t, Format(), "requests.csv")
	r := m.Result
	if r.Due != 20 || r.Service.Count() != 20 || len(m.Requests) != 20 || m.Requests[0].Latency != 1063526 || r.Service.Max() != 10654059 || !m.Started.IsZero() {
		t.Errorf("%+v %+v", r, m.Requests)
	}
}

func TestBad(t *testing.T) {
	t.Parallel()
	const head = "request-start,DNS,DNS+dialup,Response-delay,request-duration,bytes,status\n"
	for text, want := range map[string]string{
		"{":                                   "oha's result",
		"{}":                                  "no requests",
		`{"summary":{"total":-1}}`:            "total",
		`{"statusCodeDistribution":{"ok":1}}`: `status "ok"`,
		`{"statusCodeDistribution":{"200":1},"latencyPercentiles":{"p50":-1}}`: "p50",
		head:                           "no requests",
		head + "1,2,3\n":               "line 2",
		head + "1,0,0,0,x,0,200\n":     "line 2: column 5",
		head + "\n1,0,0,0,1,0,20000\n": "line 3: column 7",
	} {
		if _, err := Format().Read(strings.NewReader(text), ingest.About{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzRead(f *testing.F) { ingesttest.FuzzMeasurements(f, Format().Read) }
