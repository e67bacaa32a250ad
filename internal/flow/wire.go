// Package flow is what the TCP and UDP loads and their server agree on: the
// messages, and how bytes are moved in bulk and datagrams are counted. It is
// its own package because both ends need it, and plug-ins never import each
// other.
//
// # TCP
//
// A connection begins with the client's Hello, 32 bytes, which no HTTP request
// begins with. The server answers with a Welcome: its clock and its identity.
//
// In an exchange the client then sends requests of the size it has announced,
// and the server answers each, when it is whole, with as many bytes as were
// asked for. With Once it closes the connection after the first.
//
// A stream goes one way. The client may first ask for the server's clock with
// SyncByte, as often as it likes, and starts the stream with GoByte. In a
// stream up, the server says every Hello.Every how much it has received so
// far, and once more at the end, in Reports: so what is under way, or waits in
// a proxy, does not count, and because they come back on the connection itself
// no balancer can take them elsewhere. A stream down ends when the client
// closes its direction; the server's last bytes are then a Trailer.
//
// # UDP
//
// Every datagram has a header of its own; see Datagram. The server sends
// nothing but answers, never more bytes than the request had, and remembers at
// most 64 flows.
package flow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Magic begins every message to the server. No HTTP request begins with a zero.
const Magic = "\x00WT1"

// Sizes of messages on TCP, in bytes.
const (
	HelloSize  = 32
	ReportSize = 16
	welcomeMin = 13
)

// MaxSize is the largest request or response of an exchange, and MaxBlock the
// largest block of a stream, in bytes.
const (
	MaxSize  = 64 << 20
	MaxBlock = 16 << 20
)

// The bytes that a client sends before a stream.
const (
	SyncByte = 's'
	GoByte   = 'g'
)

// Kind is what a TCP connection is for.
type Kind byte

// The kinds.
const (
	Exchange Kind = 1 + iota
	Up            // a stream from the client
	Down          // a stream to the client
)

// Hello is a client's first message.
type Hello struct {
	Kind     Kind
	Once     bool // exchange: close after the first
	Sendfile bool // stream down: send from a file in memory, without copying
	Discard  bool // stream up: receive without copying
	Request  uint32
	Response uint32
	Block    uint32        // of a stream: bytes per write, and the most per read
	Every    time.Duration // stream up: between reports, in whole microseconds
	Rate     uint64        // stream down: most bytes per second; 0: no limit
}

const (
	flagOnce     = 1
	flagSendfile = 2
	flagDiscard  = 4
)

var errHello = errors.New("the bytes are no flow hello")

// Append appends the message to dst.
func (h *Hello) Append(dst []byte) []byte {
	dst = append(dst, Magic...)
	flags := byte(0)
	if h.Once {
		flags |= flagOnce
	}
	if h.Sendfile {
		flags |= flagSendfile
	}
	if h.Discard {
		flags |= flagDiscard
	}
	dst = append(dst, byte(h.Kind), flags, 0, 0)
	if h.Kind == Exchange {
		dst = binary.BigEndian.AppendUint32(dst, h.Request)
		dst = binary.BigEndian.AppendUint32(dst, h.Response)
	} else {
		dst = binary.BigEndian.AppendUint32(dst, h.Block)
		dst = binary.BigEndian.AppendUint32(dst, uint32(h.Every.Microseconds())) //nolint:gosec // G115: some milliseconds
	}
	dst = binary.BigEndian.AppendUint64(dst, h.Rate)
	return binary.BigEndian.AppendUint64(dst, 0)
}

// ParseHello reads and checks the HelloSize bytes of a hello.
func ParseHello(b []byte) (Hello, error) {
	if len(b) < HelloSize || string(b[:4]) != Magic {
		return Hello{}, errHello
	}
	h := Hello{
		Kind: Kind(b[4]), Once: b[5]&flagOnce != 0, Sendfile: b[5]&flagSendfile != 0, Discard: b[5]&flagDiscard != 0,
		Rate: binary.BigEndian.Uint64(b[16:]),
	}
	one, two := binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:])
	switch h.Kind {
	case Exchange:
		h.Request, h.Response = one, two
		if one < 1 || two < 1 || one > MaxSize || two > MaxSize {
			return h, fmt.Errorf("a flow hello for requests of %d and responses of %d bytes: must be 1 to %d", one, two, MaxSize)
		}
	case Up, Down:
		h.Block, h.Every = one, time.Duration(two)*time.Microsecond
		if one < 1 || one > MaxBlock || h.Every < time.Millisecond {
			return h, fmt.Errorf("a flow hello for a stream in blocks of %d bytes, reports every %s: must be 1 to %d, and 1 ms or more", one, h.Every, MaxBlock)
		}
	default:
		return h, fmt.Errorf("a flow hello of the unknown kind %d", h.Kind)
	}
	return h, nil
}

// AppendWelcome appends the server's first message: its clock, in nanoseconds
// of no matter which beginning, and its identity, cut at 255 bytes.
func AppendWelcome(dst []byte, clock int64, identity string) []byte {
	identity = identity[:min(len(identity), 255)]
	dst = append(dst, Magic...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(clock)) //nolint:gosec // G115: bits are kept
	dst = append(dst, byte(len(identity)))                  //nolint:gosec // G115: at most 255
	return append(dst, identity...)
}

// ParseWelcome reads a welcome at the beginning of b; n is its length, 0 as
// long as it is not whole. The identity is a part of b.
func ParseWelcome(b []byte) (clock int64, identity []byte, n int, err error) {
	if k := min(len(b), len(Magic)); string(b[:k]) != Magic[:k] {
		return 0, nil, 0, errors.New("the peer does not speak the flow protocol")
	}
	if len(b) < welcomeMin {
		return 0, nil, 0, nil
	}
	n = welcomeMin + int(b[welcomeMin-1])
	if len(b) < n {
		return 0, nil, 0, nil
	}
	return int64(binary.BigEndian.Uint64(b[4:])), b[welcomeMin:n], n, nil //nolint:gosec // G115: bits are kept
}

// Report says how much of a stream had been received when.
type Report struct {
	At    int64 // on the receiver's clock
	Bytes uint64
}

// Append appends the message to dst.
func (r Report) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.At)) //nolint:gosec // G115: bits are kept
	return binary.BigEndian.AppendUint64(dst, r.Bytes)
}

// ParseReport reads ReportSize bytes.
func ParseReport(b []byte) Report {
	return Report{At: int64(binary.BigEndian.Uint64(b)), Bytes: binary.BigEndian.Uint64(b[8:])} //nolint:gosec // G115: bits are kept
}

// Trailer is what the sender of a stream knows about its connection.
type Trailer struct {
	Info        Info
	Retransmits []Report // how many segments, in Bytes, by when
}

const (
	trailerFixed = 4 + 8 + 4 + 16 + 4 + 4
	maxSamples   = 2048
	// TrailerMax bounds a trailer's length in bytes.
	TrailerMax = maxSamples*ReportSize + trailerFixed
)

// Append appends the message to dst. It is read from its end.
func (t *Trailer) Append(dst []byte) []byte {
	samples := t.Retransmits[:min(len(t.Retransmits), maxSamples)]
	for _, r := range samples {
		dst = r.Append(dst)
	}
	var name [16]byte
	copy(name[:], t.Info.Congestion)
	dst = binary.BigEndian.AppendUint32(dst, t.Info.Retransmits)
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.Info.RTT)) //nolint:gosec // G115: not negative
	dst = binary.BigEndian.AppendUint32(dst, t.Info.MSS)
	dst = append(dst, name[:]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(samples))) //nolint:gosec // G115: at most 2048
	return append(dst, Magic...)
}

// ParseTrailer reads the trailer at the end of b, and says how long it is.
func ParseTrailer(b []byte) (t Trailer, n int, err error) {
	if len(b) < trailerFixed || string(b[len(b)-4:]) != Magic {
		return t, 0, errors.New("the stream does not end with a trailer")
	}
	f := b[len(b)-trailerFixed:]
	samples := binary.BigEndian.Uint32(f[32:])
	if n = trailerFixed + int(min(samples, maxSamples+1))*ReportSize; samples > maxSamples || n > len(b) {
		return t, 0, errors.New("the stream's trailer is cut off")
	}
	t.Info = Info{
		Retransmits: binary.BigEndian.Uint32(f), RTT: time.Duration(binary.BigEndian.Uint64(f[4:])), //nolint:gosec // G115: bits are kept
		MSS: binary.BigEndian.Uint32(f[12:]), Congestion: cString(f[16:32]),
	}
	for at := len(b) - n; at < len(b)-trailerFixed; at += ReportSize {
		t.Retransmits = append(t.Retransmits, ParseReport(b[at:]))
	}
	return t, n, nil
}

func cString(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}
