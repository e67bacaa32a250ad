// Package cgroup samples what a pod's components use: CPU time, CPU
// throttling and memory, as the kernel accounts them to the component's
// control group. Short-lived children are included; polling /proc misses them.
package cgroup

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// Sampler reads one control group. Subject is "pod/component".
type Sampler struct {
	Subject string
	Group   *sys.Cgroup
}

var _ model.Sampler = Sampler{}

// Sample reads the group's three files.
func (s Sampler) Sample(_ context.Context, dst []model.Reading) ([]model.Reading, error) {
	cpuFile, throttlingFile, memoryFile := s.Group.Files()
	at := sys.Monotonic()
	cpu, err := os.ReadFile(cpuFile)
	if err != nil {
		return dst, fmt.Errorf("sampling %s: %w", s.Subject, err)
	}
	throttling, err := os.ReadFile(throttlingFile)
	if err != nil {
		return dst, fmt.Errorf("sampling %s: %w", s.Subject, err)
	}
	memory, err := os.ReadFile(memoryFile)
	if err != nil {
		return dst, fmt.Errorf("sampling %s: %w", s.Subject, err)
	}
	t := parseThrottling(throttling)
	return append(dst,
		model.Reading{At: at, Subject: s.Subject, Metric: model.SampleCPU, Value: parseCPU(cpu)},
		model.Reading{At: at, Subject: s.Subject, Metric: model.SampleThrottled, Value: t.seconds},
		model.Reading{At: at, Subject: s.Subject, Metric: model.SampleThrottledPeriods, Value: t.periods},
		model.Reading{At: at, Subject: s.Subject, Metric: model.SampleMemory, Value: parseNumber(memory)},
	), nil
}

// parseCPU reads cpuacct.usage (nanoseconds) or version 2's cpu.stat
// (usage_usec), in seconds.
func parseCPU(b []byte) float64 {
	if v, ok := field(b, "usage_usec"); ok {
		return v / 1e6
	}
	return parseNumber(b) / 1e9
}

type throttling struct{ seconds, periods float64 }

// parseThrottling reads cpu.stat: version 1 counts throttled_time in
// nanoseconds, version 2 throttled_usec in microseconds.
func parseThrottling(b []byte) throttling {
	var t throttling
	t.periods, _ = field(b, "nr_throttled")
	if v, ok := field(b, "throttled_usec"); ok {
		t.seconds = v / 1e6
	} else if v, ok := field(b, "throttled_time"); ok {
		t.seconds = v / 1e9
	}
	return t
}

// field finds "name value" among lines.
func field(b []byte, name string) (float64, bool) {
	for line := range bytes.Lines(b) {
		key, value, ok := bytes.Cut(line, []byte(" "))
		if ok && string(key) == name {
			return parseNumber(value), true
		}
	}
	return 0, false
}

func parseNumber(b []byte) float64 {
	v, err := strconv.ParseFloat(string(bytes.TrimSpace(b)), 64)
	if err != nil {
		return 0
	}
	return v
}
