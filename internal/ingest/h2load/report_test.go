package h2load

import (
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/ingesttest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestReport(t *testing.T) {
	t.Parallel()
	m := ingesttest.One(t, Format(), "requests.txt")
	r := m.Result
	if r.Due != 200 || r.Succeeded != 200 || r.Elapsed != 76070*time.Microsecond || r.Connections != 2 || r.Statuses[200] != 200 || r.BytesReceived != 15000 {
		t.Errorf("%+v", r)
	}
	if f := r.Tool.Figures; f["min"] != 50*time.Microsecond || f["max"] != 10310*time.Microsecond || f["mean"] != 623*time.Microsecond || m.Labels[ingest.LabelProtocol] != "http/1.1" {
		t.Error(f, m.Labels)
	}
	if r = ingesttest.One(t, Format(), "duration.txt").Result; r.Due != 11542 || r.Elapsed != time.Second {
		t.Errorf("%+v", r)
	}
	if m = ingesttest.One(t, Format(), "requests.log"); len(m.Requests) != int(m.Result.Due) || m.Started.Year() != 2026 {
		t.Errorf("%d requests of %d, from %s", len(m.Requests), m.Result.Due, m.Started)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	const text = "starting benchmark...\n\nfinished in 1.00s, 8.00 req/s, 1KB/s\n" +
		"requests: 10 total, 9 started, 9 done, 4 succeeded, 5 failed, 2 errored, 1 timeout\nstatus codes: 4 2xx, 0 3xx, 2 4xx, 0 5xx\n"
	all, err := Format().Read(strings.NewReader(text), ingest.About{})
	if err != nil {
		t.Fatal(err)
	}
	r := all[0].Result
	if r.Succeeded != 4 || r.Failed[model.CauseStatus] != 2 || r.Failed[model.CauseTimeout] != 1 || r.Failed[model.CauseProtocol] != 2 || r.Unsent != 1 || r.Due != 10 {
		t.Errorf("%+v", r)
	}
	for text, want := range map[string]string{
		"\nfinished in 1.00s, 8.00 req/s\nrequests: many total, 1 started, 1 done\n":                                           "line 3",
		"\nfinished in later, 8.00 req/s\nrequests: 1 total, 1 started, 1 done\n":                                              "line 2",
		"\nfinished in 1.00s, 8.00 req/s\nrequests: 1 total, 1 started, 1 done, 1 succeeded, 1 failed, 0 errored, 0 timeout\n": "1 succeeded and 1 failed of 1",
	} {
		if _, err := Format().Read(strings.NewReader(text), ingest.About{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzReport(f *testing.F) { ingesttest.FuzzMeasurements(f, readReport) }
