// Package network is what the network layers have in common: it wires a site's
// pods anew, remembers how to undo that, and reads back what is there.
//
// A network layer is the bottom of a stack. Pods keep their addresses whatever
// the layer; what changes is how packets get from one pod to the other.
package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// PodDevice is a pod's device.
const PodDevice = "eth0"

// Site is a site that a network layer is wiring.
type Site struct {
	// Across says that the layer joins the pods of all networks, which reach each
	// other by their own addresses then.
	Across bool

	Layer string
	MTU   int // of the underlay
	Nodes []*Node
	site  model.Site
	undo  []func() error
}

// Node is a machine of the site with its pods.
type Node struct {
	model.Wiring
	Space model.Namespace
	Ends  []*Pod
}

// Pod is one end of the network.
type Pod struct {
	model.WiredPod
	Space model.Namespace
	Role  string
}

// Open looks at a site that a layer is to wire. A site that another network
// layer has wired is refused.
func Open(layer string, s model.Site) (*Site, error) {
	wired, ok := s.(model.WiredSite)
	if !ok {
		return nil, &model.UnsupportedError{What: "the layer " + layer, Missing: "this target does not let its nodes' network be changed", Hint: "use the lab"}
	}
	out := &Site{Layer: layer, site: s}
	roles := map[string]string{}
	for _, n := range s.Topology().Nodes() {
		for _, p := range n.Pods {
			roles[p.Name] = p.Role
		}
	}
	for _, w := range wired.Wiring() {
		space, err := wired.Node(w.Node)
		if err != nil {
			return nil, err
		}
		n := &Node{Wiring: w, Space: space}
		for _, p := range w.Pods {
			pod, err := s.Pod(p.Name)
			if err != nil {
				return nil, err
			}
			in, ok := pod.(model.Namespace)
			if !ok {
				return nil, &model.UnsupportedError{What: "the layer " + layer, Missing: "pods have no network namespace of this host"}
			}
			n.Ends = append(n.Ends, &Pod{WiredPod: p, Space: in, Role: roles[p.Name]})
		}
		out.MTU = w.MTU
		out.Nodes = append(out.Nodes, n)
	}
	return out, out.untouched()
}

// untouched makes sure that no other network layer has been here.
func (s *Site) untouched() error {
	for _, n := range s.Nodes {
		err := In(n.Space, func(net *sys.Net) error {
			taken, err := s.taken(n, net)
			if err == nil && taken {
				err = fmt.Errorf("%s cannot be deployed: another network layer has wired the pods; a stack has at most one, at its bottom", s.Layer)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("node %s: %w", n.Node, err)
		}
	}
	return nil
}

// taken says whether a node differs from how it was made.
func (s *Site) taken(n *Node, net *sys.Net) (bool, error) {
	bridge, err := net.Device(n.Bridge)
	if err != nil || bridge.MTU != n.MTU {
		return true, err
	}
	for _, p := range n.Ends {
		d, err := net.Device(p.Device)
		if err != nil || d.Master != bridge.Index {
			return true, err
		}
	}
	for _, to := range s.Others(n) {
		device, via, mtu, err := net.RouteTo(to.Range)
		if err != nil || device != n.Underlay || via != to.Addr || mtu != 0 {
			return true, err
		}
	}
	return false, nil
}

// Others are all nodes that a node can reach the pods of, but itself.
func (s *Site) Others(n *Node) []*Node {
	return slices.DeleteFunc(slices.Clone(s.Nodes), func(o *Node) bool { return o == n || !s.Across && o.Network != n.Network })
}

// In configures the devices of a namespace.
func In(space model.Namespace, f func(*sys.Net) error) error {
	return space.InNetwork(func() error {
		net, err := sys.OpenHere()
		if err != nil {
			return err
		}
		defer net.Close()
		return f(net)
	})
}

// Each calls f for every node, until the context ends.
func (s *Site) Each(ctx context.Context, f func(n *Node) error) error {
	for _, n := range s.Nodes {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("node %s: %w", n.Node, err)
		}
		if err := f(n); err != nil {
			return fmt.Errorf("node %s: %w", n.Node, err)
		}
	}
	return nil
}

// OnUndo remembers what undoes a change.
func (s *Site) OnUndo(f func() error) { s.undo = append(s.undo, f) }

// Change makes a change in a namespace, and remembers what undoes it.
func (s *Site) Change(in model.Namespace, do, undo func(*sys.Net) error) error {
	if err := In(in, do); err != nil {
		return err
	}
	s.OnUndo(func() error {
		if err := In(in, undo); err != nil {
			return fmt.Errorf("%s: %w", in.Name(), err)
		}
		return nil
	})
	return nil
}

// Deployed is what a layer's Deploy returns: the removal, or the failure after
// which everything has been undone.
func (s *Site) Deployed(err error) (remove func(context.Context) error, failure error) {
	if err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return func(context.Context) error { return s.remove() }, nil
}

// remove undoes all changes, the last one first.
func (s *Site) remove() error {
	var errs []error
	for _, undo := range slices.Backward(s.undo) {
		errs = append(errs, undo())
	}
	s.undo = nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("removing the layer %s: %w", s.Layer, err)
	}
	return nil
}

// SetMTU gives all pods, and what connects them to their nodes, an MTU.
func (s *Site) SetMTU(ctx context.Context, mtu int) error {
	return s.Each(ctx, func(n *Node) error {
		if mtu == n.MTU {
			return nil
		}
		near := func(mtu int) func(*sys.Net) error {
			return func(net *sys.Net) error {
				for _, p := range n.Ends {
					if err := net.SetMTU(p.Device, mtu); err != nil {
						return err
					}
				}
				return net.SetMTU(n.Bridge, mtu)
			}
		}
		if err := s.Change(n.Space, near(mtu), near(n.MTU)); err != nil {
			return err
		}
		for _, p := range n.Ends {
			far := func(mtu int) func(*sys.Net) error {
				return func(net *sys.Net) error { return net.SetMTU(PodDevice, mtu) }
			}
			if err := s.Change(p.Space, far(mtu), far(n.MTU)); err != nil {
				return fmt.Errorf("pod %s: %w", p.Name, err)
			}
		}
		return nil
	})
}

// Reroute makes a node send what is for the pods of another over a route that
// the layer has made; the route's destination is filled in.
func (s *Site) Reroute(n, to *Node, over sys.RouteVia) error {
	over.To = to.Range
	return s.Change(n.Space,
		func(net *sys.Net) error { return net.ReplaceRoute(over) },
		func(net *sys.Net) error {
			if n.Network != to.Network {
				return nil // there was none before, and this one goes with its device
			}
			return net.ReplaceRoute(sys.RouteVia{To: to.Range, Via: to.Addr, Device: n.Underlay})
		})
}

// AddDevice makes a device in a node that its removal deletes.
func (s *Site) AddDevice(n *Node, name string, add func(*sys.Net) error) error {
	s.OnUndo(func() error { return In(n.Space, func(net *sys.Net) error { return net.Delete(name) }) })
	return In(n.Space, add)
}

// Host is an address as a prefix.
func Host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
