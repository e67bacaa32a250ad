package impair_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/impair"
	"github.com/windtunnel/windtunnel/internal/model"
)

// here is this process's own network.
type here struct{}

func (here) Name() string                   { return "here" }
func (here) InNetwork(f func() error) error { return f() }

func TestSetAndUndo(t *testing.T) { //nolint:paralleltest // the socket is one of the whole network namespace
	if _, err := impair.Set(t.Context(), here{}, model.Impairment{}); err == nil || !strings.Contains(err.Error(), "no server that can be impaired") {
		t.Errorf("without a server: %v", err)
	}
	planted := model.Impairment{Fail: 0.5}
	s := impair.NewServer(planted)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := s.Listen(ctx); err != nil {
		t.Fatal(err)
	}
	slow := model.Impairment{Delay: 20 * time.Millisecond, Burn: time.Millisecond}
	before, err := impair.Set(t.Context(), here{}, slow)
	if err != nil || before != planted {
		t.Fatalf("before: %+v, %v", before, err)
	}
	began := time.Now()
	if s.Meet() || time.Since(began) < slow.Delay+slow.Burn {
		t.Errorf("a request took %s", time.Since(began))
	}
	if was, err := impair.Set(t.Context(), here{}, before); err != nil || was != slow {
		t.Errorf("undone: %+v, %v", was, err)
	}
	failed := 0
	for range 100 {
		if s.Meet() {
			failed++
		}
	}
	if failed != 50 {
		t.Errorf("%d of 100 failed", failed)
	}
}

func TestNothing(t *testing.T) {
	t.Parallel()
	var none *impair.Server
	if none.Meet() || impair.NewServer(model.Impairment{}).Meet() {
		t.Error("a server that is well fails")
	}
}

// What is planted is what is there: half of the delays, at least, are longer by
// less than a wake-up takes.
func TestDelayIsExact(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{50 * time.Microsecond, 200 * time.Microsecond, time.Millisecond, 5 * time.Millisecond} {
		s := impair.NewServer(model.Impairment{Delay: delay})
		var over []time.Duration
		for range 101 {
			began := time.Now()
			s.Meet()
			took := time.Since(began)
			if took < delay {
				t.Fatalf("%s took %s", delay, took)
			}
			over = append(over, took-delay)
		}
		slices.Sort(over)
		const wakeUp = 700 * time.Microsecond // generous: the runtime's timers take a whole millisecond longer
		if median := over[len(over)/2]; median > wakeUp {
			t.Errorf("%s: half of the delays took at least %s longer", delay, median)
		} else {
			t.Logf("%s: median %s longer", delay, median)
		}
	}
}
