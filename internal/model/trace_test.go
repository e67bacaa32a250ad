package model_test

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Paths of hops survive the merging of several generators' traces, of which
// some may have none.
func TestTracesWithPathsMerge(t *testing.T) {
	t.Parallel()
	var r model.LoadResult
	r.AddTrace(&model.Trace{Due: []int64{1}, Response: []int64{1}, Who: []int{0}, Responders: []string{"a"}})
	r.AddTrace(&model.Trace{
		Due: []int64{2, 3}, Response: []int64{1, 1}, Who: []int{0, -2}, Responders: []string{"b"}, Causes: []model.Cause{"reset"},
		Path: []int{0, -1}, Paths: []string{"b,x"},
	})
	r.AddTrace(&model.Trace{
		Due: []int64{4}, Response: []int64{1}, Who: []int{0}, Responders: []string{"a"}, Path: []int{1}, Paths: []string{"b,x", "a,x"},
	})
	for i, want := range []string{"", "b,x", "", "a,x"} {
		if got := r.Trace.Hops(i); got != want {
			t.Errorf("request %d: %q, want %q", i, got, want)
		}
	}
	if len(r.Trace.Path) != len(r.Trace.Due) || r.Trace.Failure(2) != "reset" {
		t.Errorf("%+v", r.Trace)
	}
}
