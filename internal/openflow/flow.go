package openflow

import (
	"encoding/binary"
	"fmt"
)

// TableAll stands for all tables, where flows are deleted or read.
const TableAll uint8 = 0xff

// Flow is what is done with packets that match, in one table.
type Flow struct {
	Table    uint8
	Priority uint16
	Cookie   uint64
	Match    Match
	Do       []Action
	Goto     uint8 // the next table, a later one; 0: none
}

// Add is the body of a flow-mod that adds the flow, or replaces the one with
// the same match (section 7.3.4.1).
func (f Flow) Add() []byte {
	const add = 0
	b := flowMod(f.Table, add, f.Priority, f.Cookie, 0)
	b = f.Match.append(b)
	const goTo, apply, head = 1, 4, 8
	if len(f.Do) > 0 {
		do := join(f.Do)
		b = binary.BigEndian.AppendUint16(b, apply)
		b = binary.BigEndian.AppendUint16(b, uint16(head+len(do))) //nolint:gosec // a message bounds it
		b = append(append(b, 0, 0, 0, 0), do...)
	}
	if f.Goto != 0 {
		b = binary.BigEndian.AppendUint16(b, goTo)
		b = binary.BigEndian.AppendUint16(b, head)
		b = append(b, f.Goto, 0, 0, 0)
	}
	return b
}

// DeleteFlows is the body of a flow-mod that deletes all flows with a cookie.
func DeleteFlows(cookie uint64) []byte {
	const remove = 3
	return Match{}.append(flowMod(TableAll, remove, 0, cookie, ^uint64(0)))
}

// flowMod is everything before the match.
func flowMod(table, command uint8, priority uint16, cookie, mask uint64) []byte {
	const noBuffer = ^uint32(0)
	b := binary.BigEndian.AppendUint64(nil, cookie)
	b = binary.BigEndian.AppendUint64(b, mask)
	b = append(b, table, command, 0, 0, 0, 0) // no timeouts
	b = binary.BigEndian.AppendUint16(b, priority)
	b = binary.BigEndian.AppendUint32(b, noBuffer)
	b = binary.BigEndian.AppendUint32(b, PortAny)
	b = binary.BigEndian.AppendUint32(b, GroupAny)
	return append(b, 0, 0, 0, 0) // no flags
}

// Group is a select group: each packet takes one of its buckets, packets with
// the same addresses and ports always the same.
type Group struct {
	ID      uint32
	Buckets [][]Action
}

// Put is the body of a group-mod that makes the group what it is to be, whether
// there is one or not (Open vSwitch's own command).
func (g Group) Put() []byte {
	const addOrModify, selecting, head, weight = 0x8000, 1, 16, 1
	b := binary.BigEndian.AppendUint16(nil, addOrModify)
	b = append(b, selecting, 0)
	b = binary.BigEndian.AppendUint32(b, g.ID)
	for _, actions := range g.Buckets {
		do := join(actions)
		b = binary.BigEndian.AppendUint16(b, uint16(head+len(do))) //nolint:gosec // a message bounds it
		b = binary.BigEndian.AppendUint16(b, weight)
		b = binary.BigEndian.AppendUint32(b, PortAny)
		b = binary.BigEndian.AppendUint32(b, GroupAny)
		b = append(append(b, 0, 0, 0, 0), do...)
	}
	return b
}

// PacketOut is the body of a message that sends a packet out.
func PacketOut(from uint32, data []byte, do ...Action) []byte {
	const noBuffer = ^uint32(0)
	actions := join(do)
	b := binary.BigEndian.AppendUint32(nil, noBuffer)
	b = binary.BigEndian.AppendUint32(b, from)
	b = binary.BigEndian.AppendUint16(b, uint16(len(actions))) //nolint:gosec // actions are short
	b = append(append(b, 0, 0, 0, 0, 0, 0), actions...)
	return append(b, data...)
}

// PacketIn is a packet that a switch has sent up.
type PacketIn struct {
	Table uint8
	Port  uint32 // that it came in by
	Data  []byte
}

// ParsePacketIn reads one (section 7.4.1).
func ParsePacketIn(body []byte) (p PacketIn, err error) {
	r := &reader{b: body}
	r.take(4 + 2 + 1) // buffer, length, reason
	p.Table = r.u8()
	r.take(8) // cookie
	m := r.match()
	r.take(2)
	if p.Data = r.b; r.err == nil {
		p.Port, r.err = m.port()
	}
	if r.err != nil {
		return PacketIn{}, fmt.Errorf("reading a packet-in of %d bytes: %w", len(body), r.err)
	}
	return p, nil
}

// Features is what a switch says of itself.
type Features struct {
	Datapath uint64 // its number
	Tables   uint8
}

// ParseFeatures reads them (section 7.3.1).
func ParseFeatures(body []byte) (f Features, err error) {
	r := &reader{b: body}
	f.Datapath = r.u64()
	r.take(4)
	f.Tables = r.u8()
	if r.err != nil {
		return Features{}, fmt.Errorf("reading a switch's features of %d bytes: %w", len(body), r.err)
	}
	return f, nil
}

// SwitchError is what a switch refuses.
type SwitchError struct {
	Type, Code uint16
	// Refused is the type of the message, where the switch says so.
	Refused Type
}

// Error names the type and code of section 7.5.4.
func (e *SwitchError) Error() string {
	return fmt.Sprintf("the switch refuses a message of type %d: error type %d, code %d", e.Refused, e.Type, e.Code)
}

// ParseError reads one.
func ParseError(body []byte) error {
	r := &reader{b: body}
	e := &SwitchError{Type: r.u16(), Code: r.u16()}
	if r.err != nil {
		return fmt.Errorf("reading a switch's error of %d bytes: %w", len(body), r.err)
	}
	if len(r.b) >= 2 {
		e.Refused = Type(r.b[1])
	}
	return e
}
