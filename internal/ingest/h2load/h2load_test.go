package h2load

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
	out := ingesttest.Result(t, Read, "requests.log", ingest.About{})
	if out.Due != 52 || out.Succeeded != 50 || out.Failed[model.CauseStatus] != 1 || out.Failed[model.CauseProtocol] != 1 {
		t.Errorf("%+v", out)
	}
	if out.Response.Count() != 50 || out.Service.Max() > time.Second || out.Arrival != model.ArrivalClosed {
		t.Errorf("%d response times up to %s", out.Response.Count(), out.Service.Max())
	}
	if paced := ingesttest.Result(t, Read, "requests.log", ingest.About{Rate: 100}); paced.Response.Count() != 0 || paced.Service.Count() != 50 {
		t.Error("response times of a paced loop")
	}
}

func TestBad(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "1\t200", "a\t200\t1", "1\t2000\t1", "1\t200\t-1", "9223372036854775807\t200\t1"} {
		if _, err := Read(strings.NewReader(text), ingest.About{}); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func FuzzRead(f *testing.F) { ingesttest.FuzzResult(f, Read) }
