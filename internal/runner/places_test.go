package runner

import (
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	region := func(name string, pods ...string) model.Region {
		n := model.Node{Name: "node-" + name}
		for _, p := range pods {
			n.Pods = append(n.Pods, model.PodSpec{Name: p})
		}
		return model.Region{Name: name, Clusters: []model.Cluster{{Name: "cluster-" + name, Nodes: []model.Node{n}}}}
	}
	topology := model.Topology{
		Regions: []model.Region{region("a", "client", "s0"), region("b", "s1", "far-client"), region("c", "s2")},
		Links:   []model.Link{{A: "a", B: "b", Delay: 40 * time.Millisecond}, {A: "c", B: "a", Delay: 20 * time.Millisecond}},
	}
	for _, tt := range []struct {
		from    string
		pods    []string
		nearest string
	}{
		{"client", []string{"s0", "s1", "s2"}, "s0"},
		{"client", []string{"s1", "s2"}, "s2"},
		{"far-client", []string{"s0", "s1"}, "s1"},
	} {
		var e model.Endpoints
		for _, p := range tt.pods {
			e.Backends = append(e.Backends, model.Backend{Pod: p})
		}
		if err := place(&e, topology, tt.from); err != nil {
			t.Fatal(err)
		}
		for _, b := range e.Backends {
			if b.Nearest != (b.Pod == tt.nearest) || b.Region == "" {
				t.Errorf("from %s: %+v, want %s nearest", tt.from, b, tt.nearest)
			}
		}
	}
	if err := place(&model.Endpoints{}, topology, "nobody"); err == nil {
		t.Error("a pod that is not there has a place")
	}
}
