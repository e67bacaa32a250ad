package ping

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
)

func TestFormat(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		due, values uint64
		requests    int
		mean        time.Duration
	}{
		"ping.txt":  {due: 3, values: 3, requests: 3, mean: 32 * time.Microsecond},
		"plain.txt": {due: 5, values: 5, mean: 45 * time.Microsecond},
		"quiet.txt": {due: 3, mean: 38 * time.Microsecond},
	} {
		data, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		_, all, err := ingest.Open(bytes.NewReader(data), []ingest.Format{Format()}, ingest.About{})
		if err != nil || len(all) != 1 {
			t.Fatal(name, all, err)
		}
		m := all[0]
		r := m.Result
		if r.Due != want.due || r.Service.Count() != want.values || len(m.Requests) != want.requests || r.Tool.Figures["mean"] != want.mean || m.Started.IsZero() != (want.requests == 0) {
			t.Errorf("%s: %d due, %d values, %d requests, %v, from %s", name, r.Due, r.Service.Count(), len(m.Requests), r.Tool.Figures, m.Started)
		}
	}
}
