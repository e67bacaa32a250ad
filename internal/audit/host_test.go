package audit

import (
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// struck is a fault that has set in 10 s after the window's start.
func struck(kind string) []model.FaultRecord {
	return []model.FaultRecord{{Event: model.FaultEvent{Fault: model.PluginRef{Kind: kind}}, InjectStart: int64(11 * time.Second), InjectEnd: int64(11 * time.Second)}}
}

// busyAfterFault are readings of a host of two CPUs, one second each, that are
// idle but for so many of them in use in the 2 s from 12 s on.
func busyAfterFault(cpus float64) []model.Series {
	o := good()
	o.Samples[2].At, o.Samples[2].Values = nil, nil
	busy := model.Series{Subject: model.SubjectHost, Metric: model.SampleBusy}
	used := 0.0
	for s := int64(1); s <= 21; s++ {
		if s > 12 && s <= 14 {
			used += cpus
		}
		at := s * int64(time.Second)
		busy.At, busy.Values = append(busy.At, at), append(busy.Values, used)
		o.Samples[2].At, o.Samples[2].Values = append(o.Samples[2].At, at), append(o.Samples[2].Values, 0)
	}
	return append(o.Samples, busy)
}

func TestSpentTime(t *testing.T) {
	t.Parallel()
	alone := model.Host{Cores: 2}
	apart := model.Host{Cores: 2, GeneratorCPUs: []int{1}, OtherCPUs: []int{0}}
	tests := []struct {
		name  string
		host  model.Host
		cpus  float64
		steal float64 // CPUs, in the same 2 s
		since time.Duration
		want  time.Duration
	}{
		{"both in use", alone, 1.9, 0, 11 * time.Second, 2 * time.Second},
		{"room for more", alone, 1.7, 0, 11 * time.Second, 0},
		{"stolen time is not there", alone, 1.2, 0.7, 11 * time.Second, 2 * time.Second},
		{"before the fault", alone, 1.9, 0, 15 * time.Second, 0},
		{"begun before the fault", alone, 1.9, 0, 13 * time.Second, time.Second},
		{"the other CPU is the generator's", apart, 1.0, 0, 11 * time.Second, 2 * time.Second},
		{"of which half of what is stolen counts", apart, 0.7, 0.4, 11 * time.Second, 0},
		{"no host is seen", model.Host{}, 1.9, 0, 11 * time.Second, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := good() // its generator takes 0.05 of a CPU
			o.Samples = busyAfterFault(tt.cpus)
			for i, at := range o.Samples[2].At {
				o.Samples[2].Values[i] = tt.steal * min(max(time.Duration(at).Seconds()-12, 0), 2)
			}
			if got := spentTime(tt.host, &o, int64(tt.since)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// Where the fault is that CPU time is taken away, there is nothing to be found out.
func TestFaultOfCPUTime(t *testing.T) {
	t.Parallel()
	o := good()
	o.Samples, o.Faults = busyAfterFault(2.1), struck("cpu")
	if f := judge(o); len(f) != 0 {
		t.Errorf("got %+v", f)
	}
}
