package vegeta

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
)

// report is what `vegeta report -type=json` says of an attack.
type report struct {
	Latencies struct {
		Mean, Min, Max time.Duration
		P50            time.Duration `json:"50th"`
		P90            time.Duration `json:"90th"`
		P95            time.Duration `json:"95th"`
		P99            time.Duration `json:"99th"`
		Total          time.Duration
	}
	Requests uint64
	Success  float64
	Codes    map[string]uint64      `json:"status_codes"`
	BytesIn  struct{ Total uint64 } `json:"bytes_in"`
}

// agree compares what was read to vegeta's own report. vegeta's latencies are of
// failures, too, and its quantiles are estimates.
func agree(t *testing.T, gob, rep string) {
	t.Helper()
	data, err := os.ReadFile(gob)
	if err != nil {
		t.Fatal(err)
	}
	out, err := Read(bytes.NewReader(data), ingest.About{})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(rep)
	if err != nil {
		t.Fatal(err)
	}
	var want report
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	if out.Due != want.Requests || math.Abs(float64(out.Succeeded)/float64(out.Due)-want.Success) > 1e-9 || out.BytesReceived != want.BytesIn.Total {
		t.Errorf("%s: %d due, %d ok, %d bytes; vegeta says %d, %g, %d", gob, out.Due, out.Succeeded, out.BytesReceived, want.Requests, want.Success, want.BytesIn.Total)
	}
	for code, n := range want.Codes {
		var status int
		if _, err := fmt.Sscan(code, &status); err != nil {
			t.Fatal(err)
		}
		if status != 0 && out.Statuses[status] != n {
			t.Errorf("%s: %d of status %d instead of %d", gob, out.Statuses[status], status, n)
		}
	}
	all := *out.Service
	all.Merge(out.FailedResponse)
	if d := all.Mean() - want.Latencies.Mean; d < -1 || d > 1 || all.Min() != want.Latencies.Min || all.Max() != want.Latencies.Max {
		t.Errorf("%s: mean %s, min %s, max %s; vegeta says %+v", gob, all.Mean(), all.Min(), all.Max(), want.Latencies)
	}
	if out.Response.Count() != 0 {
		t.Errorf("%s: response times without a rate", gob)
	}
}

func TestAgreesWithVegeta(t *testing.T) {
	t.Parallel()
	agree(t, "testdata/attack.gob", "testdata/report.json")
}

// Three requests at 10/s: the second 30 ms late.
const lines = `{"seq":0,"code":200,"timestamp":"2026-01-01T00:00:00Z","latency":1000000,"bytes_in":5}
{"seq":2,"code":503,"timestamp":"2026-01-01T00:00:00.2Z","latency":1000000,"error":"503 Service Unavailable"}
{"seq":1,"code":200,"timestamp":"2026-01-01T00:00:00.13Z","latency":2000000,"bytes_in":5}
{"seq":3,"code":0,"timestamp":"2026-01-01T00:00:00.3Z","latency":5000000000,"error":"Get \"http://x\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"}
`

const table = `1767225600000000000,200,1000000,0,5,,,,0,GET,http://x,
1767225600200000000,503,1000000,0,0,503 Service Unavailable,,,2,GET,http://x,
1767225600130000000,200,2000000,0,5,,,,1,GET,http://x,
1767225600300000000,0,5000000000,0,0,deadline exceeded,,,3,GET,http://x,
`

func TestSchedule(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"json": lines, "csv": table} {
		out, err := Read(strings.NewReader(text), ingest.About{Rate: 10})
		if err != nil {
			t.Fatal(name, err)
		}
		if out.Due != 4 || out.Succeeded != 2 || out.Failed[model.CauseStatus] != 1 || out.Failed[model.CauseTimeout] != 1 {
			t.Errorf("%s: %+v", name, out)
		}
		if out.Service.Max() != 2*time.Millisecond || out.Response.Max() != 32*time.Millisecond || out.Lateness.Max() != 30*time.Millisecond {
			t.Errorf("%s: service %s, response %s, lateness %s", name, out.Service.Max(), out.Response.Max(), out.Lateness.Max())
		}
		if out.Elapsed != 400*time.Millisecond {
			t.Errorf("%s: took %s", name, out.Elapsed)
		}
	}
}

func TestWindow(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 1, 1, 0, 0, 0, 50e6, time.UTC)
	out, err := Read(strings.NewReader(lines), ingest.About{Rate: 10, From: from, To: from.Add(200 * time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	if out.Due != 2 || out.WarmupDue != 1 || out.Elapsed != 200*time.Millisecond {
		t.Errorf("%d due, %d before, %s", out.Due, out.WarmupDue, out.Elapsed)
	}
}

func TestBad(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "garbage", "{", `{"latency":-1,"timestamp":"2026-01-01T00:00:00Z"}`, `{"latency":1}`, "1,2,3", "1,200,1,1,1,,,,x",
		`{"seq":9223372036854775807,"code":200,"timestamp":"2026-01-01T00:00:00Z"}`, "1767225600000000000,70000,1,0,0,,,,0",
	} {
		if _, err := Read(strings.NewReader(text), ingest.About{Rate: 10}); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(lines), 10.0)
	f.Add([]byte(table), 0.0)
	if data, err := os.ReadFile("testdata/attack.gob"); err == nil {
		f.Add(data, 10.0)
	}
	f.Fuzz(func(t *testing.T, data []byte, rate float64) {
		out, err := Read(bytes.NewReader(data), ingest.About{Rate: rate})
		if err == nil && out.Due+out.WarmupDue == 0 {
			t.Error("nothing was read, and no error")
		}
	})
}
