package model

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/hist"
)

func part(from int64) *LoadResult {
	h := func() *hist.Histogram {
		h := &hist.Histogram{}
		for i := range int64(100) {
			h.Record((from + i) * 1000)
		}
		return h
	}
	return &LoadResult{
		Arrival: ArrivalOpen, Rate: 100, Elapsed: time.Second, Connections: 2,
		Due: 110, Sent: 109, Succeeded: 100, Failed: map[Cause]uint64{CauseReset: 9}, Unsent: 1,
		Response: h(), Service: h(), FailedResponse: h(), Lateness: h(),
		Statuses: map[int]uint64{200: 100}, HeaderBytesMin: from, HeaderBytesMax: from + 10, BodyBytesMin: from, BodyBytesMax: from,
		FirstSuccess: time.Duration(from), GeneratorIdle: 1 / float64(from), GeneratorCPU: time.Second, Workers: 1, Clock: "CLOCK_MONOTONIC",
		Timeline: Timeline{SlotWidth: time.Second, Slots: []Slot{{
			Succeeded: 100, Failed: 9, Mean: time.Duration(from), Max: time.Duration(from), Cells: [][2]uint32{{uint32(from), 50}, {90, 50}},
		}}},
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	a, b := part(10), part(30)
	b.Responders = map[string]uint64{"x": 5}
	b.Reasons = map[Cause]string{CauseReset: "first"}
	if err := a.Merge(b); err != nil {
		t.Fatal(err)
	}
	whole := &hist.Histogram{}
	whole.Merge(part(10).Response)
	whole.Merge(part(30).Response)
	if a.Response.Count() != 200 || a.Response.Quantile(0.5) != whole.Quantile(0.5) || a.Lateness.Max() != 129*time.Microsecond {
		t.Errorf("histograms: %d, p50 %s", a.Response.Count(), a.Response.Quantile(0.5))
	}
	if a.Due != 220 || a.Due != a.Succeeded+a.FailedTotal()+a.Unsent || a.Connections != 4 || a.Rate != 100 || a.Workers != 2 || a.GeneratorCPU != 2*time.Second {
		t.Errorf("got %+v", a)
	}
	if a.HeaderBytesMin != 10 || a.HeaderBytesMax != 40 || a.FirstSuccess != 10 || a.GeneratorIdle != 1.0/30 || a.Clock != "CLOCK_MONOTONIC" {
		t.Errorf("got %+v", a)
	}
	if a.Responders["x"] != 5 || a.Reasons[CauseReset] != "first" {
		t.Errorf("got %+v", a)
	}
	want := Slot{Succeeded: 200, Failed: 18, Mean: 20, Max: 30, Cells: [][2]uint32{{10, 50}, {30, 50}, {90, 100}}}
	if diff := cmp.Diff(want, a.Timeline.Slots[0]); diff != "" {
		t.Error(diff)
	}
	empty := part(0)
	empty.Succeeded, empty.Response = 0, nil
	if err := empty.Merge(part(5)); err != nil || empty.HeaderBytesMin != 5 || empty.Response.Count() != 100 {
		t.Errorf("%v, %+v", err, empty)
	}
}

// TestMergeAddsEveryCounter finds counters that were added to the results and
// not to Merge.
func TestMergeAddsEveryCounter(t *testing.T) {
	t.Parallel()
	ones := func() *LoadResult {
		r := &LoadResult{
			Response: &hist.Histogram{},
			Stream:   &StreamResult{Intervals: make([]StreamInterval, 1)}, Datagrams: &DatagramResult{Intervals: make([]DatagramInterval, 1)},
		}
		for _, v := range []any{r, r.Stream, r.Datagrams, &r.Stream.Intervals[0], &r.Datagrams.Intervals[0]} {
			for _, f := range reflect.ValueOf(v).Elem().Fields() {
				if f.Kind() == reflect.Uint64 {
					f.SetUint(1)
				}
			}
		}
		return r
	}
	a := ones()
	if err := a.Merge(ones()); err != nil {
		t.Fatal(err)
	}
	once := map[string]bool{"InterfacePackets": true, "InterfaceDrops": true, "ReceiveBuffer": true}
	for _, v := range []any{a, a.Stream, a.Datagrams, a.Stream.Intervals[0], a.Datagrams.Intervals[0]} {
		for name, f := range reflect.Indirect(reflect.ValueOf(v)).Fields() {
			if f.Kind() == reflect.Uint64 && f.Uint() != 2 && !once[name.Name] {
				t.Errorf("%T.%s is %d after merging 1 and 1", v, name.Name, f.Uint())
			}
		}
	}
}

func TestMergeRefuses(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*LoadResult){
		"different loads":     func(r *LoadResult) { r.Rate = 5 },
		"different timelines": func(r *LoadResult) { r.Timeline.Slots = nil },
		"different kinds":     func(r *LoadResult) { r.Stream = &StreamResult{} },
	} {
		other := part(1)
		change(other)
		if err := part(1).Merge(other); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
