package lab_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
)

// nodesOf is a topology of that many pods a node.
func nodesOf(nodes, podsPerNode int) model.Topology {
	var t model.Topology
	var all []model.Node
	for n := range nodes {
		node := model.Node{Name: fmt.Sprintf("node-%d", n)}
		for p := range podsPerNode {
			node.Pods = append(node.Pods, model.PodSpec{Name: fmt.Sprintf("pod-%d-%d", n, p), Role: "server"})
		}
		all = append(all, node)
	}
	t.Regions = []model.Region{{Name: "region-0", Clusters: []model.Cluster{{Name: "cluster-0", Nodes: all}}}}
	return t
}

// BenchmarkThousandPods makes and removes 1,000 pods on 10 nodes and reports
// the medians of both, in milliseconds:
//
//	go test -run '^$' -bench ThousandPods -benchtime 5x ./internal/target/lab
func BenchmarkThousandPods(b *testing.B) {
	lab := labtest.Need(b)
	topology := nodesOf(10, 100)
	var up, down []time.Duration
	for b.Loop() {
		start := time.Now()
		site, err := lab.Provision(b.Context(), topology)
		if err != nil {
			b.Fatal(err)
		}
		made := time.Now()
		if err := site.Close(context.WithoutCancel(b.Context())); err != nil {
			b.Fatal(err)
		}
		up, down = append(up, made.Sub(start)), append(down, time.Since(made))
	}
	b.ReportMetric(median(up), "ms-up")
	b.ReportMetric(median(down), "ms-down")
	b.ReportMetric(0, "ns/op") // the sum says nothing
}

func median(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2].Microseconds()) / 1e3
}
