package model_test

import (
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

func TestLinkFact(t *testing.T) {
	t.Parallel()
	s := model.LinkState{
		From: "a", To: "b", Means: "delay line",
		Link:     model.Link{Delay: 40 * time.Millisecond, Jitter: time.Millisecond, Loss: 0.01, Rate: 100_000_000},
		Observed: model.LinkObserved{Sent: 200, Lost: 3, Reordered: 1, P50: 40_123_456, P99: 41_500_000},
	}
	want := model.Fact{
		Layer: "lab", Key: "emulated link a to b", Source: model.SourceWire,
		Value: "asked 40ms +- 1ms, 1 % lost, 100 Mbit/s; observed p50 40.12ms, p99 41.5ms, 3 of 200 lost, 1 reordered; delay line",
	}
	if got := s.Fact(); got != want {
		t.Errorf("%+v", got)
	}
}

func TestLinkOf(t *testing.T) {
	t.Parallel()
	place := func(node, cluster, region string) model.Place {
		return model.Place{Node: node, Cluster: cluster, Region: region}
	}
	a, b, c := place("a", "c1", "r1"), place("b", "c2", "r1"), place("c", "c3", "r2")
	topology := model.Topology{Links: []model.Link{{A: "r1", B: "r2"}, {A: "c3", B: "c1"}, {A: "a", B: "b"}, {A: "r2", B: "r1"}}}
	for _, test := range []struct {
		from, to model.Place
		link     int
		forward  bool
	}{{a, b, 2, true}, {b, a, 2, false}, {a, c, 1, false}, {c, a, 1, true}, {b, c, 0, true}, {c, b, 0, false}} {
		link := topology.LinkOf(test.from, test.to)
		if link != test.link || topology.Forward(link, test.from, test.to) != test.forward {
			t.Errorf("%s to %s: link %d, forward %t", test.from.Node, test.to.Node, link, topology.Forward(link, test.from, test.to))
		}
	}
	if link := topology.LinkOf(place("x", "y", "r1"), place("z", "y", "r1")); link != -1 {
		t.Errorf("within a region: link %d", link)
	}
}
