// Package layers_test measures how long network layers take to come up:
// `make bench-lab`.
package layers_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/layer/bridge"
	"github.com/windtunnel/windtunnel/internal/layer/geneve"
	"github.com/windtunnel/windtunnel/internal/layer/gre"
	"github.com/windtunnel/windtunnel/internal/layer/ipip"
	"github.com/windtunnel/windtunnel/internal/layer/macvlan"
	"github.com/windtunnel/windtunnel/internal/layer/ovs"
	"github.com/windtunnel/windtunnel/internal/layer/routed"
	"github.com/windtunnel/windtunnel/internal/layer/vxlan"
	"github.com/windtunnel/windtunnel/internal/layer/wireguard"
	"github.com/windtunnel/windtunnel/internal/model"
	wg "github.com/windtunnel/windtunnel/internal/sys/wireguard"
)

func TestMain(m *testing.M) {
	labtest.Main(m, labtest.Commands{
		wireguard.Name: func([]string) int { return status(wg.Serve(os.Stdin, os.Stdout)) },
		ovs.Command: func(args []string) int {
			return status(ovs.Serve(context.Background(), args[0], slog.New(slog.NewTextHandler(os.Stderr, nil))))
		},
	})
}

func status(err error) int {
	if err != nil {
		return 1
	}
	return 0
}

const (
	nodes   = 2
	perNode = 50
	port    = 8080
)

// BenchmarkHundredPods makes 100 pods on 2 nodes, puts them on a network layer,
// and removes both. It reports the medians, in milliseconds: up, until every pod
// of one node has reached one of the other, and of that deploy, what the layer
// took; down, until nothing is left.
func BenchmarkHundredPods(b *testing.B) {
	for _, plugin := range []model.Plugin[model.Layer]{
		bridge.Plugin(), routed.Plugin(), macvlan.Plugin(), vxlan.Plugin(), ipip.Plugin(), gre.Plugin(), geneve.Plugin(),
		wireguard.Plugin(), ovs.Plugin(),
	} {
		b.Run(plugin.Name, func(b *testing.B) {
			var up, deploy, down []time.Duration
			for b.Loop() {
				u, d, r := once(b, plugin)
				up, deploy, down = append(up, u), append(deploy, d), append(down, r)
			}
			b.ReportMetric(median(up), "ms-up")
			b.ReportMetric(median(deploy), "ms-deploy")
			b.ReportMetric(median(down), "ms-down")
			b.ReportMetric(0, "ns/op") // the sum says nothing
		})
	}
}

func once(b *testing.B, plugin model.Plugin[model.Layer]) (up, deploy, down time.Duration) {
	b.Helper()
	lab := labtest.Need(b)
	layer, err := plugin.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	if c, ok := layer.(interface{ Check(context.Context) error }); ok {
		if err = c.Check(b.Context()); err != nil {
			b.Skip(err)
		}
	}
	start := time.Now()
	site, err := lab.Provision(b.Context(), topology())
	if err != nil {
		b.Fatal(err)
	}
	made := time.Now()
	remove, err := layer.Deploy(b.Context(), site)
	if err != nil {
		b.Fatal(err)
	}
	deploy = time.Since(made)
	reach(b, site)
	up = time.Since(start)
	start = time.Now()
	if err := remove(context.WithoutCancel(b.Context())); err != nil {
		b.Fatal(err)
	}
	if err := site.Close(context.WithoutCancel(b.Context())); err != nil {
		b.Fatal(err)
	}
	return up, deploy, time.Since(start)
}

// reach connects each pod of the first node to one of the second.
func reach(b *testing.B, site model.Site) {
	b.Helper()
	for i := range perNode {
		var l net.Listener
		labtest.In(b, site, name(1, i), func() (err error) {
			l, err = new(net.ListenConfig).Listen(b.Context(), "tcp4", fmt.Sprintf(":%d", port))
			return err
		})
		labtest.In(b, site, name(0, i), func() error {
			const patience = 10 * time.Second
			to := netip.AddrPortFrom(labtest.Pod(b, site, name(1, i)).Addr(), port)
			c, err := (&net.Dialer{Timeout: patience}).DialContext(b.Context(), "tcp4", to.String())
			if err != nil {
				return err
			}
			return c.Close()
		})
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func name(node, pod int) string { return fmt.Sprintf("pod-%d-%d", node, pod) }

func topology() model.Topology {
	var all []model.Node
	for n := range nodes {
		node := model.Node{Name: fmt.Sprintf("node-%d", n)}
		for p := range perNode {
			node.Pods = append(node.Pods, model.PodSpec{Name: name(n, p), Role: "server"})
		}
		all = append(all, node)
	}
	return model.Topology{Regions: []model.Region{{Name: "region-0", Clusters: []model.Cluster{{Name: "cluster-0", Nodes: all}}}}}
}

func median(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2].Microseconds()) / 1e3
}
