package sys

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Trunk joins two bridges of a namespace by a pair of devices.
type Trunk struct {
	Near, Far             string // the pair's ends
	NearBridge, FarBridge int
	MTU                   int
	// Single makes the kernel hand large segments over packet by packet.
	Single bool
}

// AddTrunk makes a pair of which each end is a port of a bridge, both up.
func (n *Net) AddTrunk(t Trunk) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.MasterIndex, attrs.Flags, attrs.TxQLen = t.Near, t.MTU, t.NearBridge, net.FlagUp, 1000
	if err := n.h.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: t.Far, PeerMTU: uint32(t.MTU)}); err != nil { //nolint:gosec // an MTU
		return fmt.Errorf("making the pair %s-%s: %w", t.Near, t.Far, err)
	}
	far, err := n.h.LinkByName(t.Far)
	if err != nil {
		return fmt.Errorf("finding %s: %w", t.Far, err)
	}
	if err := n.h.LinkSetMasterByIndex(far, t.FarBridge); err != nil {
		return fmt.Errorf("making %s a port: %w", t.Far, err)
	}
	if err := n.h.LinkSetUp(far); err != nil {
		return fmt.Errorf("bringing up %s: %w", t.Far, err)
	}
	if !t.Single {
		return nil
	}
	return n.SingleSegments(t.Near, true)
}

// SingleSegments makes a device take packets one by one, or again the kernel's
// large segments.
func (n *Net) SingleSegments(name string, single bool) error {
	link, err := n.h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("finding %s: %w", name, err)
	}
	most := 65535 // the kernel's default, GSO_MAX_SEGS
	if single {
		most = 1
	}
	if err := n.h.LinkSetGSOMaxSegs(link, most); err != nil {
		return fmt.Errorf("letting %s have segments of %d packets: %w", name, most, err)
	}
	return nil
}

// Station tells a bridge for good that what has this IPv4 address is behind a
// port; see MAC. Frames to it are then not sent to all ports.
func (n *Net) Station(port string, addr netip.Addr) error {
	link, err := n.h.LinkByName(port)
	if err != nil {
		return fmt.Errorf("finding %s: %w", port, err)
	}
	err = n.h.NeighSet(&netlink.Neigh{
		LinkIndex: link.Attrs().Index, Family: unix.AF_BRIDGE, Flags: netlink.NTF_MASTER, State: netlink.NUD_NOARP, HardwareAddr: MAC(addr),
	})
	if err != nil {
		return fmt.Errorf("entering the station %s at %s: %w", addr, port, err)
	}
	return nil
}

// RouteMTU sets a route whose packets must be no larger than the MTU, in place
// of one to the same destination; see Route.
func (n *Net) RouteMTU(device int, to netip.Prefix, via netip.Addr, mtu int) error {
	r := &netlink.Route{LinkIndex: device, Gw: via.AsSlice(), Dst: ipNet(to), MTU: mtu}
	if !via.IsValid() {
		r.Scope = netlink.SCOPE_LINK
	}
	if err := n.h.RouteReplace(r); err != nil {
		return fmt.Errorf("routing %s via %s with MTU %d: %w", to, via, mtu, err)
	}
	return nil
}

// Index is a device's.
func (n *Net) Index(name string) (int, error) {
	link, err := n.h.LinkByName(name)
	if err != nil {
		return 0, fmt.Errorf("finding %s: %w", name, err)
	}
	return link.Attrs().Index, nil
}

// classHandle is the root discipline's; band i is class classHandle:i+1.
const classHandle = 1

// MaxClasses is how many disciplines a port can have, one for each priority.
const MaxClasses = 15

// ClassPriority is the packet priority that chooses the i-th discipline, from 0,
// of AddClasses.
func ClassPriority(i int) uint32 { return netlink.MakeHandle(classHandle, uint16(i+2)) } //nolint:gosec,mnd // at most MaxClasses; class 1 is everything else's

// Discipline makes a queueing discipline for the place that attrs say.
type Discipline func(attrs netlink.QdiscAttrs) netlink.Qdisc

// AddClasses gives a port several queueing disciplines. Packets with
// ClassPriority(i) go through the i-th; all others go out at once.
func (n *Net) AddClasses(port string, disciplines []Discipline) error {
	link, err := n.h.LinkByName(port)
	if err != nil {
		return fmt.Errorf("finding %s: %w", port, err)
	}
	if len(disciplines) > MaxClasses {
		return fmt.Errorf("%s needs %d disciplines; %d are possible", port, len(disciplines), MaxClasses)
	}
	index := link.Attrs().Index
	root := netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(classHandle, 0), Parent: netlink.HANDLE_ROOT}
	const least = 2                                                                       // bands of a prio
	prio := &netlink.Prio{QdiscAttrs: root, Bands: uint8(max(len(disciplines)+1, least))} //nolint:gosec // small; the map of priorities is all to band 0
	if err := n.h.QdiscAdd(prio); err != nil {
		return fmt.Errorf("giving %s classes: %w", port, err)
	}
	for i, d := range disciplines {
		qdisc := d(classAttrs(index, i))
		if err := n.h.QdiscAdd(qdisc); err != nil {
			return fmt.Errorf("giving %s a %s queue: %w", port, qdisc.Type(), err)
		}
	}
	return nil
}

// classAttrs are the place of the i-th discipline of AddClasses.
func classAttrs(device, i int) netlink.QdiscAttrs {
	return netlink.QdiscAttrs{LinkIndex: device, Handle: netlink.MakeHandle(uint16(i+0x10), 0), Parent: ClassPriority(i)} //nolint:gosec,mnd // small, and not the root's
}

// ChangeClass gives the i-th discipline of AddClasses other settings; what waits
// in it stays.
func (n *Net) ChangeClass(port string, i int, d Discipline) error {
	link, err := n.h.LinkByName(port)
	if err != nil {
		return fmt.Errorf("finding %s: %w", port, err)
	}
	if err := n.h.QdiscChange(d(classAttrs(link.Attrs().Index, i))); err != nil {
		return fmt.Errorf("changing queue %d of %s: %w", i, port, err)
	}
	return nil
}
