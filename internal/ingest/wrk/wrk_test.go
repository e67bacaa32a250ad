package wrk

import (
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/ingesttest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestScript(t *testing.T) {
	t.Parallel()
	out := ingesttest.Result(t, Read, "wrk-script.txt", ingest.About{})
	if out.Due != 13841 || out.Service.Count() != 13841 || out.Response.Count() != 13841 || out.Arrival != model.ArrivalClosed || out.Connections != 2 {
		t.Errorf("%d due, %d service times", out.Due, out.Service.Count())
	}
	// What wrk added makes its own p99 higher than what it measured.
	if out.Service.Quantile(0.99) >= out.Tool.Figures["p99"] {
		t.Errorf("p99 %s, wrk says %s", out.Service.Quantile(0.99), out.Tool.Figures["p99"])
	}
}

// correct does what stats_correct of wrk 4.1 does.
func correct(counts map[int64]uint64, interval, most int64) {
	for n := 2 * interval; n <= most; n++ {
		for m := n - interval; counts[n] > 0 && m > interval; m -= interval {
			counts[m] += counts[n]
		}
	}
}

func TestUncorrect(t *testing.T) {
	t.Parallel()
	counts, want := map[int64]uint64{}, map[int64]uint64{}
	var requests uint64
	for _, v := range []int64{3, 10, 11, 20, 21, 22, 35, 99, 100, 101, 250, 997} {
		counts[v], want[v] = uint64(v%7)+1, uint64(v%7)+1
		requests += uint64(v%7) + 1
	}
	const connections, interval = 2, 10
	correct(counts, interval, 1000)
	if err := uncorrect(counts, requests, connections, requests/connections*interval); err != nil {
		t.Fatal(err)
	}
	for v, n := range counts {
		if want[v] != n {
			t.Errorf("%d: %d instead of %d", v, n, want[v])
		}
	}
	counts[500]++
	if err := uncorrect(counts, requests, connections, requests/connections*interval); err == nil {
		t.Error("a value too many was not seen")
	}
}

func TestWithoutScript(t *testing.T) {
	t.Parallel()
	out := ingesttest.Result(t, Read, "wrk-status.txt", ingest.About{})
	if out.Failed[model.CauseStatus] != 23934 || out.Succeeded != 0 || out.Service.Count() != 0 || out.Tool.Figures["p99"] != 3640*time.Microsecond {
		t.Errorf("%+v %v", out, out.Tool.Figures)
	}
}

func TestWrk2(t *testing.T) {
	t.Parallel()
	out := ingesttest.Result(t, Read, "wrk2.txt", ingest.About{Rate: 500})
	if out.Due != 995 || out.Response.Count() != 994 || out.Service.Count() != 994 || out.Tool.Basis != model.BasisDue || out.Arrival != model.ArrivalOpen {
		t.Errorf("%+v", out)
	}
	if p := out.Response.Quantile(0.9); p < 2730*time.Microsecond || p > 2760*time.Microsecond {
		t.Errorf("p90 %s, wrk2 says 2.745 ms", p)
	}
	if p := out.Service.Quantile(0.99); p < 4950*time.Microsecond || p > 5010*time.Microsecond {
		t.Errorf("uncorrected p99 %s, wrk2 says 4.97 ms", p)
	}
	long := ingesttest.Result(t, Read, "wrk2-12s.txt", ingest.About{Rate: 100})
	if long.Elapsed > 3*time.Second || long.Due > 300 || long.Due < 100 {
		t.Errorf("after the calibration %d in %s", long.Due, long.Elapsed)
	}
}

func TestBad(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "garbage", "  5 requests in 1.00x, 1MB read", "  5 requests in", "  1 requests in 1.00s, 1MB read\n  Non-2xx or 3xx responses: 2",
		"windtunnel-latency 1 1\nwindtunnel-latency 1 1\n  2 requests in 1.00s, 1MB read", "windtunnel requests 1\n windtunnel-latency 1 9\n  1 requests in 1.00s, 1MB read",
	} {
		if _, err := Read(strings.NewReader(text), ingest.About{}); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func FuzzRead(f *testing.F) { ingesttest.FuzzResult(f, Read) }
