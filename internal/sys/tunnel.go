package sys

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// OpenHere opens the calling thread's namespace for configuration.
func OpenHere() (*Net, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("opening netlink: %w", err)
	}
	return &Net{h: h}, nil
}

// CurrentNetns is the calling thread's namespace; close it after use.
func CurrentNetns() (*Netns, error) { return currentNetns() }

// ReadSysctl reads a network setting of the calling thread's namespace.
func ReadSysctl(key string) (string, error) {
	b, err := ReadFile("/proc/sys/" + key)
	if err != nil {
		return "", fmt.Errorf("reading a network setting: %w", err)
	}
	return trimmed(b), nil
}

func trimmed(b []byte) string {
	for len(b) > 0 && b[len(b)-1] == '\n' {
		b = b[:len(b)-1]
	}
	return string(b)
}

func (n *Net) link(name string) (netlink.Link, error) {
	l, err := n.h.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("finding %s: %w", name, err)
	}
	return l, nil
}

// DontFragment makes a socket send packets with DF, whatever the kernel thinks
// of the path's MTU: only the device's own bounds them.
func DontFragment(socket syscall.Conn) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return fmt.Errorf("reaching a socket: %w", err)
	}
	var failure error
	err = raw.Control(func(fd uintptr) {
		failure = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
	})
	if err = errors.Join(err, failure); err != nil {
		return fmt.Errorf("setting DF: %w", err)
	}
	return nil
}

// Device is what a network layer has to know of a device.
type Device struct {
	Name, Kind    string
	Index, Master int
	MTU           int
	MAC           net.HardwareAddr
}

// Device finds a device by name.
func (n *Net) Device(name string) (Device, error) {
	l, err := n.link(name)
	if err != nil {
		return Device{}, err
	}
	a := l.Attrs()
	return Device{Name: a.Name, Kind: l.Type(), Index: a.Index, Master: a.MasterIndex, MTU: a.MTU, MAC: a.HardwareAddr}, nil
}

// SetMTU sets a device's.
func (n *Net) SetMTU(name string, mtu int) error {
	l, err := n.link(name)
	if err != nil {
		return err
	}
	if err := n.h.LinkSetMTU(l, mtu); err != nil {
		return fmt.Errorf("setting the MTU of %s to %d: %w", name, mtu, err)
	}
	return nil
}

// SetMaster makes a device a port of a bridge, by its index; 0: of none.
func (n *Net) SetMaster(name string, bridge int) error {
	l, err := n.link(name)
	if err != nil {
		return err
	}
	if bridge == 0 {
		err = n.h.LinkSetNoMaster(l)
	} else {
		err = n.h.LinkSetMasterByIndex(l, bridge)
	}
	if err != nil {
		return fmt.Errorf("changing the bridge of %s: %w", name, err)
	}
	return nil
}

// Up brings a device up.
func (n *Net) Up(name string) error {
	l, err := n.link(name)
	if err != nil {
		return err
	}
	if err := n.h.LinkSetUp(l); err != nil {
		return fmt.Errorf("bringing up %s: %w", name, err)
	}
	return nil
}

// Rename takes a device down, which empties its routes and neighbours, and
// gives it another name.
func (n *Net) Rename(from, to string) error {
	l, err := n.link(from)
	if err != nil {
		return err
	}
	if err := errors.Join(n.h.LinkSetDown(l), n.h.LinkSetName(l, to)); err != nil {
		return fmt.Errorf("renaming %s to %s: %w", from, to, err)
	}
	return nil
}

// AddAddr gives a device an address.
func (n *Net) AddAddr(name string, addr netip.Prefix) error {
	l, err := n.link(name)
	if err != nil {
		return err
	}
	if err := n.h.AddrAdd(l, &netlink.Addr{IPNet: ipNet(addr)}); err != nil {
		return fmt.Errorf("giving %s the address %s: %w", name, addr, err)
	}
	return nil
}

// DeleteAddr takes an address away from a device.
func (n *Net) DeleteAddr(name string, addr netip.Prefix) error {
	l, err := n.link(name)
	if err != nil {
		return err
	}
	if err := n.h.AddrDel(l, &netlink.Addr{IPNet: ipNet(addr)}); err != nil {
		return fmt.Errorf("taking the address %s from %s: %w", addr, name, err)
	}
	return nil
}

// RouteVia is a route by the name of its device.
type RouteVia struct {
	To     netip.Prefix // zero: the default route
	Via    netip.Addr   // zero: the destination is on the link itself
	Device string
	OnLink bool // Via is on the link, whatever its address
	MTU    int  // of the path; 0: the device's
}

func (n *Net) route(r RouteVia) (*netlink.Route, error) {
	l, err := n.link(r.Device)
	if err != nil {
		return nil, err
	}
	out := &netlink.Route{LinkIndex: l.Attrs().Index, Gw: r.Via.AsSlice(), MTU: r.MTU}
	if !r.Via.IsValid() {
		out.Scope = netlink.SCOPE_LINK
	}
	if r.To.IsValid() {
		out.Dst = ipNet(r.To)
	}
	if r.OnLink {
		out.Flags = int(netlink.FLAG_ONLINK)
	}
	return out, nil
}

// ReplaceRoute makes this the route to its destination, whether there was one
// or not.
func (n *Net) ReplaceRoute(r RouteVia) error {
	route, err := n.route(r)
	if err != nil {
		return err
	}
	if err := n.h.RouteReplace(route); err != nil {
		return fmt.Errorf("routing %s over %s: %w", r.To, r.Device, err)
	}
	return nil
}

// DeleteRoute removes a route.
func (n *Net) DeleteRoute(r RouteVia) error {
	route, err := n.route(r)
	if err != nil {
		return err
	}
	if err := n.h.RouteDel(route); err != nil {
		return fmt.Errorf("removing the route to %s over %s: %w", r.To, r.Device, err)
	}
	return nil
}

// RouteTo reads the route of exactly that destination back.
func (n *Net) RouteTo(to netip.Prefix) (device string, via netip.Addr, mtu int, err error) {
	found, err := dump(func() ([]netlink.Route, error) {
		return n.h.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Dst: ipNet(to)}, netlink.RT_FILTER_DST)
	})
	if err != nil {
		return "", via, 0, fmt.Errorf("reading the route to %s: %w", to, err)
	}
	if len(found) != 1 {
		return "", via, 0, fmt.Errorf("there are %d routes to %s, not one", len(found), to)
	}
	l, err := n.h.LinkByIndex(found[0].LinkIndex)
	if err != nil {
		return "", via, 0, fmt.Errorf("finding the device of the route to %s: %w", to, err)
	}
	via, _ = netip.AddrFromSlice(found[0].Gw)
	return l.Attrs().Name, via.Unmap(), found[0].MTU, nil
}

// RoutesOfBIRD is the number by which the kernel knows BIRD's routes from others
// (RTPROT_BIRD).
const RoutesOfBIRD = unix.RTPROT_BIRD

// by are the routes of the main table that a program has made.
func (n *Net) by(protocol int) ([]netlink.Route, error) {
	found, err := dump(func() ([]netlink.Route, error) {
		return n.h.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: netlink.RouteProtocol(protocol)}, netlink.RT_FILTER_PROTOCOL)
	})
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	return found, nil
}

// RoutesBy lists the destinations of the routes that a program has made, by its
// number.
func (n *Net) RoutesBy(protocol int) ([]netip.Prefix, error) {
	found, err := n.by(protocol)
	if err != nil {
		return nil, err
	}
	var all []netip.Prefix
	for _, r := range found {
		addr, ok := netip.AddrFromSlice(r.Dst.IP)
		bits, _ := r.Dst.Mask.Size()
		if ok {
			all = append(all, netip.PrefixFrom(addr.Unmap(), bits))
		}
	}
	return all, nil
}

// DeleteRoutesBy removes the routes that a program has made.
func (n *Net) DeleteRoutesBy(protocol int) error {
	found, err := n.by(protocol)
	if err != nil {
		return err
	}
	var errs []error
	for i := range found {
		if err := n.h.RouteDel(&found[i]); err != nil {
			errs = append(errs, fmt.Errorf("removing the route to %s: %w", found[i].Dst, err))
		}
	}
	return errors.Join(errs...)
}

// SetNeighbour enters, for good, that an address is at a hardware address.
func (n *Net) SetNeighbour(device string, addr netip.Addr, mac net.HardwareAddr) error {
	l, err := n.link(device)
	if err != nil {
		return err
	}
	at := &netlink.Neigh{LinkIndex: l.Attrs().Index, State: netlink.NUD_PERMANENT, IP: addr.AsSlice(), HardwareAddr: mac}
	if err := n.h.NeighSet(at); err != nil {
		return fmt.Errorf("entering the neighbour %s on %s: %w", addr, device, err)
	}
	return nil
}

// DeleteNeighbour removes what SetNeighbour has entered.
func (n *Net) DeleteNeighbour(device string, addr netip.Addr) error {
	l, err := n.link(device)
	if err != nil {
		return err
	}
	if err := n.h.NeighDel(&netlink.Neigh{LinkIndex: l.Attrs().Index, IP: addr.AsSlice()}); err != nil {
		return fmt.Errorf("removing the neighbour %s from %s: %w", addr, device, err)
	}
	return nil
}

// Vxlan is a kernel device that carries frames in UDP to whichever node its
// table (Behind) names.
type Vxlan struct {
	Name  string
	VNI   int
	Port  int
	Local netip.Addr
	Over  string // device of the underlay
	MTU   int
	Addr  netip.Prefix // its own; it also makes its MAC
}

// AddVxlan makes a device that learns nothing, and brings it up.
func (n *Net) AddVxlan(v Vxlan) error {
	over, err := n.link(v.Over)
	if err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr = v.Name, v.MTU, MAC(v.Addr.Addr())
	device := &netlink.Vxlan{
		LinkAttrs: attrs, VxlanId: v.VNI, Port: v.Port, SrcAddr: v.Local.AsSlice(), VtepDevIndex: over.Attrs().Index,
	}
	if err := n.h.LinkAdd(device); err != nil {
		return fmt.Errorf("making the VXLAN device %s: %w", v.Name, err)
	}
	return n.address(device, v.Addr)
}

// Behind enters that a MAC is behind another node of a VXLAN.
func (n *Net) Behind(device string, mac net.HardwareAddr, node netip.Addr) error {
	l, err := n.link(device)
	if err != nil {
		return err
	}
	err = n.h.NeighSet(&netlink.Neigh{
		LinkIndex: l.Attrs().Index, Family: unix.AF_BRIDGE, State: netlink.NUD_PERMANENT, Flags: netlink.NTF_SELF,
		IP: node.AsSlice(), HardwareAddr: mac,
	})
	if err != nil {
		return fmt.Errorf("entering that %s is behind %s: %w", mac, node, err)
	}
	return nil
}

// VxlanOf reads a VXLAN device back.
func (n *Net) VxlanOf(name string) (vni, port, mtu int, err error) {
	l, err := n.link(name)
	if err != nil {
		return 0, 0, 0, err
	}
	v, ok := l.(*netlink.Vxlan)
	if !ok {
		return 0, 0, 0, fmt.Errorf("%s is a %s device", name, l.Type())
	}
	return v.VxlanId, v.Port, l.Attrs().MTU, nil
}

// Tunnel is a kernel device that carries packets (ipip, gre) or frames
// (geneve) to one other node; an ipip without Remote: to the node that a route
// is via.
type Tunnel struct {
	Name          string
	Kind          string
	Local, Remote netip.Addr
	VNI           uint32 // geneve
	MTU           int
	MAC           netip.Addr // geneve: what its MAC is made of
}

// AddTunnel makes a tunnel's device and brings it up.
func (n *Net) AddTunnel(t Tunnel) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = t.Name, t.MTU
	const ttl, discoverMTU = 64, 1
	var device netlink.Link
	switch t.Kind {
	case "ipip":
		device = &netlink.Iptun{LinkAttrs: attrs, Local: t.Local.AsSlice(), Remote: t.Remote.AsSlice(), Ttl: ttl, PMtuDisc: discoverMTU}
	case "gre":
		device = &netlink.Gretun{LinkAttrs: attrs, Local: t.Local.AsSlice(), Remote: t.Remote.AsSlice(), Ttl: ttl, PMtuDisc: discoverMTU}
	case "geneve":
		attrs.HardwareAddr = MAC(t.MAC)
		device = &netlink.Geneve{LinkAttrs: attrs, ID: t.VNI, Remote: t.Remote.AsSlice(), Dport: 6081, Ttl: ttl, Df: netlink.GENEVE_DF_SET}
	case "wireguard":
		device = &netlink.Wireguard{LinkAttrs: attrs}
	default:
		return fmt.Errorf("making a tunnel: no kind %q", t.Kind)
	}
	if err := n.h.LinkAdd(device); err != nil {
		return fmt.Errorf("making the %s device %s: %w", t.Kind, t.Name, err)
	}
	if err := n.h.LinkSetUp(device); err != nil {
		return errors.Join(fmt.Errorf("bringing up %s: %w", t.Name, err), n.h.LinkDel(device))
	}
	return nil
}

// AddMacvlan makes a device with a MAC of its own on a device of n's
// namespace, in another namespace and down. Such devices reach each other
// directly ("bridge" mode), but not the device that they are on.
func (n *Net) AddMacvlan(on, name string, in *Netns, addr netip.Addr, mtu int) error {
	parent, err := n.link(on)
	if err != nil {
		return err
	}
	there, err := OpenNet(in)
	if err != nil {
		return err
	}
	defer there.Close()
	// Older kernels, such as 6.1, refuse a name that n's namespace has too, though
	// the device is for the other.
	const first = "new-macvlan"
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex, attrs.MTU = first, parent.Attrs().Index, mtu
	attrs.HardwareAddr, attrs.Namespace = MAC(addr), netlink.NsFd(in.FD())
	if err := n.h.LinkAdd(&netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}); err != nil {
		return fmt.Errorf("making a macvlan device on %s: %w", on, err)
	}
	if err := there.Rename(first, name); err != nil {
		return errors.Join(err, there.Delete(first))
	}
	return nil
}
