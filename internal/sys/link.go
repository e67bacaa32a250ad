package sys

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Net configures the devices of one network namespace over one netlink socket.
type Net struct {
	ns *Netns
	h  *netlink.Handle
}

// OpenNet opens a namespace for configuration.
func OpenNet(ns *Netns) (*Net, error) {
	var n *Net
	err := ns.Do(func() error {
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("opening netlink: %w", err)
		}
		n = &Net{ns: ns, h: h}
		return nil
	})
	return n, err
}

// Close closes the socket.
func (n *Net) Close() { n.h.Close() }

// LoopbackUp brings up loopback in the calling thread's namespace.
func LoopbackUp() error {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("opening netlink: %w", err)
	}
	defer h.Close()
	return (&Net{h: h}).LoopbackUp()
}

// LoopbackUp brings up loopback, which is device 1 of every namespace.
func (n *Net) LoopbackUp() error {
	lo := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: 1, Name: "lo"}}
	if err := n.h.LinkSetUp(lo); err != nil {
		return fmt.Errorf("bringing up loopback: %w", err)
	}
	return nil
}

// Bridge is a switch, and where it has an address a device of its namespace, too.
type Bridge struct {
	Name string
	MTU  int
	Addr netip.Prefix // zero: none
}

// AddBridge makes a bridge that is up, and returns its index.
func (n *Net) AddBridge(b Bridge) (int, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = b.Name, b.MTU
	if b.Addr.IsValid() {
		attrs.HardwareAddr = MAC(b.Addr.Addr())
	}
	br := &netlink.Bridge{LinkAttrs: attrs}
	if err := n.h.LinkAdd(br); err != nil {
		return 0, fmt.Errorf("making bridge %s: %w", b.Name, err)
	}
	if !b.Addr.IsValid() {
		if err := n.h.LinkSetUp(br); err != nil {
			return 0, fmt.Errorf("bringing up bridge %s: %w", b.Name, err)
		}
		return br.Index, nil
	}
	return br.Index, n.address(br, b.Addr)
}

// Veth is a pair of devices: one here, one in another namespace.
type Veth struct {
	Name   string
	Master int // index of the bridge that the near end joins; 0: none
	Peer   string
	PeerNS *Netns
	// PeerAddr gives the far end its hardware address; see MAC. It does not
	// give it the address itself: Configure does.
	PeerAddr netip.Addr
	MTU      int
}

// AddVeth makes a pair; the near end is up.
func (n *Net) AddVeth(v Veth) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.MasterIndex, attrs.Flags, attrs.TxQLen = v.Name, v.MTU, v.Master, net.FlagUp, 1000
	link := &netlink.Veth{LinkAttrs: attrs, PeerName: v.Peer, PeerNamespace: netlink.NsFd(v.PeerNS.FD())}
	if v.PeerAddr.IsValid() {
		link.PeerHardwareAddr = MAC(v.PeerAddr)
	}
	if err := n.h.LinkAdd(link); err != nil {
		return fmt.Errorf("making the pair %s-%s: %w", v.Name, v.Peer, err)
	}
	return nil
}

// Configure gives a device an address and brings it up; it returns its index.
func (n *Net) Configure(name string, addr netip.Prefix) (int, error) {
	link, err := n.h.LinkByName(name)
	if err != nil {
		return 0, fmt.Errorf("finding %s: %w", name, err)
	}
	return link.Attrs().Index, n.address(link, addr)
}

func (n *Net) address(link netlink.Link, addr netip.Prefix) error {
	ip := &netlink.Addr{IPNet: ipNet(addr)}
	if err := n.h.AddrAdd(link, ip); err != nil {
		return fmt.Errorf("giving %s the address %s: %w", link.Attrs().Name, addr, err)
	}
	if err := n.h.LinkSetUp(link); err != nil {
		return fmt.Errorf("bringing up %s: %w", link.Attrs().Name, err)
	}
	return nil
}

// Route adds a route; the zero prefix is the default route, the zero address
// says that the destination is on the link itself.
func (n *Net) Route(device int, to netip.Prefix, via netip.Addr) error {
	r := &netlink.Route{LinkIndex: device, Gw: via.AsSlice()}
	if !via.IsValid() {
		r.Scope = netlink.SCOPE_LINK
	}
	if to.IsValid() {
		r.Dst = ipNet(to)
	}
	if err := n.h.RouteAdd(r); err != nil {
		return fmt.Errorf("routing %s via %s: %w", to, via, err)
	}
	return nil
}

// Neighbour enters, for good, that an address is on the device's link, at its MAC.
func (n *Net) Neighbour(device int, addr netip.Addr) error {
	err := n.h.NeighAdd(&netlink.Neigh{
		LinkIndex: device, State: netlink.NUD_PERMANENT, IP: addr.AsSlice(), HardwareAddr: MAC(addr),
	})
	if err != nil {
		return fmt.Errorf("entering the neighbour %s: %w", addr, err)
	}
	return nil
}

// Delete removes a device; one that is not there is fine.
func (n *Net) Delete(name string) error {
	link, err := n.h.LinkByName(name)
	if _, missing := errors.AsType[netlink.LinkNotFoundError](err); missing {
		return nil
	}
	if err != nil {
		return fmt.Errorf("finding %s: %w", name, err)
	}
	if err := n.h.LinkDel(link); err != nil {
		return fmt.Errorf("removing %s: %w", name, err)
	}
	return nil
}

// Links lists the names of the devices.
func (n *Net) Links() ([]string, error) {
	links, err := dump(n.h.LinkList)
	if err != nil {
		return nil, fmt.Errorf("listing devices: %w", err)
	}
	var names []string
	for _, l := range links {
		names = append(names, l.Attrs().Name)
	}
	return names, nil
}

// MTU is a device's.
func (n *Net) MTU(name string) (int, error) {
	link, err := n.h.LinkByName(name)
	if err != nil {
		return 0, fmt.Errorf("finding %s: %w", name, err)
	}
	return link.Attrs().MTU, nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
