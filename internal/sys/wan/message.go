package wan

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// NFQUEUE's messages and attributes: linux/netfilter/nfnetlink_queue.h.
const (
	msgPacket  = 0
	msgVerdict = 1
	msgConfig  = 2

	attrPacketHeader  = 1
	attrVerdictHeader = 2
	attrTimestamp     = 4
	attrPhysOutDev    = 8
	attrPayload       = 10
	attrFullLength    = 13
	attrHardware      = 9

	configCommand = 1
	configParams  = 2
	configMaxLen  = 3
	configMask    = 4
	configFlags   = 5

	commandBind   = 1
	copyPacket    = 2
	flagSegments  = 1 << 2 // NFQA_CFG_F_GSO: large segments come whole
	verdictDrop   = 0
	verdictAccept = 1

	netlinkHeader = unix.SizeofNlMsghdr
	headerLength  = netlinkHeader + 4 // and nfgenmsg
	attrHeader    = 4
	ethernet      = 14
	etherTypeIPv4 = 0x0800
)

// packet is what a message tells of a packet.
type packet struct {
	id      uint32
	length  int    // from the IP header on
	arrived int64  // CLOCK_REALTIME in nanoseconds; 0: not known
	device  int    // port that it leaves by
	source  []byte // hardware address that it has come from; nil: not known
	payload []byte
}

var errNoPacket = errors.New("no packet message")

// parsePacket reads a message of the kernel.
func parsePacket(b []byte) (p packet, err error) {
	if len(b) < headerLength || b[4] != msgPacket || b[5] != unix.NFNL_SUBSYS_QUEUE {
		return p, errNoPacket
	}
	numbered := false
	for rest := b[headerLength:]; len(rest) >= attrHeader; {
		length := int(binary.NativeEndian.Uint16(rest))
		if length < attrHeader || length > len(rest) {
			return p, errors.New("an attribute is cut off")
		}
		kind := binary.NativeEndian.Uint16(rest[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
		if value := rest[attrHeader:length]; len(value) >= least(kind) {
			p.take(kind, value)
			numbered = numbered || kind == attrPacketHeader
		}
		rest = rest[min((length+3)&^3, len(rest)):]
	}
	if !numbered {
		return p, errors.New("a packet without its number")
	}
	p.length = max(p.length, len(p.payload))
	return p, nil
}

// least is how long an attribute is at least; shorter ones are not looked at.
func least(kind uint16) int {
	switch kind {
	case attrTimestamp:
		return 16
	case attrHardware:
		return 10
	case attrPayload:
		return 0
	}
	return 4
}

func (p *packet) take(kind uint16, value []byte) {
	switch kind {
	case attrPacketHeader:
		p.id = binary.BigEndian.Uint32(value)
	case attrTimestamp:
		const micro, second = 1_000, 1_000_000_000
		p.arrived = int64(binary.BigEndian.Uint64(value))*second + int64(binary.BigEndian.Uint64(value[8:]))*micro //nolint:gosec // a clock
	case attrPhysOutDev:
		p.device = int(binary.BigEndian.Uint32(value))
	case attrPayload:
		p.payload = value
	case attrFullLength:
		p.length = int(binary.BigEndian.Uint32(value))
	case attrHardware:
		p.source = value[4:10]
	}
}

// message appends a request to the queue subsystem.
func message(b []byte, kind, flags, queue uint16, attrs []byte) []byte {
	b = binary.NativeEndian.AppendUint32(b, uint32(headerLength+len(attrs))) //nolint:gosec // short
	b = binary.NativeEndian.AppendUint16(b, unix.NFNL_SUBSYS_QUEUE<<8|kind)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|flags)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0) // sequence, port
	b = append(b, unix.AF_UNSPEC, 0)
	b = binary.BigEndian.AppendUint16(b, queue)
	return append(b, attrs...)
}

func attribute(b []byte, kind uint16, value ...byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(attrHeader+len(value))) //nolint:gosec // short
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// verdict appends what becomes of a packet.
func verdict(b []byte, queue uint16, what, id uint32) []byte {
	var value [8]byte
	binary.BigEndian.PutUint32(value[:], what)
	binary.BigEndian.PutUint32(value[4:], id)
	var attrs [12]byte
	return message(b, msgVerdict, 0, queue, attribute(attrs[:0], attrVerdictHeader, value[:]...))
}

func be32(v uint32) []byte { return binary.BigEndian.AppendUint32(nil, v) }
