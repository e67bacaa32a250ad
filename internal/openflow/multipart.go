package openflow

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// What can be asked for in parts (section 7.3.5).
const (
	partProgram   = 0
	partFlows     = 1
	partPorts     = 4
	partGroups    = 6
	partPortDescs = 13
)

const moreParts = 1

// question is the body of a multipart request.
func question(kind uint16, body []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, kind)
	return append(append(b, 0, 0, 0, 0, 0, 0), body...)
}

// Part is one part of an answer.
type Part struct {
	Kind uint16
	More bool // another follows
	Body []byte
}

// ParsePart reads one.
func ParsePart(body []byte) (p Part, err error) {
	r := &reader{b: body}
	p.Kind = r.u16()
	p.More = r.u16()&moreParts != 0
	r.take(4)
	p.Body = r.b
	if r.err != nil {
		return Part{}, fmt.Errorf("reading a multipart reply of %d bytes: %w", len(body), r.err)
	}
	return p, nil
}

// ParseProgram reads what a switch says that it is (section 7.3.5.1).
func ParseProgram(body []byte) (string, error) {
	const field = 256
	r := &reader{b: body}
	r.take(field) // who made it
	hardware, software := text(r.take(field)), text(r.take(field))
	if r.err != nil {
		return "", fmt.Errorf("reading a switch's description: %w", r.err)
	}
	return hardware + " " + software, nil
}

// text is what comes before the first zero.
func text(b []byte) string {
	before, _, _ := bytes.Cut(b, []byte{0})
	return string(before)
}

// Port is a port of a switch.
type Port struct {
	Number uint32
	Name   string
	Down   bool // by configuration, or for want of a link
}

// portSize is what a port takes on the wire (section 7.2.1).
const portSize = 64

func (r *reader) port() (p Port) {
	const name, rest, downByUser, noLink = 16, 24, 1, 1
	p.Number = r.u32()
	r.take(4 + 6 + 2) // with the hardware address
	p.Name = text(r.take(name))
	config, state := r.u32(), r.u32()
	p.Down = config&downByUser != 0 || state&noLink != 0
	r.take(rest)
	return p
}

// ParsePorts reads descriptions of ports.
func ParsePorts(body []byte) (all []Port, err error) {
	r := &reader{b: body}
	for len(r.b) > 0 && r.err == nil {
		all = append(all, r.port())
	}
	if r.err != nil {
		return nil, fmt.Errorf("reading descriptions of ports: %w", r.err)
	}
	return all, nil
}

// ParsePortStatus reads what has become of a port (section 7.4.3).
func ParsePortStatus(body []byte) (p Port, removed bool, err error) {
	const deleted = 1
	r := &reader{b: body}
	reason := r.u8()
	r.take(7)
	p = r.port()
	if r.err != nil {
		return Port{}, false, fmt.Errorf("reading a port's status: %w", r.err)
	}
	return p, reason == deleted, nil
}

// PortCounters are what a port has carried, as the switch sees it; what it does
// not count is zero.
type PortCounters struct {
	Port                     uint32
	ReceivedPackets, Packets uint64 // Packets and Bytes were sent out
	ReceivedBytes, Bytes     uint64
	Dropped                  uint64 // of both directions
}

// ParsePortCounters reads them (section 7.3.5.6).
func ParsePortCounters(body []byte) (all []PortCounters, err error) {
	const rest = 6*8 + 8
	r := &reader{b: body}
	for len(r.b) > 0 && r.err == nil {
		c := PortCounters{Port: r.u32()}
		r.take(4)
		c.ReceivedPackets, c.Packets = counted(r.u64()), counted(r.u64())
		c.ReceivedBytes, c.Bytes = counted(r.u64()), counted(r.u64())
		c.Dropped = counted(r.u64()) + counted(r.u64())
		r.take(rest)
		all = append(all, c)
	}
	if r.err != nil {
		return nil, fmt.Errorf("reading counters of ports: %w", r.err)
	}
	return all, nil
}

// counted is a counter, or zero where the switch says that it has none.
func counted(n uint64) uint64 {
	if n == ^uint64(0) {
		return 0
	}
	return n
}

// FlowCounters are a flow, without what it does, and what it has matched.
type FlowCounters struct {
	Flow           Flow
	Packets, Bytes uint64
}

// ParseFlowCounters reads them (section 7.3.5.2).
func ParseFlowCounters(body []byte) (all []FlowCounters, err error) {
	const read = 48
	r := &reader{b: body}
	for len(r.b) > 0 && r.err == nil {
		size := int(r.u16())
		one := r.sub(size, 2)
		f := FlowCounters{Flow: Flow{Table: one.u8()}}
		one.take(1 + 8) // its age
		f.Flow.Priority = one.u16()
		one.take(2 + 2 + 2 + 4) // timeouts, flags
		f.Flow.Cookie, f.Packets, f.Bytes = one.u64(), one.u64(), one.u64()
		f.Flow.Match = one.match()
		if one.err != nil || size < read {
			r.err = errShort
			break
		}
		all = append(all, f)
	}
	if r.err != nil {
		return nil, fmt.Errorf("reading counters of flows: %w", r.err)
	}
	return all, nil
}

// GroupCounters are what a group has handed to each of its buckets.
type GroupCounters struct {
	ID      uint32
	Packets uint64
	Buckets []uint64 // packets
}

// ParseGroupCounters reads them (section 7.3.5.9).
func ParseGroupCounters(body []byte) (all []GroupCounters, err error) {
	r := &reader{b: body}
	for len(r.b) > 0 && r.err == nil {
		one := r.sub(int(r.u16()), 2)
		one.take(2)
		g := GroupCounters{ID: one.u32()}
		one.take(4 + 4)
		g.Packets = one.u64()
		one.take(8 + 4 + 4)
		for len(one.b) > 0 && one.err == nil {
			g.Buckets = append(g.Buckets, one.u64())
			one.take(8)
		}
		if one.err != nil {
			r.err = one.err
			break
		}
		all = append(all, g)
	}
	if r.err != nil {
		return nil, fmt.Errorf("reading counters of groups: %w", r.err)
	}
	return all, nil
}

// allFlows asks for the flows of all tables.
func allFlows() []byte {
	b := []byte{TableAll, 0, 0, 0}
	b = binary.BigEndian.AppendUint32(b, PortAny)
	b = binary.BigEndian.AppendUint32(b, GroupAny)
	b = append(b, make([]byte, 4+8+8)...) // any cookie
	return Match{}.append(b)
}

// one asks for one port or group, or for what stands for all.
func one(number uint32) []byte { return append(binary.BigEndian.AppendUint32(nil, number), 0, 0, 0, 0) }
