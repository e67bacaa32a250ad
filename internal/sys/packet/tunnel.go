package packet

import (
	"encoding/binary"
	"fmt"
)

// The names of what packets are carried in.
const (
	IPIP   = "IPIP"
	GRE    = "GRE"
	GENEVE = "GENEVE"
	VXLAN  = "VXLAN"
	// WireGuard's packets show that they are, but not what is in them.
	WireGuard = "WireGuard"
)

// UDP ports that tell what is inside: Flannel's and IANA's of VXLAN, IANA's of
// GENEVE, WireGuard's usual one.
const (
	portVXLANFlannel = 8472
	portVXLAN        = 4789
	portGENEVE       = 6081
	portWireGuard    = 51820
)

const (
	protocolIPIP = 4
	protocolUDP  = 17
	protocolGRE  = 47
	etherIPv4    = 0x0800
	etherFrame   = 0x6558 // an Ethernet frame inside GRE or GENEVE
	ipv4Header   = 20
	udpHeader    = 8
	ether        = 14
)

// Encapsulation is what a packet is carried in.
type Encapsulation struct {
	Name string // zero: nothing
	Port uint16 // UDP's, of VXLAN, GENEVE and WireGuard
	VNI  uint32 // of VXLAN and GENEVE
}

// String is e.g. "VXLAN, VNI 1, port 8472".
func (e Encapsulation) String() string {
	switch e.Name {
	case VXLAN, GENEVE:
		return fmt.Sprintf("%s, VNI %d, port %d", e.Name, e.VNI, e.Port)
	case WireGuard:
		return fmt.Sprintf("%s, port %d", e.Name, e.Port)
	}
	return e.Name
}

// Decapsulate looks into an IPv4 packet that carries another, by RFC 2003
// (IPIP), 2784 (GRE), 7348 (VXLAN) or 8926 (GENEVE), or something sealed by
// WireGuard. inner is the IPv4 packet inside, as far as it was read; nil where
// it cannot be seen or is none. ok is false of a packet that carries nothing.
func Decapsulate(p []byte) (e Encapsulation, inner []byte, ok bool) {
	protocol, body := payload(p)
	switch protocol {
	case protocolIPIP:
		return Encapsulation{Name: IPIP}, ipv4(body), true
	case protocolGRE:
		if kind, rest, valid := greBody(body); valid {
			return Encapsulation{Name: GRE}, frameOrPacket(kind, rest), true
		}
	case protocolUDP:
		if len(body) >= udpHeader {
			return datagram(binary.BigEndian.Uint16(body[2:]), body[udpHeader:])
		}
	}
	return e, nil, false
}

// payload is what an IPv4 packet carries, where it is its first fragment.
func payload(p []byte) (protocol byte, body []byte) {
	if ipv4(p) == nil {
		return 0, nil
	}
	header := int(p[0]&0xf) * 4
	offset := binary.BigEndian.Uint16(p[6:]) & 0x1fff
	if header < ipv4Header || len(p) < header || offset != 0 {
		return 0, nil
	}
	return p[9], p[header:]
}

func ipv4(p []byte) []byte {
	if len(p) < ipv4Header || p[0]>>4 != 4 {
		return nil
	}
	return p
}

// greBody skips a GRE header with its optional fields.
func greBody(b []byte) (kind uint16, rest []byte, ok bool) {
	const checksum, key, sequence = 0x8000, 0x2000, 0x1000
	if len(b) < 4 {
		return 0, nil, false
	}
	flags, size := binary.BigEndian.Uint16(b), 4
	for _, field := range []uint16{checksum, key, sequence} {
		if flags&field != 0 {
			size += 4
		}
	}
	if flags&7 != 0 || len(b) < size {
		return 0, nil, false
	}
	return binary.BigEndian.Uint16(b[2:]), b[size:], true
}

func datagram(port uint16, b []byte) (e Encapsulation, inner []byte, ok bool) {
	const header = 8
	if len(b) < header {
		return e, nil, false
	}
	vni := binary.BigEndian.Uint32(b[4:]) >> 8
	switch port {
	case portVXLAN, portVXLANFlannel:
		const hasVNI = 0x08
		if b[0]&hasVNI == 0 {
			return e, nil, false
		}
		return Encapsulation{Name: VXLAN, Port: port, VNI: vni}, frameOrPacket(etherFrame, b[header:]), true
	case portGENEVE:
		options := int(b[0]&0x3f) * 4
		if b[0]>>6 != 0 || len(b) < header+options {
			return e, nil, false
		}
		return Encapsulation{Name: GENEVE, Port: port, VNI: vni}, frameOrPacket(binary.BigEndian.Uint16(b[2:]), b[header+options:]), true
	case portWireGuard:
		// A message's type is 1 to 4, and its reserved bytes are zero.
		if b[0] < 1 || b[0] > 4 || b[1]|b[2]|b[3] != 0 {
			return e, nil, false
		}
		return Encapsulation{Name: WireGuard, Port: port}, nil, true
	}
	return e, nil, false
}

// frameOrPacket is the IPv4 packet in what has that EtherType; nil if it is none.
func frameOrPacket(kind uint16, b []byte) []byte {
	if kind == etherFrame {
		if len(b) < ether {
			return nil
		}
		kind, b = binary.BigEndian.Uint16(b[12:]), b[ether:]
	}
	if kind != etherIPv4 {
		return nil
	}
	return ipv4(b)
}
