package vxlan

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
)

// BenchmarkHundredPods reports how long it takes to make 100 pods on 2 nodes
// and to put them on VXLAN, in milliseconds:
//
//	go test -run '^$' -bench HundredPods -benchtime 5x ./internal/layer/vxlan
func BenchmarkHundredPods(b *testing.B) {
	lab := labtest.Need(b)
	var topology model.Topology
	var nodes []model.Node
	for n := range 2 {
		node := model.Node{Name: fmt.Sprintf("node-%d", n)}
		for p := range 50 {
			node.Pods = append(node.Pods, model.PodSpec{Name: fmt.Sprintf("pod-%d-%d", n, p), Role: "server"})
		}
		nodes = append(nodes, node)
	}
	topology.Regions = []model.Region{{Name: "region-0", Clusters: []model.Cluster{{Name: "cluster-0", Nodes: nodes}}}}
	var made, wired, removed time.Duration
	for b.Loop() {
		start := time.Now()
		site, err := lab.Provision(b.Context(), topology)
		if err != nil {
			b.Fatal(err)
		}
		made += time.Since(start)
		layer, err := Plugin().New(nil)
		if err != nil {
			b.Fatal(err)
		}
		start = time.Now()
		remove, err := layer.Deploy(b.Context(), site)
		if err != nil {
			b.Fatal(err)
		}
		wired += time.Since(start)
		start = time.Now()
		if err := remove(context.WithoutCancel(b.Context())); err != nil {
			b.Fatal(err)
		}
		removed += time.Since(start)
		if err := site.Close(context.WithoutCancel(b.Context())); err != nil {
			b.Fatal(err)
		}
	}
	per := func(d time.Duration) float64 { return d.Seconds() * 1e3 / float64(b.N) }
	b.ReportMetric(per(made), "ms-provision")
	b.ReportMetric(per(wired), "ms-deploy")
	b.ReportMetric(per(removed), "ms-remove")
	b.ReportMetric(0, "ns/op") // the sum says nothing
}
