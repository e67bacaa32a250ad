// Package host samples the noise of the whole host: time stolen by a
// hypervisor, time in use, time in soft interrupts, runnable tasks.
package host

import (
	"bytes"
	"context"
	"errors"
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

// Sample reads steal, busy and soft interrupts' time and the number of runnable
// tasks.
func (Sampler) Sample(_ context.Context, dst []model.Reading) ([]model.Reading, error) {
	at := sys.Monotonic()
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return dst, fmt.Errorf("sampling the host: %w", err)
	}
	s, err := parse(raw)
	if err != nil {
		return dst, fmt.Errorf("sampling the host: %w", err)
	}
	read := func(metric string, v float64) model.Reading {
		return model.Reading{At: at, Subject: model.SubjectHost, Metric: metric, Value: v}
	}
	return append(dst, read(model.SampleSteal, s.steal), read(model.SampleBusy, s.busy),
		read(model.SampleSoftIRQ, s.softIRQ), read(model.SampleRunQueue, s.running)), nil
}

type stat struct{ steal, busy, softIRQ, running float64 }

// Columns of the line "cpu" of /proc/stat. Guest time, further on, is part of
// user time.
const (
	columnIdle    = 4
	columnIOWait  = 5
	columnSoftIRQ = 7
	columnSteal   = 8
)

// parse reads the lines "cpu user nice system idle iowait irq softirq steal
// ..." and "procs_running n".
func parse(b []byte) (s stat, err error) {
	var haveCPU, haveRunning bool
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		switch {
		case len(f) > columnSteal && string(f[0]) == "cpu":
			haveCPU = true
			if err = s.parseCPU(f); err != nil {
				return stat{}, err
			}
		case len(f) == 2 && string(f[0]) == "procs_running":
			haveRunning = true
			if s.running, err = number(f[1]); err != nil {
				return stat{}, err
			}
		}
	}
	if !haveCPU || !haveRunning {
		return stat{}, errors.New("/proc/stat has no lines cpu and procs_running")
	}
	return s, nil
}

func (s *stat) parseCPU(columns [][]byte) error {
	for i := 1; i <= columnSteal; i++ {
		ticks, err := number(columns[i])
		if err != nil {
			return err
		}
		switch i {
		case columnSteal:
			s.steal += ticks / userHZ
		case columnIdle, columnIOWait:
		case columnSoftIRQ:
			s.softIRQ = ticks / userHZ
			s.busy += s.softIRQ
		default:
			s.busy += ticks / userHZ
		}
	}
	return nil
}

func number(b []byte) (float64, error) {
	v, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading a counter: %w", err)
	}
	return float64(v), nil
}
