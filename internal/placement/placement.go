// Package placement keeps trials comparable on virtual machines. A hypervisor
// moves virtual CPUs about, on one core, below one cache, on different dies or
// sockets, and with that what every exchange between them costs: a copy of bytes by a
// factor of two or three.
package placement

import (
	"context"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

const (
	// readings are taken to find the usual distance, each after a rest.
	readings = 9
	rest     = 200 * time.Millisecond
	// rests is how often CPUs may rest until they are back in their usual place.
	rests = 15
)

// Host is one whose virtual CPUs can be moved.
type Host interface {
	// CPUDistance is how far apart the generator's CPU and the others are now, as
	// the time in which one reads what another has just written; 0: not known.
	CPUDistance() time.Duration
	// Rest lets idle CPUs sleep for a while, as deep as they like.
	Rest(ctx context.Context, d time.Duration) error
}

// Watch knows how far apart a host's CPUs usually are.
type Watch struct {
	host  Host
	usual time.Duration
}

// New finds how far apart the host's CPUs usually are, in two seconds. Where that
// is not known, or they cannot be moved, it is never elsewhere.
func New(ctx context.Context, h Host) (*Watch, error) {
	if h.CPUDistance() == 0 {
		return &Watch{host: h}, nil
	}
	var all []time.Duration
	for range readings {
		if err := h.Rest(ctx, rest); err != nil {
			return nil, err
		}
		all = append(all, h.CPUDistance())
	}
	slices.Sort(all)
	return &Watch{host: h, usual: all[readings/2]}, nil
}

// Usual is how far apart the CPUs usually are; 0: not known.
func (w *Watch) Usual() time.Duration { return w.usual }

// Distance is how far apart the CPUs are now; 0: not known.
func (w *Watch) Distance() time.Duration { return w.host.CPUDistance() }

// Settle waits until the CPUs are as far apart as usual, for three seconds at
// most, and returns how far they are. They may sleep meanwhile: a hypervisor
// finds a place for a CPU that wakes up, and leaves one that is awake where it is.
func (w *Watch) Settle(ctx context.Context) (time.Duration, error) {
	now := w.Distance()
	for range rests {
		if !model.Elsewhere(w.usual, now) {
			break
		}
		if err := w.host.Rest(ctx, rest); err != nil {
			return now, err
		}
		now = w.Distance()
	}
	return now, nil
}
