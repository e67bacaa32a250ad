package sockperf

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
)

func open(t *testing.T, name string) *ingest.Measurement {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	_, all, err := ingest.Open(bytes.NewReader(data), []ingest.Format{Format()}, ingest.About{})
	if err != nil || len(all) != 1 {
		t.Fatal(name, all, err)
	}
	return &all[0]
}

func TestPrinted(t *testing.T) {
	t.Parallel()
	m := open(t, "ping-pong.txt")
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
	if m = open(t, "packets.csv"); len(m.Requests) == 0 || m.Result.Succeeded != uint64(len(m.Requests)) {
		t.Errorf("%d requests", len(m.Requests))
	}
}

// Messages that no answer was asked for are no failures.
func TestUnderLoad(t *testing.T) {
	t.Parallel()
	if r := open(t, "under-load.txt").Result; r.Succeeded != 4 || r.Due != 4 || r.FailedTotal() != 0 {
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

func FuzzFormat(f *testing.F) {
	for _, name := range []string{"ping-pong.txt", "under-load.txt", "packets.csv"} {
		if data, err := os.ReadFile("testdata/" + name); err == nil {
			f.Add(data)
		}
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
