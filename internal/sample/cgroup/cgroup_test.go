package cgroup

import (
	"os"
	"path/filepath"
	"testing"
)

func fixture(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParseBothVersions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, cpu, stat                     string
		seconds, throttled, periods, quotas float64
	}{
		{"version 1", "v1-cpuacct.usage", "v1-cpu.stat", 2.5, 0.12, 3, 9},
		{"version 2", "v2-cpu.stat", "v2-cpu.stat", 2.5, 0.12, 3, 9},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cpu, err := parseCPU(fixture(t, test.cpu))
			if err != nil || cpu != test.seconds {
				t.Errorf("CPU %v, %v", cpu, err)
			}
			got, err := parseThrottling(fixture(t, test.stat))
			if want := (throttling{test.throttled, test.periods, test.quotas}); err != nil || got != want {
				t.Errorf("throttling %v, want %v, %v", got, want, err)
			}
		})
	}
}

// What cannot be read must not look like an idle group.
func TestNonsenseIsNoZero(t *testing.T) {
	t.Parallel()
	for _, b := range []string{"", "x", "usage_usec x\n", "-1", "nr_throttled 3\n", "nr_throttled 3\nnr_periods 9\nthrottled_time x\n", "nr_throttled 3\nthrottled_time 5\n"} {
		if v, err := parseCPU([]byte(b)); err == nil {
			t.Errorf("CPU of %q is %v", b, v)
		}
		if got, err := parseThrottling([]byte(b)); err == nil {
			t.Errorf("throttling of %q is %v", b, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("nr_throttled 3\nthrottled_time x\n"))
	f.Add([]byte("usage_usec 2500000\nnr_throttled 3\nthrottled_usec 120000\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := parseCPU(b); err == nil && v < 0 {
			t.Errorf("negative CPU time %v", v)
		}
		if got, err := parseThrottling(b); err == nil && (got.seconds < 0 || got.throttled < 0 || got.periods < 0) {
			t.Errorf("negative throttling %v", got)
		}
	})
}
