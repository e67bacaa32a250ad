package metric

import (
	"errors"
	"testing"

	"github.com/windtunnel/windtunnel/internal/model"
)

// The share is of all pods' periods in the window, not a mean of shares.
func TestThrottled(t *testing.T) {
	t.Parallel()
	o := measured()
	if v, err := Of(o, "throttled.total"); !errors.Is(err, ErrOtherLoad) {
		t.Errorf("without any limit, throttled.total is %v, %v", v, err)
	}
	periods := func(subject, name string, n float64) {
		w := o.Window
		o.Samples = append(o.Samples, model.Series{Subject: subject, Metric: name, At: []int64{0, w.Start, w.End}, Values: []float64{0, 100, 100 + n}})
	}
	periods("server-0/sidecar", model.SampleQuotaPeriods, 6)
	periods("server-0/sidecar", model.SampleThrottledPeriods, 2)
	periods("client-0/sidecar", model.SampleQuotaPeriods, 2)
	periods("server-0/app", model.SampleQuotaPeriods, 2)
	periods("client-0/generator", model.SampleQuotaPeriods, 10)
	for name, want := range map[string]float64{"throttled.sidecar": 0.25, "throttled.app": 0, "throttled.total": 0.2} {
		if v, err := Of(o, name); err != nil || v != want {
			t.Errorf("%s = %v, %v; want %v", name, v, err, want)
		}
	}
	o.Samples = o.Samples[:len(o.Samples)-2]
	if v, err := Of(o, "throttled.app"); err == nil {
		t.Errorf("an app without a limit was throttled in %v of its periods", v)
	}
}
