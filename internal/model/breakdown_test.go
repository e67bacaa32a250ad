package model_test

import (
	"fmt"
	"testing"

	"github.com/windtunnel/windtunnel/internal/model"
)

func TestTracedNumber(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]uint64{
		"windtunnel-00000000000000ff":          255,
		"windtunnel-ff":                        0,
		"windtunnel-00000000000000fg":          0,
		"windtunnel-0000000000000000":          0,
		"b1946ac9-2491-4a2c-9f2d-0b4f3f8a1c55": 0,
		"":                                     0,
	} {
		if n, ok := model.TracedNumber(id); n != want || ok != (want > 0) {
			t.Errorf("%q: %d, %v", id, n, ok)
		}
	}
}

func TestTiming(t *testing.T) {
	t.Parallel()
	for _, ns := range []int64{0, 1, 1234, 5_000_000_000} {
		if got := model.Timing(string(model.AppendTiming(nil, ns))); got != ns {
			t.Errorf("%d ns came back as %d", ns, got)
		}
	}
	for _, value := range []string{"", "db;dur=3", "app;dur=", "app;dur=-1", "app;dur=NaN", "app;dur=1e300"} {
		if got := model.Timing(value); got != model.NoTime {
			t.Errorf("%q was read as %d", value, got)
		}
	}
}

func FuzzTiming(f *testing.F) {
	f.Add("app;dur=0.5")
	f.Add("app;dur=-0")
	f.Fuzz(func(t *testing.T, value string) {
		if got := model.Timing(value); got < 0 && got != model.NoTime {
			t.Errorf("%q was read as %d", value, got)
		}
	})
}

func FuzzTracedNumber(f *testing.F) {
	f.Add("windtunnel-00000000000000ff")
	f.Fuzz(func(t *testing.T, id string) {
		n, ok := model.TracedNumber(id)
		if ok && len(fmt.Sprintf("%s%016x", model.TracedPrefix, n)) != len(id) {
			t.Errorf("%q was read as %d", id, n)
		}
	})
}
