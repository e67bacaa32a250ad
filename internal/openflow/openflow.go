// Package openflow is the part of OpenFlow 1.3 that a controller of Open
// vSwitch needs, from both ends' messages: sessions, flows and groups, ports,
// packets that are sent up and down, and counters; with the few of Nicira's
// extensions that Open vSwitch has for connection tracking and tunnels.
//
// Sections are of the OpenFlow Switch Specification 1.3.5; the extensions are
// those of Open vSwitch's include/openflow/nicira-ext.h.
package openflow

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// version is OpenFlow 1.3's number on the wire.
const version = 4

// Type says what a message is (section 7.1).
type Type uint8

// The types in use.
const (
	TypeHello            Type = 0
	TypeError            Type = 1
	TypeEchoRequest      Type = 2
	TypeEchoReply        Type = 3
	TypeFeaturesRequest  Type = 5
	TypeFeaturesReply    Type = 6
	TypePacketIn         Type = 10
	TypePortStatus       Type = 12
	TypePacketOut        Type = 13
	TypeFlowMod          Type = 14
	TypeGroupMod         Type = 15
	TypeMultipartRequest Type = 18
	TypeMultipartReply   Type = 19
	TypeBarrierRequest   Type = 20
	TypeBarrierReply     Type = 21
)

// Message is one message without its header. XID joins answers to questions.
type Message struct {
	Version uint8
	Type    Type
	XID     uint32
	Body    []byte
}

// headerSize is a message's header: version, type, length and transaction.
const headerSize = 8

// maxMessage is what the header's length can say.
const maxMessage = 1<<16 - 1

// Append writes a message after b.
func (m Message) Append(b []byte) ([]byte, error) {
	size := headerSize + len(m.Body)
	if size > maxMessage {
		return b, fmt.Errorf("an OpenFlow message of type %d has %d bytes; %d is the most", m.Type, size, maxMessage)
	}
	b = append(b, version, byte(m.Type))
	b = binary.BigEndian.AppendUint16(b, uint16(size))
	b = binary.BigEndian.AppendUint32(b, m.XID)
	return append(b, m.Body...), nil
}

// Read reads one message.
func Read(r *bufio.Reader) (Message, error) {
	var head [headerSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Message{}, err
	}
	size := int(binary.BigEndian.Uint16(head[2:]))
	if size < headerSize {
		return Message{}, fmt.Errorf("an OpenFlow message says that it has %d bytes, less than its header", size)
	}
	m := Message{Version: head[0], Type: Type(head[1]), XID: binary.BigEndian.Uint32(head[4:]), Body: make([]byte, size-headerSize)}
	if _, err := io.ReadFull(r, m.Body); err != nil {
		return Message{}, fmt.Errorf("reading an OpenFlow message of %d bytes: %w", size, err)
	}
	return m, nil
}

// hello offers OpenFlow 1.3 and nothing else (section 7.5.1).
func hello() []byte {
	const versionBitmap, size = 1, 8
	b := binary.BigEndian.AppendUint16(nil, versionBitmap)
	b = binary.BigEndian.AppendUint16(b, size)
	return binary.BigEndian.AppendUint32(b, 1<<version)
}

// errShort is the cause of all messages that end before they should.
var errShort = errors.New("it is cut short")

// reader takes a message apart. After the first thing that is not there, all
// that is read is zero and err says so.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.b, r.err = nil, errShort
		return make([]byte, max(n, 0)&maxMessage)
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) u8() uint8   { return r.take(1)[0] }
func (r *reader) u16() uint16 { return binary.BigEndian.Uint16(r.take(2)) }
func (r *reader) u32() uint32 { return binary.BigEndian.Uint32(r.take(4)) }
func (r *reader) u64() uint64 { return binary.BigEndian.Uint64(r.take(8)) }

// sub is a part of the message with a length of its own, of which so many
// bytes have been read.
func (r *reader) sub(size, read int) *reader {
	if size < read {
		r.b, r.err = nil, errShort
		return &reader{err: errShort}
	}
	b := r.take(size - read)
	return &reader{b: b, err: r.err}
}

// padded is n rounded up to the 8 bytes that OpenFlow aligns to.
func padded(n int) int { return (n + 7) / 8 * 8 }

func pad(b []byte, to int) []byte { return append(b, make([]byte, to-len(b))...) }
