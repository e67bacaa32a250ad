package sockperf

import (
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/ingesttest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestRead(t *testing.T) {
	t.Parallel()
	out := ingesttest.Result(t, Read, "packets.csv", ingest.About{})
	// The file is cut: of 1796 messages 42 are there, the rest counts as lost.
	if out.Succeeded == 0 || out.Due != 1796 || out.Failed[model.CauseTimeout] != 1796-out.Succeeded || out.Elapsed != 550*time.Millisecond {
		t.Errorf("%+v", out)
	}
	if out.Response.Count() != out.Succeeded || out.Service.Max() < 450*time.Microsecond {
		t.Errorf("%d response times, up to %s", out.Response.Count(), out.Service.Max())
	}
}

func TestBad(t *testing.T) {
	t.Parallel()
	const head = "packet, txTime(sec), rxTime(sec), rtt(usec)\n"
	for _, text := range []string{"", head, head + "1, 2", head + "1, a, 2, 3", head + "1, 1, 2, -3", "packet, txTime(sec), rxTime(sec), latency(usec)\n1, 1, 2, 3"} {
		if _, err := Read(strings.NewReader(text), ingest.About{}); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func FuzzRead(f *testing.F) { ingesttest.FuzzResult(f, Read) }
