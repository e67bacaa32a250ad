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
		name, cpu, stat             string
		seconds, throttled, periods float64
	}{
		{"version 1", "v1-cpuacct.usage", "v1-cpu.stat", 2.5, 0.12, 3},
		{"version 2", "v2-cpu.stat", "v2-cpu.stat", 2.5, 0.12, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cpu, err := parseCPU(fixture(t, test.cpu))
			if err != nil || cpu != test.seconds {
				t.Errorf("CPU %v, %v", cpu, err)
			}
			seconds, periods, err := parseThrottling(fixture(t, test.stat))
			if err != nil || seconds != test.throttled || periods != test.periods {
				t.Errorf("throttled for %v in %v periods, %v", seconds, periods, err)
			}
		})
	}
}

// What cannot be read must not look like an idle group.
func TestNonsenseIsNoZero(t *testing.T) {
	t.Parallel()
	for _, b := range []string{"", "x", "usage_usec x\n", "-1", "nr_throttled 3\n", "nr_throttled 3\nthrottled_time x\n"} {
		if v, err := parseCPU([]byte(b)); err == nil {
			t.Errorf("CPU of %q is %v", b, v)
		}
		if v, _, err := parseThrottling([]byte(b)); err == nil {
			t.Errorf("throttling of %q is %v", b, v)
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
		if s, p, err := parseThrottling(b); err == nil && (s < 0 || p < 0) {
			t.Errorf("negative throttling %v %v", s, p)
		}
	})
}
