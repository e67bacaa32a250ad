package openflow

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// The classes of fields (section 7.2.3.2), Nicira's among them.
const (
	classNicira = 0x0001
	classBasic  = 0x8000
)

// Field is what can be matched, moved and set: its header without length.
type Field struct {
	Class uint16
	ID    uint8
	Size  uint8 // of the value, in bytes
}

// header is the field's on the wire; one with a mask has twice the length.
func (f Field) header(masked bool) uint32 {
	h := uint32(f.Class)<<16 | uint32(f.ID)<<9 | uint32(f.Size)
	if masked {
		h = uint32(f.Class)<<16 | uint32(f.ID)<<9 | 1<<8 | 2*uint32(f.Size)
	}
	return h
}

// Fields of OpenFlow 1.3 (section 7.2.3.7).
func inPort() Field  { return Field{classBasic, 0, 4} }
func ethDst() Field  { return Field{classBasic, 3, 6} }
func ethSrc() Field  { return Field{classBasic, 4, 6} }
func ethType() Field { return Field{classBasic, 5, 2} }
func ipProto() Field { return Field{classBasic, 10, 1} }
func ipv4Src() Field { return Field{classBasic, 11, 4} }
func ipv4Dst() Field { return Field{classBasic, 12, 4} }
func tcpSrc() Field  { return Field{classBasic, 13, 2} }
func tcpDst() Field  { return Field{classBasic, 14, 2} }
func udpSrc() Field  { return Field{classBasic, 15, 2} }
func udpDst() Field  { return Field{classBasic, 16, 2} }
func arpOp() Field   { return Field{classBasic, 21, 2} }
func arpSPA() Field  { return Field{classBasic, 22, 4} }
func arpTPA() Field  { return Field{classBasic, 23, 4} }
func arpSHA() Field  { return Field{classBasic, 24, 6} }
func arpTHA() Field  { return Field{classBasic, 25, 6} }
func tunID() Field   { return Field{classBasic, 38, 8} }

// Fields of Nicira's.
func tunDst() Field  { return Field{classNicira, 32, 4} }
func ctState() Field { return Field{classNicira, 105, 4} }
func ipFrag() Field  { return Field{classNicira, 26, 1} }

// Value is a field with what it is, or is to be. Mask, if any, says which bits.
type Value struct {
	Field Field
	Bytes []byte
	Mask  []byte
}

func (v Value) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, v.Field.header(v.Mask != nil))
	return append(append(b, v.Bytes...), v.Mask...)
}

func u16(f Field, v uint16) Value {
	return Value{Field: f, Bytes: binary.BigEndian.AppendUint16(nil, v)}
}

func u32(f Field, v uint32) Value {
	return Value{Field: f, Bytes: binary.BigEndian.AppendUint32(nil, v)}
}

func addr(f Field, p netip.Prefix) Value {
	v := Value{Field: f, Bytes: p.Masked().Addr().AsSlice()}
	if p.Bits() < p.Addr().BitLen() {
		v.Mask = net.CIDRMask(p.Bits(), p.Addr().BitLen())
	}
	return v
}

// The protocols that are matched.
const (
	EtherIPv4 = 0x0800
	EtherARP  = 0x0806

	ProtocolICMP = 1
	ProtocolTCP  = 6
	ProtocolUDP  = 17
)

// InPort is the port that a packet came in by.
func InPort(port uint32) Value { return u32(inPort(), port) }

// EthDst is the hardware address that a frame is for.
func EthDst(mac net.HardwareAddr) Value { return Value{Field: ethDst(), Bytes: mac} }

// EthSrc is the hardware address that a frame is from.
func EthSrc(mac net.HardwareAddr) Value { return Value{Field: ethSrc(), Bytes: mac} }

// EthType is what a frame carries.
func EthType(t uint16) Value { return u16(ethType(), t) }

// IPProto is what an IP packet carries.
func IPProto(p uint8) Value { return Value{Field: ipProto(), Bytes: []byte{p}} }

// IPv4Src is where an IP packet is from.
func IPv4Src(p netip.Prefix) Value { return addr(ipv4Src(), p) }

// IPv4Dst is where an IP packet is to go.
func IPv4Dst(p netip.Prefix) Value { return addr(ipv4Dst(), p) }

// Fragment is a part of an IP packet, the first or a later one. Ports are in the
// first only; later ones match as if theirs were 0 (Nicira, OFPC_FRAG_NORMAL).
func Fragment() Value { return Value{Field: ipFrag(), Bytes: []byte{1}, Mask: []byte{1}} }

// TCPSrc is the sender's port.
func TCPSrc(port uint16) Value { return u16(tcpSrc(), port) }

// TCPDst is the receiver's port.
func TCPDst(port uint16) Value { return u16(tcpDst(), port) }

// UDPSrc is the sender's port.
func UDPSrc(port uint16) Value { return u16(udpSrc(), port) }

// UDPDst is the receiver's port.
func UDPDst(port uint16) Value { return u16(udpDst(), port) }

// ARPOp is 1 of requests, 2 of replies.
func ARPOp(op uint16) Value { return u16(arpOp(), op) }

// ARPTarget is the address that is asked for.
func ARPTarget(a netip.Addr) Value { return addr(arpTPA(), netip.PrefixFrom(a, a.BitLen())) }

// ARPSender is the address of who asks or answers.
func ARPSender(a netip.Addr) Value { return addr(arpSPA(), netip.PrefixFrom(a, a.BitLen())) }

// ARPSenderMAC is its hardware address.
func ARPSenderMAC(mac net.HardwareAddr) Value { return Value{Field: arpSHA(), Bytes: mac} }

// TunnelDst is the other end of a tunnel, of a packet that is sent over it.
func TunnelDst(a netip.Addr) Value { return addr(tunDst(), netip.PrefixFrom(a, a.BitLen())) }

// TunnelID is the tunnel's key or VNI.
func TunnelID(id uint64) Value {
	return Value{Field: tunID(), Bytes: binary.BigEndian.AppendUint64(nil, id)}
}

// Bits of a connection's state (Nicira).
const (
	CTNew     uint32 = 0x01
	CTTracked uint32 = 0x20
)

// CTState matches the bits of a connection's state that the mask names.
func CTState(state, mask uint32) Value {
	v := u32(ctState(), state)
	v.Mask = binary.BigEndian.AppendUint32(nil, mask)
	return v
}

// Match is all values that a packet must have; none: any packet.
type Match []Value

// append writes a match, padded (section 7.2.3).
func (m Match) append(b []byte) []byte {
	const oxm, head = 1, 4
	var fields []byte
	for _, v := range m {
		fields = v.append(fields)
	}
	b = binary.BigEndian.AppendUint16(b, oxm)
	b = binary.BigEndian.AppendUint16(b, uint16(head+len(fields))) //nolint:gosec // matches are short; a message bounds them
	b = append(b, fields...)
	return pad(b, len(b)+padded(head+len(fields))-head-len(fields))
}

// match reads a match with its padding.
func (r *reader) match() Match {
	const head = 4
	_ = r.u16() // the type: there is but one
	size := int(r.u16())
	fields := r.sub(size, head)
	r.take(padded(size) - size)
	var m Match
	for len(fields.b) > 0 && fields.err == nil {
		h := fields.u32()
		v := Value{Field: Field{Class: uint16(h >> 16), ID: uint8(h >> 9 & 0x7f), Size: uint8(h)}} //nolint:gosec // cut on purpose
		if h>>8&1 != 0 {
			v.Field.Size /= 2
			v.Bytes = slices.Clone(fields.take(int(v.Field.Size)))
			v.Mask = slices.Clone(fields.take(int(v.Field.Size)))
		} else {
			v.Bytes = slices.Clone(fields.take(int(v.Field.Size)))
		}
		m = append(m, v)
	}
	if fields.err != nil {
		r.err = fields.err
	}
	return m
}

// port finds the port that a packet came in by.
func (m Match) port() (uint32, error) {
	for _, v := range m {
		if v.Field == inPort() {
			return binary.BigEndian.Uint32(v.Bytes), nil
		}
	}
	return 0, fmt.Errorf("none of its %d fields is the port that it came in by", len(m))
}

// Addrs are the addresses that packets must be from and to; zero: any. ok is
// false where the match asks for neither.
func (m Match) Addrs() (src, dst netip.Addr, ok bool) {
	for _, v := range m {
		switch v.Field {
		case ipv4Src():
			src, ok = netip.AddrFrom4([4]byte(v.Bytes)), true
		case ipv4Dst():
			dst, ok = netip.AddrFrom4([4]byte(v.Bytes)), true
		}
	}
	return src, dst, ok
}
