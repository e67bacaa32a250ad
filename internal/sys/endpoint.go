package sys

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Indexes that endpoints' devices get: above what a kernel gives by itself, so
// that no device has to be looked up.
const (
	endpointIndex = 1000 // of every eth0; also the first near end
)

// Endpoint is one network namespace on a bridge, as a pod is: eth0 with an
// address of its own, everything routed through a gateway.
type Endpoint struct {
	Port    string // name of the near end, at the bridge
	Addr    netip.Addr
	Gateway netip.Addr
}

// AddEndpoints makes endpoints at the bridge of that index, which is in n's
// namespace. A thousand of these are a lab: each is two messages to the kernel
// beside its namespace. What was made before an error is closed.
func (n *Net) AddEndpoints(bridge, mtu int, ends []Endpoint) ([]*Netns, error) {
	made := make([]*Netns, 0, len(ends))
	err := onThrowawayThread(func() error {
		near, err := openRoute(n.ns)
		if err != nil {
			return err
		}
		defer near.close()
		for i, e := range ends {
			ns, err := unshareNetns()
			if err != nil {
				return fmt.Errorf("making a network namespace: %w", err)
			}
			made = append(made, ns)
			v := veth{port: e.Port, index: endpointIndex + i, bridge: bridge, mtu: mtu, far: ns, farMAC: MAC(e.Addr)}
			if err := near.execute(v.request(), neighbourRequest(bridge, e.Addr)); err != nil {
				return fmt.Errorf("making the pair %s-eth0: %w", e.Port, err)
			}
			if err := configureEndpoint(e); err != nil {
				return fmt.Errorf("configuring eth0 of %s: %w", e.Port, err)
			}
		}
		return nil
	})
	if err != nil {
		for _, ns := range made {
			err = errors.Join(err, ns.Close())
		}
		return nil, err
	}
	return made, nil
}

// configureEndpoint sets up the calling thread's namespace.
func configureEndpoint(e Endpoint) error {
	s, err := openRoute(nil)
	if err != nil {
		return err
	}
	defer s.close()
	return s.execute(
		upRequest(1), // loopback
		addrRequest(endpointIndex, e.Addr),
		upRequest(endpointIndex),
		routeRequest(endpointIndex, netip.PrefixFrom(e.Gateway, e.Gateway.BitLen()), netip.Addr{}),
		routeRequest(endpointIndex, netip.PrefixFrom(netip.IPv4Unspecified(), 0), e.Gateway),
		neighbourRequest(endpointIndex, e.Gateway),
	)
}

// MAC is the hardware address of whatever device has an IPv4 address, as
// Kubernetes' bridge plug-in makes it: who knows the one knows the other. So
// neighbours are entered for good and never asked for: the kernel's table of
// those that it has asked for holds 1,024 over all namespaces together.
func MAC(addr netip.Addr) net.HardwareAddr {
	return append(net.HardwareAddr{0x0a, 0x58}, addr.AsSlice()...)
}

const createFlags = unix.NLM_F_CREATE | unix.NLM_F_EXCL | unix.NLM_F_ACK

// veth is a pair of devices: the near end is up and a port of a bridge; the
// far end is an endpoint's eth0.
type veth struct {
	port               string
	index, bridge, mtu int
	far                *Netns
	farMAC             net.HardwareAddr
}

func (v veth) request() *nl.NetlinkRequest {
	req := nl.NewNetlinkRequest(unix.RTM_NEWLINK, createFlags)
	near := nl.NewIfInfomsg(unix.AF_UNSPEC)
	near.Index, near.Flags, near.Change = int32(v.index), unix.IFF_UP, unix.IFF_UP //nolint:gosec // a small number
	req.AddData(near)
	req.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(v.port)))
	req.AddData(nl.NewRtAttr(unix.IFLA_MTU, u32(v.mtu)))
	req.AddData(nl.NewRtAttr(unix.IFLA_MASTER, u32(v.bridge)))
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("veth"))
	peer := info.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(nl.VETH_INFO_PEER, nil)
	eth0 := nl.NewIfInfomsgChild(peer, unix.AF_UNSPEC)
	eth0.Index = endpointIndex // it cannot be up yet: the kernel pairs the two afterwards
	peer.AddRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated("eth0"))
	peer.AddRtAttr(unix.IFLA_MTU, u32(v.mtu))
	peer.AddRtAttr(unix.IFLA_ADDRESS, v.farMAC)
	peer.AddRtAttr(unix.IFLA_NET_NS_FD, u32(v.far.FD()))
	req.AddData(info)
	return req
}

func upRequest(index int) *nl.NetlinkRequest {
	req := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_ACK)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index, msg.Flags, msg.Change = int32(index), unix.IFF_UP, unix.IFF_UP //nolint:gosec // a small number
	req.AddData(msg)
	return req
}

func addrRequest(index int, addr netip.Addr) *nl.NetlinkRequest {
	req := nl.NewNetlinkRequest(unix.RTM_NEWADDR, createFlags)
	msg := nl.NewIfAddrmsg(unix.AF_INET)
	msg.Index, msg.Prefixlen = uint32(index), uint8(addr.BitLen()) //nolint:gosec // small numbers
	req.AddData(msg)
	req.AddData(nl.NewRtAttr(unix.IFA_LOCAL, addr.AsSlice()))
	req.AddData(nl.NewRtAttr(unix.IFA_ADDRESS, addr.AsSlice()))
	return req
}

func routeRequest(index int, to netip.Prefix, via netip.Addr) *nl.NetlinkRequest {
	req := nl.NewNetlinkRequest(unix.RTM_NEWROUTE, createFlags)
	msg := nl.NewRtMsg()
	msg.Dst_len = uint8(to.Bits()) //nolint:gosec // at most 32
	msg.Family = unix.AF_INET
	req.AddData(msg)
	if to.Bits() > 0 {
		req.AddData(nl.NewRtAttr(unix.RTA_DST, to.Addr().AsSlice()))
	}
	if via.IsValid() {
		req.AddData(nl.NewRtAttr(unix.RTA_GATEWAY, via.AsSlice()))
	} else {
		msg.Scope = uint8(netlink.SCOPE_LINK)
	}
	req.AddData(nl.NewRtAttr(unix.RTA_OIF, u32(index)))
	return req
}

// neighbourRequest enters a neighbour for good.
func neighbourRequest(index int, addr netip.Addr) *nl.NetlinkRequest {
	req := nl.NewNetlinkRequest(unix.RTM_NEWNEIGH, createFlags)
	req.AddData(&netlink.Ndmsg{Family: unix.AF_INET, Index: uint32(index), State: unix.NUD_PERMANENT}) //nolint:gosec // a small number
	req.AddData(nl.NewRtAttr(unix.NDA_DST, addr.AsSlice()))
	req.AddData(nl.NewRtAttr(unix.NDA_LLADDR, MAC(addr)))
	return req
}

func u32(v int) []byte { return nl.Uint32Attr(uint32(v)) } //nolint:gosec // indexes, descriptors and MTUs are small

// routeSocket is a plain netlink socket that sends several requests at once.
type routeSocket struct{ fd int }

// openRoute opens a socket in a namespace; nil: the calling thread's. The
// thread stays where it is.
func openRoute(ns *Netns) (s routeSocket, err error) {
	if ns != nil {
		var home *Netns
		if home, err = currentNetns(); err != nil {
			return s, err
		}
		defer func() { err = errors.Join(err, home.enter(), home.Close()) }()
		if err = ns.enter(); err != nil {
			return s, err
		}
	}
	s.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return s, fmt.Errorf("opening netlink: %w", err)
	}
	return s, nil
}

func (s routeSocket) close() { _ = unix.Close(s.fd) } // nothing was written to a file

// execute sends all requests in one go and waits for as many answers.
func (s routeSocket) execute(requests ...*nl.NetlinkRequest) error {
	var out []byte
	for i, req := range requests {
		req.Seq = uint32(i)
		out = append(out, req.Serialize()...)
	}
	if err := unix.Sendto(s.fd, out, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("sending to netlink: %w", err)
	}
	in := make([]byte, unix.Getpagesize())
	for pending := len(requests); pending > 0; {
		n, _, err := unix.Recvfrom(s.fd, in, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("receiving from netlink: %w", err)
		}
		answers, err := acks(in[:n])
		if err != nil {
			return err
		}
		pending -= answers
	}
	return nil
}

// acks counts the answers in a datagram; the first failure is the error.
func acks(b []byte) (n int, err error) {
	const header, code = unix.SizeofNlMsghdr, 4
	for len(b) >= header+code {
		length := int(nl.NativeEndian().Uint32(b))
		kind := nl.NativeEndian().Uint16(b[4:])
		if length < header+code || length > len(b) {
			return n, errors.New("a netlink answer is cut off")
		}
		if kind == unix.NLMSG_ERROR {
			n++
			if errno := -nl.NativeEndian().Uint32(b[header:]); errno != 0 {
				return n, unix.Errno(errno)
			}
		}
		b = b[min((length+3)&^3, len(b)):]
	}
	return n, nil
}
