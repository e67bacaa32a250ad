// Package host samples the noise of the whole host: time stolen by a
// hypervisor, time in use, runnable tasks.
package host

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// userHZ is the unit of /proc/stat: 100 ticks a second on every Linux of note.
const userHZ = 100

// Sampler reads /proc/stat.
type Sampler struct{}

var _ model.Sampler = Sampler{}

// Sample reads steal and busy time and the number of runnable tasks.
func (Sampler) Sample(_ context.Context, dst []model.Reading) ([]model.Reading, error) {
	at := sys.Monotonic()
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return dst, fmt.Errorf("sampling the host: %w", err)
	}
	s := parse(raw)
	read := func(metric string, v float64) model.Reading {
		return model.Reading{At: at, Subject: model.SubjectHost, Metric: metric, Value: v}
	}
	return append(dst, read(model.SampleSteal, s.steal), read(model.SampleBusy, s.busy), read(model.SampleRunQueue, s.running)), nil
}

type stat struct{ steal, busy, running float64 }

// parse reads the lines "cpu user nice system idle iowait irq softirq steal
// guest guest_nice" and "procs_running n". Guest time is part of user time.
func parse(b []byte) stat {
	var s stat
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		switch {
		case len(f) >= 9 && string(f[0]) == "cpu":
			for i, name := range []string{"user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"} {
				v := number(f[i+1]) / userHZ
				switch name {
				case "steal":
					s.steal = v
				case "idle", "iowait":
				default:
					s.busy += v
				}
			}
		case len(f) == 2 && string(f[0]) == "procs_running":
			s.running = number(f[1])
		}
	}
	return s
}

func number(b []byte) float64 {
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		return 0
	}
	return v
}
