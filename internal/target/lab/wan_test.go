package lab

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/model"
)

func region(name string, clusters ...model.Cluster) model.Region {
	return model.Region{Name: name, Clusters: clusters}
}

func cluster(name string, nodes ...string) model.Cluster {
	c := model.Cluster{Name: name}
	for _, n := range nodes {
		c.Nodes = append(c.Nodes, model.Node{Name: n})
	}
	return c
}

func TestSegments(t *testing.T) {
	t.Parallel()
	regions := []model.Region{region("eu", cluster("eu-c", "a", "b")), region("us", cluster("us-c", "c", "d"), cluster("us-e", "e"))}
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		links    []model.Link
		segments []int
		ways     string // from>to:pairs of segments
	}{
		"none":    {nil, []int{0, 0, 0, 0, 0}, ""},
		"regions": {[]model.Link{{A: "eu", B: "us", Delay: ms}}, []int{0, 0, 1, 1, 1}, "eu>us:[[0 1]] us>eu:[[1 0]]"},
		"an MTU alone needs no emulation": {
			[]model.Link{{A: "eu", B: "us", MTU: 1400}},
			[]int{0, 0, 1, 1, 1},
			"",
		},
		"a cluster apart, within a region": {
			[]model.Link{{A: "us", B: "eu", Delay: ms}, {A: "us-c", B: "us-e", Delay: ms}},
			[]int{0, 0, 1, 1, 2},
			"eu>us:[[0 1] [0 2]] us>eu:[[1 0] [2 0]] us-c>us-e:[[1 2]] us-e>us-c:[[2 1]]",
		},
		"nodes before regions": {
			[]model.Link{{A: "eu", B: "us", Delay: ms}, {A: "a", B: "c", Delay: 2 * ms}},
			[]int{0, 1, 2, 3, 3},
			"a>c:[[0 2]] eu>us:[[0 3] [1 2] [1 3]] us>eu:[[2 1] [3 0] [3 1]] c>a:[[2 0]]",
		},
		"two nodes": {[]model.Link{{A: "a", B: "b", Loss: 0.1}}, []int{0, 1, 2, 2, 2}, "a>b:[[0 1]] b>a:[[1 0]]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := planLinks(model.Topology{Regions: regions, Links: test.links})
			if diff := cmp.Diff(test.segments, l.segments); diff != "" {
				t.Error(diff)
			}
			got, want := map[string]bool{}, map[string]bool{}
			for _, w := range l.ways {
				got[w.name()+":"+cmpText(w.pairs)] = true
			}
			for _, w := range strings.SplitAfter(test.ways, "]]") {
				if w = strings.TrimSpace(w); w != "" {
					want[w] = true
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func cmpText(pairs [][2]int) string { return strings.ReplaceAll(fmt.Sprint(pairs), "\n", " ") }
