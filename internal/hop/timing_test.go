package hop

import (
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// What a server tells of a request adds up to what it has spent, and names every
// server below it.
func TestTiming(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	e := &Exchange{traced: true}
	e.note(asked{"a", at(20), at(60), "app;dur=30.0, a.app;dur=10.0, c.network;dur=5.0, c.app;dur=15.0"})
	e.note(asked{"b", at(40), at(80), "app;dur=25.0"})
	e.note(asked{"d", at(90), at(95), ""}) // does not tell
	value := e.timing("front", at(0), at(100))
	want := map[string]int{
		"front.app": 35, "front.parallel": 20, "a.network": 10, "a.app": 10, "c.network": 5, "c.app": 15,
		"b.network": 15, "b.app": 25, "d.network": 5,
	}
	var sum int64
	for _, part := range model.Timings(value) {
		if part.Took != int64(want[part.Name])*time.Millisecond.Nanoseconds() {
			t.Errorf("%s took %d ns, want %d ms", part.Name, part.Took, want[part.Name])
		}
		delete(want, part.Name)
		if part.Name == "front.parallel" {
			part.Took = -part.Took
		}
		sum += part.Took
	}
	if len(want) > 0 || sum != model.Timing(value) || sum != (100*time.Millisecond).Nanoseconds() {
		t.Errorf("not told: %v; parts come to %d ns: %s", want, sum, value)
	}
	alone := (&Exchange{traced: true}).timing("leaf", at(0), at(3))
	if model.Timing(alone) != (3*time.Millisecond).Nanoseconds() || len(model.Timings(alone)) != 0 {
		t.Errorf("one that asks nobody says %s", alone)
	}
	quiet := &Exchange{}
	if quiet.note(asked{"a", at(0), at(1), ""}); len(quiet.asked) != 0 {
		t.Error("calls of a request that is not traced are kept")
	}
}
