package sockperf

import (
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/ingesttest"
)

func TestPrinted(t *testing.T) {
	t.Parallel()
	m := ingesttest.One(t, Format(), "ping-pong.txt")
	r, f := m.Result, m.Result.Tool.Figures
	if r.Due != 10962 || r.Succeeded != 10962 || r.Elapsed != 552*time.Millisecond || r.Tool.Version != "3.7-no.git" {
		t.Errorf("%+v %s", r, r.Tool.Version)
	}
	if f["p50"] != 8976 || f["p99.9"] != 2075925 || f["max"] != 10167216 || f["min"] != 6552 || f["mean"] != 25128 {
		t.Error(f)
	}
	if !strings.Contains(strings.Join(r.Tool.Notes, "\n"), "half round trips") {
		t.Error(r.Tool.Notes)
	}
	if m = ingesttest.One(t, Format(), "packets.csv"); len(m.Requests) == 0 || m.Result.Succeeded != uint64(len(m.Requests)) {
		t.Errorf("%d requests", len(m.Requests))
	}
}

// Messages that no answer was asked for are no failures.
func TestUnderLoad(t *testing.T) {
	t.Parallel()
	if r := ingesttest.One(t, Format(), "under-load.txt").Result; r.Succeeded != 4 || r.Due != 4 || r.FailedTotal() != 0 {
		t.Errorf("%+v", r)
	}
	for text, want := range map[string]string{
		"sockperf: hello\n":                                  "did not end",
		"sockperf: ---> percentile 99.000 = many\n":          "line 1",
		"sockperf: a\nsockperf: ---> <MAX> observation = -1": "line 2",
	} {
		if _, err := Format().Read(strings.NewReader(text), ingest.About{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzFormat(f *testing.F) { ingesttest.FuzzMeasurements(f, Format().Read) }
