package placement

import (
	"context"
	"errors"
	"testing"
	"time"
)

// machine is a host whose CPUs are at one distance after the other; the last
// stays.
type machine struct {
	distances []time.Duration
	rests     int
}

func (m *machine) CPUDistance() time.Duration {
	d := m.distances[0]
	if len(m.distances) > 1 {
		m.distances = m.distances[1:]
	}
	return d
}

func (m *machine) Rest(ctx context.Context, _ time.Duration) error {
	m.rests++
	return ctx.Err()
}

const (
	core  = 4 * time.Nanosecond
	cache = 22 * time.Nanosecond
	die   = 125 * time.Nanosecond
)

func TestSettle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		then  []time.Duration // after the readings
		want  time.Duration
		rests int
	}{
		"as usual":            {[]time.Duration{cache + 3}, cache + 3, 0},
		"comes back":          {[]time.Duration{die, die, core, cache}, cache, 3},
		"stays away":          {[]time.Duration{die}, die, rests},
		"nobody knows":        {[]time.Duration{0}, 0, 0},
		"nearer is elsewhere": {[]time.Duration{core, cache - 2}, cache - 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &machine{distances: append([]time.Duration{die, die, cache, cache, core, cache, die, cache, cache, die}, c.then...)}
			w, err := New(t.Context(), m)
			if err != nil || w.Usual() != cache || m.rests != readings {
				t.Fatalf("usually %s after %d rests: %v", w.Usual(), m.rests, err)
			}
			m.rests = 0
			if got, err := w.Settle(t.Context()); err != nil || got != c.want || m.rests != c.rests {
				t.Errorf("%s after %d rests: %v; want %s after %d", got, m.rests, err, c.want, c.rests)
			}
		})
	}
}

func TestUnknownDistance(t *testing.T) {
	t.Parallel()
	m := &machine{distances: []time.Duration{0}}
	w, err := New(t.Context(), m)
	if err != nil || w.Usual() != 0 {
		t.Fatalf("usually %s: %v", w.Usual(), err)
	}
	if d, err := w.Settle(t.Context()); d != 0 || err != nil || m.rests != 0 {
		t.Errorf("%s after %d rests: %v", d, m.rests, err)
	}
}

func TestEndsWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	m := &machine{distances: []time.Duration{cache}}
	w, err := New(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	m.distances = []time.Duration{die}
	if _, err := w.Settle(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("settling: %v", err)
	}
	if _, err := New(ctx, m); !errors.Is(err, context.Canceled) {
		t.Errorf("finding the usual: %v", err)
	}
}
