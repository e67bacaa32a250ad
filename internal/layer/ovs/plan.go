package ovs

import (
	"net/netip"
	"slices"

	"github.com/windtunnel/windtunnel/internal/openflow"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// plan is what a controller is told: all that it knows of the network but its
// switches' ports, which these tell it themselves.
type plan struct {
	Listen   netip.AddrPort `json:"listen"`
	Tunnel   string         `json:"tunnel"`
	Switches []machine      `json:"switches"`
	Services []service      `json:"services"`
}

// machine is a node with its switch.
type machine struct {
	Datapath uint64       `json:"datapath"` // the switch's number
	Node     string       `json:"node"`
	Addr     netip.Addr   `json:"addr"` // the tunnels' end
	Gateway  netip.Addr   `json:"gateway"`
	Range    netip.Prefix `json:"range"`
	Pods     []pod        `json:"pods"`
}

type pod struct {
	Name   string     `json:"name"`
	Device string     `json:"device"` // the switch's port
	Addr   netip.Addr `json:"addr"`
}

type service struct {
	Name     string           `json:"name"`
	VIP      netip.AddrPort   `json:"vip"`
	Backends []netip.AddrPort `json:"backends"`
}

// The tables, with the numbers that SONA gives those that it has, too.
const (
	tableIn         = 0  // counts what pods send; what comes from where
	tableARP        = 35 // the switch answers for the gateway and for its pods
	tableConnection = 45 // connections to services are tracked and translated
	tableService    = 52 // new ones are given a pod
	tablePod        = 53 // answers to pods get the service's address back
	tableRouting    = 60 // a pod of the node, of another node, or none
	tableTunnel     = 65 // to another node
	tableOut        = 70 // counts what pods receive
	tableForwarding = 80 // out by the pod's port
	tableExternal   = 90 // to the node itself and beyond
)

// Priorities, within a table.
const (
	otherwise = 1
	general   = 100
	special   = 200
)

// zone is the connection tracking's own of the services.
const zone = 1

// segment is the tunnels' key or VNI: SONA's segment_id.
const segment = 100

// groups are the services': a bucket a pod.
func (p plan) groups() []openflow.Group {
	var all []openflow.Group
	for i, s := range p.Services {
		g := openflow.Group{ID: groupOf(i)}
		for _, to := range s.Backends {
			c := openflow.Connection{Zone: zone, Commit: true, Table: tablePod, NAT: true, To: to}
			g.Buckets = append(g.Buckets, []openflow.Action{c.Action()})
		}
		all = append(all, g)
	}
	return all
}

func groupOf(service int) uint32 { return uint32(service) + 1 } //nolint:gosec // there are few

// flows are all of a switch, with the ports that it has now.
func (p plan) flows(m machine, ports map[string]uint32, cookie uint64) []openflow.Flow {
	flows := p.entry(ports)
	flows = append(flows, answer(m.Gateway, m.Gateway))
	flows = append(flows, p.translation(m)...)
	for _, pod := range m.Pods {
		if port, ok := ports[pod.Device]; ok {
			flows = append(flows, ofPod(m, pod, port)...)
		}
	}
	if port, ok := ports[p.Tunnel]; ok {
		for _, other := range p.Switches {
			if other.Datapath != m.Datapath {
				flows = append(flows, toNode(m, other, port)...)
			}
		}
	}
	flows = append(flows, external(m)...)
	for i := range flows {
		flows[i].Cookie = cookie
	}
	return flows
}

// entry is where packets that are not a pod's begin, and what is asked of the
// controller.
func (p plan) entry(ports map[string]uint32) []openflow.Flow {
	flows := []openflow.Flow{
		{Table: tableIn, Priority: special, Match: arp(), Goto: tableARP},
		// ICMP from outside is dropped.
		{Table: tableIn, Priority: special, Match: append(ip(), openflow.InPort(openflow.PortLocal), openflow.IPProto(openflow.ProtocolICMP))},
		{Table: tableIn, Priority: general, Match: append(ip(), openflow.InPort(openflow.PortLocal)), Goto: tableConnection},
		{Table: tableARP, Priority: otherwise, Match: append(arp(), openflow.ARPOp(request)), Do: []openflow.Action{openflow.Output(openflow.PortController)}},
	}
	if port, ok := ports[p.Tunnel]; ok {
		flows = append(flows, openflow.Flow{Table: tableIn, Priority: general, Match: append(ip(), openflow.InPort(port)), Goto: tablePod})
	}
	return flows
}

// ARP's operations.
const (
	request = 1
	reply   = 2
)

// answer makes the switch itself answer who has an address.
func answer(asked, whose netip.Addr) openflow.Flow {
	mac := sys.MAC(whose)
	do := append(openflow.SenderToTarget(),
		openflow.Set(openflow.EthSrc(mac)), openflow.Set(openflow.ARPOp(reply)), openflow.Set(openflow.ARPSenderMAC(mac)),
		openflow.Set(openflow.ARPSender(asked)), openflow.Output(openflow.PortIn))
	return openflow.Flow{
		Table: tableARP, Priority: general, Match: append(arp(), openflow.ARPOp(request), openflow.ARPTarget(asked)), Do: do,
	}
}

// translation is what makes services of virtual addresses.
func (p plan) translation(m machine) []openflow.Flow {
	flows := []openflow.Flow{
		{Table: tableConnection, Priority: otherwise, Goto: tablePod},
		{Table: tableService, Priority: otherwise, Goto: tablePod},
		{Table: tablePod, Priority: otherwise, Goto: tableRouting},
	}
	back := openflow.Connection{Zone: zone, Table: tableRouting, NAT: true}.Action()
	there := openflow.Connection{Zone: zone, Table: tableService, NAT: true}.Action()
	seen := map[netip.AddrPort]bool{}
	for i, s := range p.Services {
		for _, t := range transports() {
			to := append(ip(), openflow.IPProto(t.protocol), openflow.IPv4Dst(host(s.VIP.Addr())))
			// Of fragments only the first has ports. The connection tracking waits for
			// all of them, and translates them together.
			for _, which := range []openflow.Value{t.to(s.VIP.Port()), openflow.Fragment()} {
				match := append(slices.Clone(to), which)
				fresh := append(slices.Clone(match), openflow.CTState(openflow.CTNew|openflow.CTTracked, openflow.CTNew|openflow.CTTracked))
				flows = append(flows,
					openflow.Flow{Table: tableConnection, Priority: special, Match: match, Do: []openflow.Action{there}},
					openflow.Flow{Table: tableService, Priority: special, Match: fresh, Do: []openflow.Action{openflow.ToGroup(groupOf(i))}},
				)
			}
			for _, b := range s.Backends {
				from := append(ip(), openflow.IPProto(t.protocol), openflow.IPv4Src(host(b.Addr())), openflow.IPv4Dst(m.Range))
				of := map[netip.AddrPort]openflow.Value{b: t.from(b.Port()), netip.AddrPortFrom(b.Addr(), 0): openflow.Fragment()}
				for _, key := range []netip.AddrPort{b, netip.AddrPortFrom(b.Addr(), 0)} {
					if !seen[key] {
						flows = append(flows, openflow.Flow{Table: tablePod, Priority: special, Match: append(slices.Clone(from), of[key]), Do: []openflow.Action{back}})
					}
				}
			}
		}
		for _, b := range s.Backends {
			seen[b], seen[netip.AddrPortFrom(b.Addr(), 0)] = true, true
		}
	}
	return flows
}

// transport is a protocol with ports.
type transport struct {
	protocol uint8
	from, to func(port uint16) openflow.Value
}

func transports() []transport {
	return []transport{{openflow.ProtocolTCP, openflow.TCPSrc, openflow.TCPDst}, {openflow.ProtocolUDP, openflow.UDPSrc, openflow.UDPDst}}
}

// ofPod is what a pod on the node needs. What it sends under another's address
// is dropped.
func ofPod(m machine, p pod, port uint32) []openflow.Flow {
	mac := sys.MAC(p.Addr)
	return []openflow.Flow{
		{Table: tableIn, Priority: general, Match: append(ip(), openflow.InPort(port), openflow.IPv4Src(host(p.Addr))), Goto: tableConnection},
		answer(p.Addr, p.Addr),
		{Table: tableRouting, Priority: special, Match: append(ip(), openflow.IPv4Dst(host(p.Addr))), Goto: tableOut},
		{
			Table: tableOut, Priority: general, Match: append(ip(), openflow.IPv4Dst(host(p.Addr))), Goto: tableForwarding,
			Do: []openflow.Action{openflow.Set(openflow.EthSrc(sys.MAC(m.Gateway))), openflow.Set(openflow.EthDst(mac))},
		},
		{Table: tableForwarding, Priority: general, Match: openflow.Match{openflow.EthDst(mac)}, Do: []openflow.Action{openflow.Output(port)}},
	}
}

// toNode carries what is for another node's pods there.
func toNode(m, other machine, tunnel uint32) []openflow.Flow {
	match := append(ip(), openflow.IPv4Dst(other.Range))
	return []openflow.Flow{
		{Table: tableRouting, Priority: general, Match: match, Goto: tableTunnel},
		{
			Table: tableTunnel, Priority: general, Match: match,
			Do: []openflow.Action{
				openflow.Set(openflow.EthSrc(sys.MAC(m.Gateway))), openflow.Set(openflow.EthDst(sys.MAC(other.Gateway))),
				openflow.Set(openflow.TunnelID(segment)), openflow.Set(openflow.TunnelDst(other.Addr)), openflow.Output(tunnel),
			},
		},
	}
}

// external hands to the node what is for no pod: it routes, and translates
// where it must. ICMP is dropped, as SONA does. What is for pods that are not
// here goes nowhere.
func external(m machine) []openflow.Flow {
	gateway := append(ip(), openflow.IPv4Dst(host(m.Gateway)))
	return []openflow.Flow{
		{Table: tableRouting, Priority: special, Match: gateway, Goto: tableExternal},
		{Table: tableRouting, Priority: general, Match: append(ip(), openflow.IPv4Dst(m.Range))},
		{Table: tableRouting, Priority: otherwise, Match: ip(), Goto: tableExternal},
		{Table: tableExternal, Priority: special, Match: append(ip(), openflow.IPProto(openflow.ProtocolICMP))},
		{
			Table: tableExternal, Priority: general, Match: ip(),
			Do: []openflow.Action{openflow.Set(openflow.EthDst(sys.MAC(m.Gateway))), openflow.Output(openflow.PortLocal)},
		},
	}
}

func arp() openflow.Match { return openflow.Match{openflow.EthType(openflow.EtherARP)} }
func ip() openflow.Match  { return openflow.Match{openflow.EthType(openflow.EtherIPv4)} }

func host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// byDatapath finds a switch by its number.
func (p plan) byDatapath(number uint64) (machine, bool) {
	i := slices.IndexFunc(p.Switches, func(m machine) bool { return m.Datapath == number })
	if i < 0 {
		return machine{}, false
	}
	return p.Switches[i], true
}

// owner is who has an address, by its hardware address: a pod or a gateway of
// any node.
func (p plan) knows(a netip.Addr) bool {
	for _, m := range p.Switches {
		if m.Gateway == a || slices.ContainsFunc(m.Pods, func(p pod) bool { return p.Addr == a }) {
			return true
		}
	}
	return false
}
