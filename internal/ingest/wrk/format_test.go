package wrk

import (
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/ingesttest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestPlain(t *testing.T) {
	t.Parallel()
	m := ingesttest.All(t, Format(), "wrk-latency.txt")[0]
	r, f := m.Result, m.Result.Tool.Figures
	if r.Due != 5016 || f["p99"] != 43390*time.Microsecond || f["mean"] != 2190*time.Microsecond || f["max"] != 60300*time.Microsecond || r.Service.Count() != 0 {
		t.Errorf("%+v %v", r, f)
	}
	if m.Labels[ingest.LabelURL] != "http://127.0.0.1:18080/echo" || m.Labels[ingest.LabelPlanned] != "1" || m.Labels[ingest.LabelAchieved] != "4526.66" {
		t.Error(m.Labels)
	}
}

// A mean that wrk's added values are in is not called the mean.
func TestMeanWithAddedValues(t *testing.T) {
	t.Parallel()
	r := ingesttest.All(t, Format(), "wrk-script.txt")[0].Result
	if _, ok := r.Tool.Figures["mean"]; ok || r.Service.Mean() > 200*time.Microsecond || r.Tool.Figures["mean with added values"] != 6490*time.Microsecond {
		t.Errorf("%s %v", r.Service.Mean(), r.Tool.Figures)
	}
}

func TestSeveral(t *testing.T) {
	t.Parallel()
	runs := ingesttest.All(t, Format(), "several.txt")
	if len(runs) != 2 || runs[0].Result.Tool.Name != Name || runs[1].Result.Tool.Name != NameWrk2 || runs[1].Name != "run 2" {
		t.Fatalf("%+v", runs)
	}
	if r := runs[1].Result; r.Response.Count() != 200 || r.Tool.Basis != model.BasisDue || runs[0].Result.Due != 13600 {
		t.Errorf("%+v", r)
	}
}

// wrk2 without --latency is told by its calibration.
func TestCalibrated(t *testing.T) {
	t.Parallel()
	const text = "Running 20s test @ http://x\n  2 threads and 4 connections\n  Thread calibration: mean lat.: 1.0ms, rate sampling interval: 10ms\n" +
		"    Latency     1.97ms    2.52ms  19.44ms   90.50%\n  201 requests in 2.00s, 14.72KB read\n"
	out, err := Format().Read(strings.NewReader(text), ingest.About{})
	if err != nil || out[0].Result.Tool.Name != NameWrk2 || out[0].Result.Arrival != model.ArrivalOpen {
		t.Error(out, err)
	}
	if _, err = Format().Read(strings.NewReader("Running 20s test @ http://x\n\nRunning 20s test @ http://x\n  a threads and b connections\n"), ingest.About{}); err == nil || !strings.Contains(err.Error(), "line 3") {
		t.Error(err)
	}
}
