package runner

import (
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// place says where the servers are, and which are nearest to the pod that
// sends: those of its own region, else those over the shortest link.
func place(e *model.Endpoints, t model.Topology, from string) error {
	places := t.Places()
	of := func(pod string) (model.Place, error) {
		node, err := t.NodeOf(pod)
		if err != nil {
			return model.Place{}, err
		}
		return places[slices.IndexFunc(places, func(p model.Place) bool { return p.Node == node })], nil
	}
	client, err := of(from)
	if err != nil {
		return err
	}
	far := make([]time.Duration, len(e.Backends))
	for i := range e.Backends {
		b := &e.Backends[i]
		at, err := of(b.Pod)
		if err != nil {
			return err
		}
		b.Region = at.Region
		if at.Region != client.Region {
			far[i] = 1 // however near, it is elsewhere
			if link := t.LinkOf(client, at); link >= 0 {
				far[i] += t.Links[link].Delay
			}
		}
	}
	for i := range e.Backends {
		e.Backends[i].Nearest = far[i] == slices.Min(far)
	}
	return nil
}
