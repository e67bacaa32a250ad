package anycast

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/proxy"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// underlay is a node's device towards other nodes.
const underlay = "eth0"

// announce makes the addresses lead to each region's own edge: its node has them
// on loopback, and all other nodes of the region a route to that node.
func (l *Layer) announce(s model.Site) error {
	nodes, ok := s.(model.NodeSite)
	if !ok {
		return &model.UnsupportedError{What: "the layer " + Name, Missing: "this target does not let its nodes' routes be changed", Hint: "use the lab"}
	}
	for _, c := range l.places.Clusters {
		i := slices.IndexFunc(l.edges, func(e *edge) bool { return e.at.Region == c.Region })
		for _, name := range c.Nodes {
			node, err := nodes.Node(name)
			if err != nil {
				return err
			}
			if err := l.leadAll(node, l.edges[i].at); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Layer) leadAll(node model.Namespace, at *proxy.Cluster) error {
	for _, svc := range l.services {
		if err := l.lead(node, at, svc.vip); err != nil {
			return fmt.Errorf("announcing %s on node %s: %w", svc.vip, node.Name(), err)
		}
	}
	return nil
}

// lead makes an address lead from a node to the edge's.
func (l *Layer) lead(node model.Namespace, at *proxy.Cluster, vip netip.Addr) error {
	to := netip.PrefixFrom(vip, vip.BitLen())
	route := sys.RouteVia{To: to, Via: at.Gateway, Device: underlay}
	do, undo := func(n *sys.Net) error { return n.ReplaceRoute(route) }, func(n *sys.Net) error { return n.DeleteRoute(route) }
	if node.Name() == at.Nodes[0] {
		do, undo = func(n *sys.Net) error { return n.AddAddr(loopback, to) }, func(n *sys.Net) error { return n.DeleteAddr(loopback, to) }
	}
	if err := inside(node, do); err != nil {
		return err
	}
	l.undo = append(l.undo, func() error {
		if err := inside(node, undo); err != nil {
			return fmt.Errorf("withdrawing %s from node %s: %w", vip, node.Name(), err)
		}
		return nil
	})
	return nil
}

const loopback = "lo"

// inside configures a node.
func inside(node model.Namespace, f func(*sys.Net) error) error {
	return node.InNetwork(func() error {
		n, err := sys.OpenHere()
		if err != nil {
			return err
		}
		defer n.Close()
		return f(n)
	})
}
