package model_test

import (
	"fmt"
	"strings"
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
		if got := model.Timing(string(model.AppendTiming(nil, model.TimingApp, ns))); got != ns {
			t.Errorf("%d ns came back as %d", ns, got)
		}
	}
	for _, value := range []string{"", "db;dur=3", "app;dur=", "app;dur=-1", "app;dur=NaN", "app;dur=1e300"} {
		if got := model.Timing(value); got != model.NoTime {
			t.Errorf("%q was read as %d", value, got)
		}
	}
}

func TestTimings(t *testing.T) {
	t.Parallel()
	const value = "app;dur=2, front.app;dur=1,a.network;dur=0.25, bad, worse;dur=x"
	if got := model.Timing(value); got != 2_000_000 {
		t.Errorf("all of it is %d", got)
	}
	if own, none := model.OwnTiming(value), model.OwnTiming("app;dur=2, a.network;dur=1"); own != 1_000_000 || none != model.NoTime {
		t.Errorf("its own is %d, and where it is not told %d", own, none)
	}
	got := model.Timings(value)
	if len(got) != 2 || got[0] != (model.Timed{Name: "front.app", Took: 1_000_000}) || got[1] != (model.Timed{Name: "a.network", Took: 250_000}) {
		t.Errorf("%+v", got)
	}
}

// Apps that told parts and apps that did not stay apart when they are merged.
func TestTracedMerge(t *testing.T) {
	t.Parallel()
	var r model.LoadResult
	r.AddTraced(&model.Traced{Number: []uint64{1}, Service: []int64{5}, App: []int64{2}})
	r.AddTraced(&model.Traced{Number: []uint64{2}, Service: []int64{6}, App: []int64{3}, Told: []string{"x"}})
	r.AddTraced(&model.Traced{Number: []uint64{3}, Service: []int64{7}, App: []int64{4}})
	r.AddTraced(&model.Traced{Number: []uint64{4}, Service: []int64{8}, App: []int64{5}, Told: []string{"y"}})
	if got := strings.Join(r.Traced.Told, "|"); got != "|x||y" || len(r.Traced.App) != 4 {
		t.Errorf("%q of %+v", got, r.Traced)
	}
}

func FuzzTiming(f *testing.F) {
	f.Add("app;dur=0.5")
	f.Add("app;dur=-0")
	f.Add("app;dur=2, a.app;dur=1, b.network;dur=0.5")
	f.Fuzz(func(t *testing.T, value string) {
		for _, part := range model.Timings(value) {
			if part.Took < 0 || part.Name == "" {
				t.Errorf("%q was read as %+v", value, part)
			}
		}
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
