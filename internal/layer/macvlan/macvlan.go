// Package macvlan is the network without bridges and routes: every pod has a
// device of its own on its node's underlay, and all pods are on one Ethernet.
// The pods' veths are left for what must go through the node: Services.
package macvlan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/network"
	"github.com/windtunnel/windtunnel/internal/parallel"
	"github.com/windtunnel/windtunnel/internal/sys"
	"github.com/windtunnel/windtunnel/internal/sys/nft"
)

// Name is the layer's name in studies.
const Name = "macvlan"

const (
	toNode = "node0" // what the pod's veth is called while eth0 is the macvlan device
	table  = "windtunnel-macvlan"
)

// Config is the layer's configuration in a study.
type Config struct {
	MTU network.MTU `json:"mtu,omitempty" jsonschema:"oneof_type=string;integer,default=native"`
}

// Plugin is the catalog entry.
func Plugin() model.Plugin[model.Layer] {
	return model.Plugin[model.Layer]{
		Name:    Name,
		Summary: "network: every pod a device of its own on the underlay, past its node",
		Config:  Config{},
		New: func(raw json.RawMessage) (model.Layer, error) {
			c := Config{MTU: network.Native}
			err := model.ReadConfig(raw, &c)
			return &network.Layer{
				Name: Name, MTU: c.MTU, Wire: wire, DataPath: dataPath, Routes: "none: one Ethernet", Form: network.Always(model.NoEncapsulation),
			}, err
		},
	}
}

func wire(ctx context.Context, s *network.Site) error {
	return s.Each(ctx, func(n *network.Node) error {
		for _, p := range n.Ends {
			if err := leave(s, n, p); err != nil {
				return fmt.Errorf("pod %s: %w", p.Name, err)
			}
		}
		var added []*network.Pod
		s.OnUndo(func() error { return remove(added) })
		for _, p := range n.Ends {
			added = append(added, p)
			if err := add(s, n, p); err != nil {
				return fmt.Errorf("pod %s: %w", p.Name, err)
			}
		}
		return masquerade(s, n)
	})
}

// masquerade gives what a node sends on for its pods the node's address: what
// a Service has translated must come back through the node, and pods would
// answer each other directly.
func masquerade(s *network.Site, n *network.Node) error {
	rules := nft.Table{Name: table, Chains: []nft.Chain{{
		Name: "postrouting", Hook: nft.HookPostrouting, Rules: []nft.Rule{{If: nft.Match{In: n.Bridge}, Do: nft.Masquerade()}},
	}}}
	return s.Change(n.Space,
		func(*sys.Net) error { return nft.Apply(rules) },
		func(*sys.Net) error { return nft.Delete(table) })
}

// leave leaves a pod's veth to what goes to the node.
func leave(s *network.Site, n *network.Node, p *network.Pod) error {
	return s.Change(p.Space, func(net *sys.Net) error {
		return errors.Join(
			net.Rename(network.PodDevice, toNode),
			net.DeleteAddr(toNode, network.Host(p.Addr)),
			net.Up(toNode),
			gateway(net, toNode, n.Gateway),
		)
	}, func(net *sys.Net) error {
		return errors.Join(
			net.Rename(toNode, network.PodDevice),
			net.AddAddr(network.PodDevice, network.Host(p.Addr)),
			net.Up(network.PodDevice),
			gateway(net, network.PodDevice, n.Gateway),
		)
	})
}

// add makes the pod's device.
func add(s *network.Site, n *network.Node, p *network.Pod) error {
	err := p.Space.InNetwork(func() error {
		in, err := sys.CurrentNetns()
		if err != nil {
			return err
		}
		defer in.Close() //nolint:errcheck // nothing depends on it
		pod, err := sys.OpenHere()
		if err != nil {
			return err
		}
		defer pod.Close()
		mtu, err := pod.MTU(toNode)
		if err != nil {
			return err
		}
		return network.In(n.Space, func(net *sys.Net) error {
			return net.AddMacvlan(n.Underlay, network.PodDevice, in, p.Addr, mtu)
		})
	})
	if err != nil {
		return err
	}
	return network.In(p.Space, func(net *sys.Net) error { return join(net, s, n, p) })
}

// remove removes pods' devices, several at a time: for each, the kernel waits for
// all CPUs to have let go of it, and one wait can serve many.
func remove(from []*network.Pod) error {
	const atATime = 16
	return parallel.Count(len(from), atATime, func(i int) error {
		return network.In(from[i].Space, func(net *sys.Net) error { return net.Delete(network.PodDevice) })
	})
}

// gateway routes a pod's traffic by its node.
func gateway(net *sys.Net, device string, at netip.Addr) error {
	return errors.Join(
		net.ReplaceRoute(sys.RouteVia{To: network.Host(at), Device: device}),
		net.SetNeighbour(device, at, sys.MAC(at)),
		net.ReplaceRoute(sys.RouteVia{To: network.Everything(), Via: at, Device: device}),
	)
}

// join puts the pod on the Ethernet of all pods and of the other nodes; its
// own node it reaches by its veth only.
func join(net *sys.Net, s *network.Site, n *network.Node, p *network.Pod) error {
	if err := errors.Join(net.AddAddr(network.PodDevice, network.Host(p.Addr)), net.Up(network.PodDevice)); err != nil {
		return err
	}
	if err := net.ReplaceRoute(sys.RouteVia{To: n.Range, Device: network.PodDevice}); err != nil {
		return err
	}
	for _, other := range s.Others(n) {
		if err := net.ReplaceRoute(sys.RouteVia{To: other.Range, Device: network.PodDevice}); err != nil {
			return err
		}
		if err := net.ReplaceRoute(sys.RouteVia{To: network.Host(other.Addr), Device: network.PodDevice}); err != nil {
			return err
		}
	}
	return nil
}

// dataPath makes sure that all pods have their device.
func dataPath(s *network.Site) (string, error) {
	for _, n := range s.Nodes {
		for _, p := range n.Ends {
			err := network.In(p.Space, func(net *sys.Net) error {
				d, err := net.Device(network.PodDevice)
				if err == nil && d.Kind != "macvlan" {
					err = fmt.Errorf("its %s is a %s device", d.Name, d.Kind)
				}
				return err
			})
			if err != nil {
				return "", fmt.Errorf("pod %s: %w", p.Name, err)
			}
		}
	}
	return "kernel device (macvlan)", nil
}
