package flow

import (
	"encoding/binary"
	"errors"
	"time"
)

// DatagramKind is what a datagram is.
type DatagramKind byte

// The kinds. A Request is answered by an Answer; a Begin by a Begun, which
// makes room for a flow of Data; an Ask by an Account of what has come.
const (
	Request DatagramKind = 1 + iota
	Answer
	Begin
	Begun
	Data
	Ask
	Account
)

// Sizes of datagrams, in bytes. Questions are as long as their answers, so that
// the server can never be made to send more than it was sent.
const (
	ExchangeHeader = 64
	DataHeader     = 36
	BeginSize      = 64
	AccountSize    = 512
	MaxDatagram    = 65507
	// MaxIdentity bounds an identity in an exchange; what is longer is cut.
	MaxIdentity = 40

	accountFixed = 160
	// PageIntervals is how many intervals one Account has room for.
	PageIntervals = (AccountSize - accountFixed) / 40
)

// MaxIntervals bounds what the server remembers of one flow.
const MaxIntervals = 4096

// Datagram is what every datagram begins with:
//
//	0   magic
//	4   kind
//	5   length of the identity (Answer)
//	8   number: of the request, or of the flow
//
// Requests and answers have, from byte 16, the identity, and from byte 64 the
// body. Data have the number of the datagram, the sender's clock and the
// interval they belong to, 0 for the warm-up.
type Datagram struct {
	Kind   DatagramKind
	Number uint64
}

var errDatagram = errors.New("the datagram is not of the flow protocol")

// ParseDatagram reads the beginning.
func ParseDatagram(b []byte) (Datagram, error) {
	if len(b) < 16 || string(b[:4]) != Magic {
		return Datagram{}, errDatagram
	}
	return Datagram{Kind: DatagramKind(b[4]), Number: binary.BigEndian.Uint64(b[8:])}, nil
}

// Put writes the beginning over b's.
func (d Datagram) Put(b []byte) {
	copy(b, Magic)
	b[4], b[5], b[6], b[7] = byte(d.Kind), 0, 0, 0
	binary.BigEndian.PutUint64(b[8:], d.Number)
}

// PutResponseSize says in a Request how long the answer shall be: never longer
// than the request.
func PutResponseSize(b []byte, size int) { binary.BigEndian.PutUint16(b[6:], uint16(size)) } //nolint:gosec // G115: at most MaxDatagram

// ToAnswer turns a Request into its answer, in place; none if it asks for more
// than it brought.
func ToAnswer(b []byte, identity string) []byte {
	if len(b) < ExchangeHeader {
		return nil
	}
	size := int(binary.BigEndian.Uint16(b[6:]))
	if size < ExchangeHeader || size > len(b) {
		return nil
	}
	b[4] = byte(Answer)
	clear(b[16:ExchangeHeader])
	b[5] = byte(copy(b[16:16+MaxIdentity], identity)) //nolint:gosec // G115: at most 40
	return b[:size]
}

// ParseAnswer reads an answer to request number.
func ParseAnswer(b []byte) (number uint64, identity, body []byte, err error) {
	d, err := ParseDatagram(b)
	if err != nil || d.Kind != Answer || len(b) < ExchangeHeader || b[5] > MaxIdentity {
		return 0, nil, nil, errDatagram
	}
	return d.Number, b[16 : 16+b[5]], b[ExchangeHeader:], nil
}

// PutData writes the header of datagram k of a flow.
func PutData(b []byte, id, k uint64, sent int64, interval uint32) {
	Datagram{Kind: Data, Number: id}.Put(b)
	binary.BigEndian.PutUint64(b[16:], k)
	binary.BigEndian.PutUint64(b[24:], uint64(sent)) //nolint:gosec // G115: bits are kept
	binary.BigEndian.PutUint32(b[32:], interval)
}

// ParseData reads the header of a Data datagram.
func ParseData(b []byte) (k uint64, sent int64, interval uint32, ok bool) {
	if len(b) < DataHeader {
		return 0, 0, 0, false
	}
	return binary.BigEndian.Uint64(b[16:]), int64(binary.BigEndian.Uint64(b[24:])), binary.BigEndian.Uint32(b[32:]), true //nolint:gosec // G115: bits are kept
}

// Interval is what came of one interval's datagrams. Which those are says the
// datagram itself, so that no clocks have to agree.
type Interval struct {
	Received   uint64 // with duplicates
	Duplicated uint64
	Reordered  uint64        // came after one with a higher number
	Largest    uint64        // bytes of the largest datagram
	Jitter     time.Duration // at the interval's last datagram
}

// State is an Account without its intervals.
type State struct {
	// Received counts the whole flow, warm-up included; Data and nothing else.
	Received uint64
	// SocketDrops counts datagrams for which the server's socket had no room,
	// and the others what its interface received and dropped, all since Begin.
	SocketDrops, InterfacePackets, InterfaceDrops uint64
	Buffer                                        uint64 // bytes that the socket was given
	Interface                                     string // where the flow's Begin came in; empty: not known
	KernelStamps                                  bool   // jitter is by the kernel's receive stamps
	Identity                                      string
}

// PutAsk makes a question for the intervals from first on.
func PutAsk(b []byte, id uint64, first uint32) {
	Datagram{Kind: Ask, Number: id}.Put(b)
	binary.BigEndian.PutUint32(b[16:], first)
}

// AskedFor is the first interval that an Ask wants.
func AskedFor(b []byte) uint32 { return binary.BigEndian.Uint32(b[16:]) }

// PutAccount writes an answer to an Ask of AccountSize bytes over it: the state
// and as many intervals as there is room for.
func PutAccount(b []byte, id uint64, s *State, first uint32, of []Interval) {
	clear(b[:AccountSize])
	Datagram{Kind: Account, Number: id}.Put(b)
	for i, v := range []uint64{s.Received, s.SocketDrops, s.InterfacePackets, s.InterfaceDrops, s.Buffer} {
		binary.BigEndian.PutUint64(b[16+8*i:], v)
	}
	copy(b[56:72], s.Interface)
	if s.KernelStamps {
		b[72] = 1
	}
	b[73] = byte(copy(b[74:74+MaxIdentity], s.Identity)) //nolint:gosec // G115: at most 40
	from := min(int(first), len(of))
	page := of[from:min(from+PageIntervals, len(of))]
	binary.BigEndian.PutUint32(b[116:], uint32(from))      //nolint:gosec // G115: at most MaxIntervals
	binary.BigEndian.PutUint32(b[120:], uint32(len(page))) //nolint:gosec // G115: a few
	for i := range page {
		p := &page[i]
		for j, v := range []uint64{p.Received, p.Duplicated, p.Reordered, p.Largest, uint64(p.Jitter)} { //nolint:gosec // G115: not negative
			binary.BigEndian.PutUint64(b[accountFixed+40*i+8*j:], v)
		}
	}
}

// ParseAccount reads an Account; its intervals go to into, as far as that has
// room for them.
func ParseAccount(b []byte, into []Interval) (s State, first, n uint32, err error) {
	d, err := ParseDatagram(b)
	if err != nil || d.Kind != Account || len(b) < AccountSize || b[73] > MaxIdentity {
		return s, 0, 0, errDatagram
	}
	u64 := func(at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }
	s = State{
		Received: u64(16), SocketDrops: u64(24), InterfacePackets: u64(32), InterfaceDrops: u64(40), Buffer: u64(48),
		Interface: cString(b[56:72]), KernelStamps: b[72] == 1, Identity: string(b[74 : 74+b[73]]),
	}
	first, n = binary.BigEndian.Uint32(b[116:]), binary.BigEndian.Uint32(b[120:])
	if n > PageIntervals || int(first)+int(n) > len(into) {
		return s, 0, 0, errDatagram
	}
	for i := range int(n) {
		at := accountFixed + 40*i
		into[int(first)+i] = Interval{
			Received: u64(at), Duplicated: u64(at + 8), Reordered: u64(at + 16), Largest: u64(at + 24), Jitter: time.Duration(u64(at + 32)), //nolint:gosec // G115: bits are kept
		}
	}
	return s, first, n, nil
}

// PutBegin asks for room for a flow of so many intervals, with the warm-up.
func PutBegin(b []byte, id uint64, intervals uint32) {
	Datagram{Kind: Begin, Number: id}.Put(b)
	binary.BigEndian.PutUint32(b[16:], intervals)
}

// IntervalsOf is how many intervals a Begin announces.
func IntervalsOf(b []byte) uint32 { return binary.BigEndian.Uint32(b[16:]) }
