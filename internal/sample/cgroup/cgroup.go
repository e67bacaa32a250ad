// Package cgroup samples what a pod's components use: CPU time, CPU
// throttling and memory, as the kernel accounts them to the component's
// control group. Short-lived children are included; polling /proc misses them.
package cgroup

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// Sampler reads the groups of all components that there are at the time.
type Sampler struct{ Subjects func() []Subject }

// Subject is a component's group; Name is "pod/component".
type Subject struct {
	Name  string
	Group *sys.Cgroup
}

var _ model.Sampler = Sampler{}

// Sample reads CPU time, throttling and memory of every group.
func (s Sampler) Sample(_ context.Context, dst []model.Reading) ([]model.Reading, error) {
	for _, subject := range s.Subjects() {
		u, err := read(subject.Group.Files())
		if err != nil {
			return dst, fmt.Errorf("sampling %s: %w", subject.Name, err)
		}
		for _, r := range []model.Reading{
			{Metric: model.SampleCPU, Value: u.cpu},
			{Metric: model.SampleThrottled, Value: u.throttled},
			{Metric: model.SampleThrottledPeriods, Value: u.periods},
			{Metric: model.SampleQuotaPeriods, Value: u.quotas},
			{Metric: model.SampleMemory, Value: u.memory},
			{Metric: model.SampleMemoryKills, Value: u.killed},
		} {
			r.At, r.Subject = u.at, subject.Name
			dst = append(dst, r)
		}
	}
	return dst, nil
}

// usage is one reading of a group.
type usage struct {
	at                      int64
	cpu, throttled, periods float64
	quotas                  float64 // periods in all, throttled or not
	memory                  float64
	killed                  float64 // processes, by the kernel for want of memory
}

func read(f sys.UsageFiles) (u usage, err error) {
	u.at = sys.Monotonic()
	b, err := sys.ReadFile(f.CPU)
	if err != nil {
		return u, fmt.Errorf("reading CPU time: %w", err)
	}
	if u.cpu, err = parseCPU(b); err != nil {
		return u, fmt.Errorf("in %s: %w", f.CPU, err)
	}
	if b, err = sys.ReadFile(f.Memory); err != nil {
		return u, fmt.Errorf("reading memory: %w", err)
	}
	if u.memory, err = parseNumber(b); err != nil {
		return u, fmt.Errorf("in %s: %w", f.Memory, err)
	}
	for _, file := range f.Killed {
		if b, err = sys.ReadFile(file); err != nil {
			return u, fmt.Errorf("reading what was killed: %w", err)
		}
		if n, missing := field(b, "oom_kill"); missing == nil { // which kernels before 4.13 do not say
			u.killed += n
		}
	}
	for _, file := range f.Throttling {
		if b, err = sys.ReadFile(file); err != nil {
			return u, fmt.Errorf("reading throttling: %w", err)
		}
		t, err := parseThrottling(b)
		if err != nil {
			return u, fmt.Errorf("in %s: %w", file, err)
		}
		u.throttled += t.seconds
		u.periods += t.throttled
		u.quotas += t.periods
	}
	return u, nil
}

// parseCPU reads cpuacct.usage (nanoseconds) or version 2's cpu.stat
// (usage_usec), in seconds.
func parseCPU(b []byte) (seconds float64, err error) {
	if usec, missing := field(b, "usage_usec"); missing == nil {
		return usec / 1e6, nil
	}
	nsec, err := parseNumber(b)
	return nsec / 1e9, err
}

// throttling is what a group's cpu.stat says of its limit.
type throttling struct {
	seconds            float64 // in which the limit stopped it, over all CPUs
	throttled, periods float64
}

// parseThrottling reads cpu.stat: version 1 counts throttled_time in
// nanoseconds, version 2 throttled_usec in microseconds.
func parseThrottling(b []byte) (t throttling, err error) {
	if t.throttled, err = field(b, "nr_throttled"); err != nil {
		return throttling{}, err
	}
	if t.periods, err = field(b, "nr_periods"); err != nil {
		return throttling{}, err
	}
	if usec, missing := field(b, "throttled_usec"); missing == nil {
		t.seconds = usec / 1e6
		return t, nil
	}
	nsec, err := field(b, "throttled_time")
	if err != nil {
		return throttling{}, err
	}
	t.seconds = nsec / 1e9
	return t, nil
}

// field finds "name value" among lines.
func field(b []byte, name string) (float64, error) {
	for line := range bytes.Lines(b) {
		key, value, ok := bytes.Cut(line, []byte(" "))
		if ok && string(key) == name {
			return parseNumber(value)
		}
	}
	return 0, fmt.Errorf("there is no %s", name)
}

func parseNumber(b []byte) (float64, error) {
	v, err := strconv.ParseUint(string(bytes.TrimSpace(b)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading a counter: %w", err)
	}
	return float64(v), nil
}
