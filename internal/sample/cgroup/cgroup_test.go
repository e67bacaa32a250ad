package cgroup

import "testing"

func TestParseBothVersions(t *testing.T) {
	t.Parallel()
	v2 := []byte("usage_usec 2500000\nuser_usec 1\nnr_periods 9\nnr_throttled 3\nthrottled_usec 120000\n")
	v1 := []byte("nr_periods 9\nnr_throttled 3\nthrottled_time 120000000\n")
	if got := parseCPU(v2); got != 2.5 {
		t.Errorf("v2 CPU %v", got)
	}
	if got := parseCPU([]byte("2500000000\n")); got != 2.5 {
		t.Errorf("v1 CPU %v", got)
	}
	want := throttling{seconds: 0.12, periods: 3}
	if got := parseThrottling(v1); got != want {
		t.Errorf("v1 %+v", got)
	}
	if got := parseThrottling(v2); got != want {
		t.Errorf("v2 %+v", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("nr_throttled 3\nthrottled_time x\n"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		parseCPU(b)
		parseThrottling(b)
	})
}
