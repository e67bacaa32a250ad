package openflow

import (
	"encoding/binary"
	"net/netip"
)

// Ports that are not of a device (section 7.2.1).
const (
	PortIn         uint32 = 0xfffffff8 // the one that the packet came in by
	PortController uint32 = 0xfffffffd
	PortLocal      uint32 = 0xfffffffe // the bridge's own device
	PortAny        uint32 = 0xffffffff
)

// GroupAll and GroupAny stand for all groups, and for no condition on them.
const (
	GroupAll uint32 = 0xfffffffc
	GroupAny uint32 = 0xffffffff
)

// Action is one thing that is done to a packet, as it is on the wire.
type Action []byte

// The types of actions (section 7.2.5), and Nicira's.
const (
	actionOutput       = 0
	actionGroup        = 22
	actionSetField     = 25
	actionExperimenter = 0xffff

	nicira        = 0x00002320
	niciraMove    = 6
	niciraConnect = 35
	niciraNAT     = 36
)

func action(kind uint16, size int) Action {
	b := binary.BigEndian.AppendUint16(nil, kind)
	return binary.BigEndian.AppendUint16(b, uint16(size)) //nolint:gosec // actions are short
}

// extension begins an action of Nicira's, whose length end fills in.
func extension(subtype uint16) Action {
	b := action(actionExperimenter, 0)
	b = binary.BigEndian.AppendUint32(b, nicira)
	return binary.BigEndian.AppendUint16(b, subtype)
}

func (a Action) end() Action {
	a = pad(a, padded(len(a)))
	binary.BigEndian.PutUint16(a[2:], uint16(len(a))) //nolint:gosec // actions are short
	return a
}

// Output sends the packet out by a port; to the controller whole.
func Output(port uint32) Action {
	const size, whole = 16, 0xffff
	b := binary.BigEndian.AppendUint32(action(actionOutput, size), port)
	return pad(binary.BigEndian.AppendUint16(b, whole), size)
}

// ToGroup hands the packet to a group.
func ToGroup(id uint32) Action {
	const size = 8
	return binary.BigEndian.AppendUint32(action(actionGroup, size), id)
}

// Set gives a field a value.
func Set(v Value) Action { return Action(v.append(action(actionSetField, 0))).end() }

// move copies the whole of one field to another of the same size.
func move(from, to Field) Action {
	b := binary.BigEndian.AppendUint16(extension(niciraMove), 8*uint16(from.Size))
	b = binary.BigEndian.AppendUint32(b, 0) // both from their first bit
	b = binary.BigEndian.AppendUint32(b, from.header(false))
	return Action(binary.BigEndian.AppendUint32(b, to.header(false))).end()
}

// SenderToTarget makes the receiver of a frame, and of the ARP message in it,
// of its sender.
func SenderToTarget() []Action {
	return []Action{move(ethSrc(), ethDst()), move(arpSHA(), arpTHA()), move(arpSPA(), arpTPA())}
}

// Connection hands the packet to connection tracking; it goes on, with its
// state known, in a table.
type Connection struct {
	Zone   uint16
	Commit bool // make a new connection known
	Table  uint8
	// NAT translates the packet as the connection is; with To, a new
	// connection's destination becomes To.
	NAT bool
	To  netip.AddrPort
}

// Action is the connection's on the wire.
func (c Connection) Action() Action {
	var flags uint16
	if c.Commit {
		flags = 1
	}
	b := binary.BigEndian.AppendUint16(extension(niciraConnect), flags)
	b = binary.BigEndian.AppendUint32(b, 0) // the zone is a number
	b = binary.BigEndian.AppendUint16(b, c.Zone)
	b = append(b, c.Table, 0, 0, 0, 0, 0) // no helper for any protocol
	if c.NAT {
		b = append(b, nat(c.To)...)
	}
	return Action(b).end()
}

func nat(to netip.AddrPort) Action {
	const destination, address, port = 1 << 1, 1 << 0, 1 << 4
	b := append(extension(niciraNAT), 0, 0)
	if !to.IsValid() {
		return append(b, 0, 0, 0, 0).end()
	}
	b = binary.BigEndian.AppendUint16(b, destination)
	b = binary.BigEndian.AppendUint16(b, address|port)
	b = append(b, to.Addr().AsSlice()...)
	return Action(binary.BigEndian.AppendUint16(b, to.Port())).end()
}

func join(actions []Action) []byte {
	var b []byte
	for _, a := range actions {
		b = append(b, a...)
	}
	return b
}
