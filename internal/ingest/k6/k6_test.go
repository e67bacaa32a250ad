package k6

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
	for _, name := range []string{"points.csv", "points.json", "points.csv.gz"} {
		out := ingesttest.Result(t, Read, name, ingest.About{Arrival: model.ArrivalOpen, Rate: 30, Duration: time.Second})
		if out.Sent != 31 || out.Succeeded != 11 || out.Failed[model.CauseStatus] != 10 || out.Failed[model.CauseRefused] != 10 {
			t.Errorf("%s: %+v", name, out)
		}
		if out.Service.Count() != 11 || out.Service.Max() > 100*time.Millisecond || out.Response.Count() != 0 {
			t.Errorf("%s: %d service times up to %s, %d response times", name, out.Service.Count(), out.Service.Max(), out.Response.Count())
		}
	}
}

func TestDropped(t *testing.T) {
	t.Parallel()
	const text = "metric_name,timestamp,metric_value,error_code,status,extra_tags,metadata\ndropped_iterations,1795272882407822253,7.000000,,,,\n"
	out, err := Read(strings.NewReader(text), ingest.About{Arrival: model.ArrivalOpen})
	if err != nil || out.Unsent != 7 || out.Due != 7 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestBad(t *testing.T) {
	t.Parallel()
	const head = "metric_name,timestamp,metric_value,error_code,status,extra_tags,metadata\n"
	for _, text := range []string{
		"garbage", head + "http_reqs,1795272882,1,,200,,", head + "http_reqs,x,1,,200,,", head + "http_reqs,1795272882407822253,1,,200,,",
		head + "http_reqs,1795272882407822253,1,,200", "{\"type\":\"Point\",\"metric\":",
	} {
		if _, err := Read(strings.NewReader(text), ingest.About{}); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func FuzzRead(f *testing.F) { ingesttest.FuzzResult(f, Read) }
