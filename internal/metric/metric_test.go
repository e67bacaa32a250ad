package metric

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/model"
)

// measured is a trial of one second with 500 successes of 600 due.
func measured() *model.Outcome {
	h := &hist.Histogram{}
	for i := range 500 {
		h.Record(int64(i+1) * int64(time.Millisecond))
	}
	const second = int64(time.Second)
	cpu := func(subject string, from, to float64) model.Series {
		return model.Series{Subject: subject, Metric: model.SampleCPU, At: []int64{0, 2 * second, 4 * second}, Values: []float64{0, from, to}}
	}
	return &model.Outcome{
		Window: model.Window{Start: 2 * second, End: 3 * second},
		Load:   &model.LoadResult{Due: 600, Succeeded: 500, Elapsed: time.Second, Response: h, Service: h},
		Samples: []model.Series{
			cpu("client-0/generator", 1, 3), cpu("server-0/app", 0, 0.4), cpu("server-0/sidecar", 1, 2), cpu("client-0/sidecar", 0, 1),
			{Subject: "server-0/sidecar", Metric: model.SampleMemory, At: []int64{second, 2*second + 1, 3*second - 1, 4 * second}, Values: []float64{900, 10, 30, 999}},
			{Subject: model.SubjectHost, Metric: model.SampleSteal, At: []int64{2 * second, 3 * second}, Values: []float64{1, 1.1}},
			{Subject: model.SubjectHost, Metric: model.SampleBusy, At: []int64{2 * second, 3 * second}, Values: []float64{0, 1.5}},
		},
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	want := map[string]float64{
		"response.p50": 0.25, "response.p99": 0.495, "response.mean": 0.2505, "rate": 500, "success": 500.0 / 600,
		"cpu.generator": 1.0 / 500 * 1000, "cpu.app": 0.2 / 500 * 1000, "cpu.sidecar": 1.0 / 500 * 1000, "cpu.total": 1.2 / 500 * 1000,
		"memory.sidecar": 30, "memory.total": 30,
	}
	for name, v := range want {
		got, err := Of(measured(), name)
		if err != nil || math.Abs(got-v) > 0.002*v {
			t.Errorf("%s = %v, %v; want %v", name, got, err, v)
		}
	}
}

// What this host cannot tell is an error with the reason, never zero; what a
// variant does not have is zero.
func TestAbsent(t *testing.T) {
	t.Parallel()
	o := measured()
	o.Samples, o.Unavailable = nil, []string{"no control groups here"}
	if v, err := Of(o, "cpu.total"); err == nil || !strings.Contains(err.Error(), "no control groups here") {
		t.Errorf("got %v, %v", v, err)
	}
	o = measured()
	o.Samples = o.Samples[:2]
	if v, err := Of(o, "cpu.sidecar"); err != nil || v != 0 {
		t.Errorf("a variant without sidecars: %v, %v", v, err)
	}
	if _, err := Of(&model.Outcome{}, "response.p50"); err == nil {
		t.Error("a trial without a load has no latency")
	}
	if _, err := Of(measured(), "nonsense"); err == nil || !strings.Contains(err.Error(), "response.p50") {
		t.Errorf("an unknown metric must list the known ones: %v", err)
	}
}

func TestDeltaDoesNotExtrapolate(t *testing.T) {
	t.Parallel()
	s := model.Series{At: []int64{10, 20}, Values: []float64{0, 10}}
	if d, covered := Delta(s, model.Window{Start: 0, End: 20}); d != 10 || covered != 0.5 {
		t.Errorf("half covered: %v, %v", d, covered)
	}
	if d, covered := Delta(s, model.Window{Start: 12, End: 17}); d != 5 || covered != 1 {
		t.Errorf("inside: %v, %v", d, covered)
	}
	if d, covered := Delta(s, model.Window{Start: 30, End: 40}); d != 0 || covered != 0 {
		t.Errorf("outside: %v, %v", d, covered)
	}
}

func TestHostNoise(t *testing.T) {
	t.Parallel()
	h := HostNoise(measured(), 2)
	if !h.Known || math.Abs(h.Steal-0.05) > 1e-9 || math.Abs(h.Busy-1.5) > 1e-9 {
		t.Errorf("got %+v", h)
	}
}
