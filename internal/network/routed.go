package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/windtunnel/windtunnel/internal/sys"
)

// calicoGateway is what Calico's pods have as their gateway: no device has that
// address; the near end of the pod's veth answers for it (proxy ARP).
func calicoGateway() netip.Addr { return netip.AddrFrom4([4]byte{169, 254, 1, 1}) }

// Routed takes the pods' veths off the bridges: the node has a route to each
// of its pods, and answers their ARP itself.
func (s *Site) Routed(ctx context.Context) error {
	return s.Each(ctx, func(n *Node) error {
		// Proxy ARP is only for what the node itself has a route to; on a real
		// node that is its default route.
		standIn := sys.RouteVia{To: Host(calicoGateway()), Device: n.Underlay}
		err := s.Change(n.Space,
			func(net *sys.Net) error { return net.ReplaceRoute(standIn) },
			func(net *sys.Net) error { return net.DeleteRoute(standIn) })
		if err != nil {
			return err
		}
		for _, p := range n.Ends {
			if err := s.unplug(n, p); err != nil {
				return fmt.Errorf("pod %s: %w", p.Name, err)
			}
		}
		return nil
	})
}

// unplug makes one pod a routed one.
func (s *Site) unplug(n *Node, p *Pod) error {
	mac, err := s.unplugNear(n, p)
	if err != nil {
		return err
	}
	return s.Change(p.Space, func(net *sys.Net) error {
		// The answer to its ARP is entered like all neighbours of the lab: the
		// kernel keeps 1,024 that it has asked for, over all namespaces.
		if err := net.SetNeighbour(PodDevice, calicoGateway(), mac); err != nil {
			return err
		}
		return regateway(net, n.Gateway, calicoGateway())
	}, func(net *sys.Net) error {
		return errors.Join(regateway(net, calicoGateway(), n.Gateway), net.DeleteNeighbour(PodDevice, calicoGateway()))
	})
}

// unplugNear is the node's side of it.
func (s *Site) unplugNear(n *Node, p *Pod) (net.HardwareAddr, error) {
	var near, bridge sys.Device
	toPod := sys.RouteVia{To: Host(p.Addr), Device: p.Device}
	err := s.Change(n.Space, func(net *sys.Net) (err error) {
		if near, err = net.Device(p.Device); err != nil {
			return err
		}
		if bridge, err = net.Device(n.Bridge); err != nil {
			return err
		}
		return errors.Join(
			net.SetMaster(p.Device, 0), proxyARP(p.Device, "1"), net.SetNeighbour(p.Device, p.Addr, sys.MAC(p.Addr)), net.ReplaceRoute(toPod),
		)
	}, func(net *sys.Net) error {
		return errors.Join(
			net.DeleteRoute(toPod), net.DeleteNeighbour(p.Device, p.Addr), proxyARP(p.Device, "0"), net.SetMaster(p.Device, bridge.Index),
		)
	})
	return near.MAC, err
}

// proxyARP sets what a device of the calling thread's namespace answers.
func proxyARP(device, value string) error {
	return sys.WriteSysctl("net/ipv4/conf/"+device+"/proxy_arp", value)
}

// regateway routes a pod by another gateway.
func regateway(net *sys.Net, from, to netip.Addr) error {
	if err := net.ReplaceRoute(sys.RouteVia{To: Host(to), Device: PodDevice}); err != nil {
		return err
	}
	if err := net.ReplaceRoute(sys.RouteVia{To: Everything(), Via: to, Device: PodDevice}); err != nil {
		return err
	}
	return net.DeleteRoute(sys.RouteVia{To: Host(from), Device: PodDevice})
}

// Everything is the default route's destination.
func Everything() netip.Prefix { return netip.PrefixFrom(netip.IPv4Unspecified(), 0) }
