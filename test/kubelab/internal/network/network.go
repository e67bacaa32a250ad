// Package network builds a lab's network namespaces and the links and routes
// between them.
//
//	host ── router a ── nodes of a          The control plane of a cluster runs
//	 │         │                            in its router's namespace. Clusters
//	 │        wan                           reach each other only through wan.
//	 │         │
//	 └───── router b ── nodes of b
package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/windtunnel/windtunnel/test/kubelab/internal/plan"
)

const (
	folder = "/run/netns"
	bridge = "nodes"
	uplink = "eth0"
)

// Ensure makes what is missing of the lab's network. It can be called again.
func Ensure(lab plan.Lab) error {
	b := builder{lab: lab, spaces: map[string]space{}}
	defer b.close()
	if err := b.open("host", ""); err != nil {
		return err
	}
	for _, name := range lab.Namespaces() {
		if err := ensureNamespace(name); err != nil {
			return err
		}
		if err := b.open(name, name); err != nil {
			return err
		}
	}
	for _, c := range lab.Clusters {
		if err := b.cluster(c); err != nil {
			return fmt.Errorf("building the network of cluster %s: %w", c.Name, err)
		}
	}
	// Routes come last, for each needs the links on its way.
	for _, c := range lab.Clusters {
		if err := b.routes(c); err != nil {
			return fmt.Errorf("routing to cluster %s: %w", c.Name, err)
		}
	}
	return nil
}

type space struct {
	ns     netns.NsHandle
	handle *netlink.Handle
}

type builder struct {
	lab    plan.Lab
	spaces map[string]space
}

func (b *builder) close() {
	for _, s := range b.spaces {
		s.handle.Close()
		_ = s.ns.Close()
	}
}

// open opens a namespace by its name; without one, this process' own.
func (b *builder) open(key, name string) error {
	var ns netns.NsHandle
	var err error
	if name == "" {
		ns, err = netns.Get()
	} else {
		ns, err = netns.GetFromName(name)
	}
	if err != nil {
		return fmt.Errorf("opening the network namespace %s: %w", key, err)
	}
	handle, err := netlink.NewHandleAt(ns)
	if err != nil {
		return fmt.Errorf("opening netlink in %s: %w", key, err)
	}
	b.spaces[key] = space{ns: ns, handle: handle}
	return nil
}

func (b *builder) cluster(c plan.Cluster) error {
	router := b.spaces[b.lab.Namespace(c.Name)]
	if err := ensureBridge(router.handle, c.Router); err != nil {
		return err
	}
	if err := b.link("host", b.lab.HostLink(c), c.Host.Near, b.lab.Namespace(c.Name), "host", c.Host.Far); err != nil {
		return err
	}
	if err := b.link(b.lab.Namespace(plan.WAN), c.Name, c.WAN.Near, b.lab.Namespace(c.Name), plan.WAN, c.WAN.Far); err != nil {
		return err
	}
	for _, n := range c.Nodes {
		if err := b.link(b.lab.Namespace(n.Name), uplink, n.Address, b.lab.Namespace(c.Name), n.Name, netip.Prefix{}); err != nil {
			return err
		}
		port, err := router.handle.LinkByName(n.Name)
		if err != nil {
			return fmt.Errorf("finding the bridge's port %s: %w", n.Name, err)
		}
		nodes, err := router.handle.LinkByName(bridge)
		if err != nil {
			return fmt.Errorf("finding the bridge: %w", err)
		}
		if err := router.handle.LinkSetMaster(port, nodes); err != nil {
			return fmt.Errorf("plugging %s into the bridge: %w", n.Name, err)
		}
	}
	return nil
}

func ensureBridge(handle *netlink.Handle, address netip.Prefix) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = bridge
	if err := handle.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("making a bridge: %w", err)
	}
	return up(handle, bridge, address)
}

// link makes a veth pair between two namespaces, unless there is one.
func (b *builder) link(near, nearName string, nearAddress netip.Prefix, far, farName string, farAddress netip.Prefix) error {
	from, to := b.spaces[near], b.spaces[far]
	if _, err := from.handle.LinkByName(nearName); err != nil {
		// Its other end may still be there, of a namespace that is no more.
		if half, err := to.handle.LinkByName(farName); err == nil {
			_ = to.handle.LinkDel(half)
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name = nearName
		veth := &netlink.Veth{LinkAttrs: attrs, PeerName: farName, PeerNamespace: netlink.NsFd(int(to.ns))}
		if err := from.handle.LinkAdd(veth); err != nil {
			return fmt.Errorf("making the link from %s to %s: %w", near, far, err)
		}
	}
	if err := up(from.handle, nearName, nearAddress); err != nil {
		return err
	}
	return up(to.handle, farName, farAddress)
}

func up(handle *netlink.Handle, name string, address netip.Prefix) error {
	link, err := handle.LinkByName(name)
	if err != nil {
		return fmt.Errorf("finding the device %s: %w", name, err)
	}
	if address.IsValid() {
		if err := handle.AddrReplace(link, &netlink.Addr{IPNet: ipNet(address)}); err != nil {
			return fmt.Errorf("giving %s to %s: %w", address, name, err)
		}
	}
	if err := handle.LinkSetUp(link); err != nil {
		return fmt.Errorf("setting %s up: %w", name, err)
	}
	return nil
}

// routes routes to a cluster from everywhere.
func (b *builder) routes(c plan.Cluster) error {
	own := b.spaces[b.lab.Namespace(c.Name)].handle
	for _, n := range c.Nodes {
		if err := route(own, n.Pods, n.Address.Addr()); err != nil {
			return err
		}
		if err := b.fromNode(c, n); err != nil {
			return err
		}
	}
	// The router has no kube-proxy: a node's turns a Service's address into a pod's.
	if err := route(own, c.Services, c.Nodes[0].Address.Addr()); err != nil {
		return err
	}
	for _, to := range []netip.Prefix{c.Subnet, c.Pods, c.Services} {
		if err := route(b.spaces["host"].handle, to, c.Host.Far.Addr()); err != nil {
			return err
		}
	}
	for _, to := range []netip.Prefix{c.Subnet, c.Pods} {
		if err := b.fromOthers(c, to); err != nil {
			return err
		}
	}
	return nil
}

// fromNode routes to the pods of the cluster's other nodes directly, and to all
// else via the router.
func (b *builder) fromNode(c plan.Cluster, n plan.Node) error {
	node := b.spaces[b.lab.Namespace(n.Name)].handle
	for _, other := range c.Nodes {
		if other.Name == n.Name {
			continue
		}
		if err := route(node, other.Pods, other.Address.Addr()); err != nil {
			return err
		}
	}
	return route(node, netip.PrefixFrom(netip.IPv4Unspecified(), 0), c.Router.Addr())
}

// fromOthers routes to a part of a cluster from the WAN and, through it, from
// the other clusters.
func (b *builder) fromOthers(c plan.Cluster, to netip.Prefix) error {
	if err := route(b.spaces[b.lab.Namespace(plan.WAN)].handle, to, c.WAN.Far.Addr()); err != nil {
		return err
	}
	for _, other := range b.lab.Clusters {
		if other.Name == c.Name {
			continue
		}
		if err := route(b.spaces[b.lab.Namespace(other.Name)].handle, to, other.WAN.Near.Addr()); err != nil {
			return err
		}
	}
	return nil
}

func route(handle *netlink.Handle, to netip.Prefix, via netip.Addr) error {
	if err := handle.RouteReplace(&netlink.Route{Dst: ipNet(to), Gw: via.AsSlice()}); err != nil {
		return fmt.Errorf("routing %s via %s: %w", to, via, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)}
}

// ensureNamespace makes a named network namespace with loopback up that
// forwards packets, unless there is one.
func ensureNamespace(name string) error {
	if IDOf(name) == 0 {
		// A file without a namespace is left of a crash.
		_ = os.Remove(filepath.Join(folder, name))
	}
	if _, err := os.Stat(filepath.Join(folder, name)); err == nil {
		return nil
	}
	done := make(chan error, 1)
	go func() {
		// Never unlocked: the thread ends with the goroutine, and so does its namespace.
		runtime.LockOSThread()
		done <- makeNamespace(name)
	}()
	return <-done
}

func makeNamespace(name string) error {
	ns, err := netns.NewNamed(name)
	if err != nil {
		return fmt.Errorf("making the network namespace %s: %w", name, err)
	}
	defer func() { _ = ns.Close() }()
	for file, value := range map[string]string{
		"ipv4/ip_forward":             "1",
		"ipv4/conf/all/rp_filter":     "0",
		"ipv4/conf/default/rp_filter": "0",
	} {
		if err = os.WriteFile("/proc/sys/net/"+file, []byte(value), 0o644); err != nil {
			return fmt.Errorf("setting net/%s in %s: %w", file, name, err)
		}
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("finding the loopback device of %s: %w", name, err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("setting up the loopback device of %s: %w", name, err)
	}
	return nil
}
