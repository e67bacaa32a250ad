// Package h2 is the client's end of HTTP/2 (RFC 9113) for the load engine:
// framing, flow control and HPACK (RFC 7541) of a connection that sends one
// request over and over. It does no I/O and, once a connection is under way,
// allocates nothing.
//
// Two things make it cheap. The request is encoded ahead: on a new connection
// its fields enter the peer's dynamic table, and every further request is a
// byte for each of them. And the peer is allowed no dynamic table of its own,
// so that a header block means the same wherever it is: one that is equal to the
// last is not decoded again.
package h2

import (
	"encoding/binary"
	"errors"
)

// Preface is what a client begins a connection with.
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// MaxStreams is how many requests at a time one connection may carry.
const MaxStreams = 1024

const (
	frameHeader  = 9
	maxFrame     = 16384    // of frames to us: the default, which nobody may go under
	maxHeader    = 64 << 10 // of the header blocks of one answer, as sent and as decoded
	window       = 1 << 30  // ours, of the connection and of each stream
	windowUpdate = window / 2
	firstWindow  = 65535 // of both sides, until settings say otherwise
	maxWindow    = 1<<31 - 1
	maxStreamID  = 1<<31 - 1
	maxTable     = 4096 // of the peer's dynamic table that we use
	// maxIdle bounds the frames that ask for a reply and bring no answer any
	// nearer, such as pings; a peer's keep-alive takes days to get there.
	maxIdle = 10_000
)

// What ends a connection: the peer does not keep to HTTP/2.
var (
	errFrame    = errors.New("the frame is malformed")
	errTooLong  = errors.New("the frame is longer than was allowed")
	errHeader   = errors.New("the header is over 64 KiB")
	errUnasked  = errors.New("the frame is of a stream that was never opened")
	errSettings = errors.New("the connection does not begin with settings: the peer does not speak HTTP/2")
	errSetting  = errors.New("a setting is out of its range")
	errWindow   = errors.New("the flow-control window was overrun")
	errPush     = errors.New("the peer pushes, which it was told not to")
	errFlood    = errors.New("the peer sends control frames without end")
	errHPACK    = errors.New("the header is not encoded by HPACK as was agreed")
)

// What ends one request, as Receiver.Failed has it.
var (
	// ErrReset says that the peer has given the request up.
	ErrReset = errors.New("reset by the peer")
	// ErrMalformed says that the answer is not one of HTTP.
	ErrMalformed = errors.New("the answer is malformed")
)

// Receiver takes what Feed has understood. The slot is that of Begin; after
// what ends the answer, and after Failed, it is free.
type Receiver interface {
	// Header takes the answer's header, then perhaps its trailer. It is valid
	// during the call.
	Header(slot uint32, h *Header, end bool)
	// Data takes a part of the body; perhaps none, at the end.
	Data(slot uint32, b []byte, end bool)
	// Failed takes what ended one request: ErrReset or ErrMalformed.
	Failed(slot uint32, err error)
}

// status is that of a slot.
type status uint8

const (
	unused  status = iota
	waiting        // begun, but nothing was sent yet
	open
)

// stream is a request under way.
type stream struct {
	id       uint32
	status   status
	headed   bool  // its final header has come
	sent     int   // of the request's body
	window   int64 // for sending
	received int64 // of the body, since its window was last raised
	header   int   // of all its header blocks
}

// Conn is one connection at a time. Slots are numbers below the streams that
// it was made for.
type Conn struct {
	request *Request
	decoder *decoder
	streams []stream
	own     [][]byte // by slot: a field of one request alone, encoded; empty: none
	ring    []uint32 // slot+1 by stream id>>1; 0: none
	queue   []uint32 // slots that wait, the first first

	settled  bool // the peer's settings have come
	draining bool // no further request may be sent
	next     uint32
	active   int // streams open
	limit    uint32
	head     []byte // of the next request: its HEADERS
	table    uint32 // the peer's dynamic table, as far as we use it
	begun    bool   // the table may have something in it

	peerWindow int64 // of a new stream
	window     int64 // of the connection, for sending
	peerFrame  int
	left       int64 // of our window of the connection
	consumed   int64 // since it was last raised
	idle       int

	kept    []byte // a frame that is not whole yet
	replies []byte // frames to send
	cursor  int    // where to go on sending bodies
	stalled int    // streams whose body is not all sent
	data    data
	block   block
}

// data is the DATA frame under way.
type data struct {
	under   bool
	slot    int // -1: of a stream that is closed
	id      uint32
	content int
	padding int
	end     bool
}

// block is the header block under way, of several frames.
type block struct {
	id   uint32 // 0: none
	end  bool
	kept []byte
}

// New makes a connection for a request, of so many streams at a time. Wanted
// are names of header fields, in lower case, whose values Header.Values has.
func New(r *Request, streams int, wanted ...string) *Conn {
	streams = min(max(streams, 1), MaxStreams)
	ring := 2
	for ring < 4*streams {
		ring *= 2
	}
	return &Conn{
		request: r, decoder: newDecoder(wanted),
		streams: make([]stream, streams), own: make([][]byte, streams), ring: make([]uint32, ring), queue: make([]uint32, 0, streams),
		kept: make([]byte, 0, 512), replies: make([]byte, 0, 256),
	}
}

// Open forgets the last connection and appends what a new one begins with.
func (c *Conn) Open(dst []byte) []byte {
	clear(c.streams)
	clear(c.ring)
	c.queue, c.kept, c.replies = c.queue[:0], c.kept[:0], c.replies[:0]
	c.settled, c.draining, c.begun = false, false, false
	c.next, c.active, c.limit = 1, 0, maxStreamID
	c.head, c.table = nil, maxTable
	c.peerWindow, c.window, c.peerFrame = firstWindow, firstWindow, maxFrame
	c.left, c.consumed, c.idle, c.stalled, c.cursor = window, 0, 0, 0, 0
	c.data = data{}
	c.block.id, c.block.kept = 0, c.block.kept[:0]

	dst = append(dst, Preface...)
	dst = appendFrame(dst, 4*6, frameSettings, 0, 0)
	dst = appendSetting(dst, settingTableSize, 0)
	dst = appendSetting(dst, settingPush, 0)
	dst = appendSetting(dst, settingWindow, window)
	dst = appendSetting(dst, settingHeaderList, maxHeader)
	dst = appendFrame(dst, 4, frameWindowUpdate, 0, 0)
	return binary.BigEndian.AppendUint32(dst, window-firstWindow)
}

// Begin appends a request, or makes it wait: for the peer's settings, which are
// the first it says and tell how requests may be encoded, for one of the
// streams that the peer allows, or for another connection.
func (c *Conn) Begin(dst []byte, slot uint32) []byte {
	c.own[slot] = c.own[slot][:0]
	return c.begin(dst, slot)
}

// BeginWith is Begin of a request with one more field, which is its own: it
// enters no table. One that does not fit into the header's frame is left out.
func (c *Conn) BeginWith(dst []byte, slot uint32, f Field) []byte {
	c.own[slot] = appendLiteral(c.own[slot][:0], 0, 4, 0, f)
	return c.begin(dst, slot)
}

func (c *Conn) begin(dst []byte, slot uint32) []byte {
	if c.draining || !c.settled || c.active >= int(c.limit) {
		c.streams[slot] = stream{status: waiting}
		c.queue = append(c.queue, slot)
		return dst
	}
	return c.start(dst, slot)
}

// start sends a request. Ids of streams only grow and may be skipped: one whose
// place in the ring is taken is.
func (c *Conn) start(dst []byte, slot uint32) []byte {
	mask := uint32(len(c.ring) - 1) //nolint:gosec // G115: a small size
	id := c.next
	for c.ring[id>>1&mask] != 0 {
		id += 2
	}
	if id > maxStreamID {
		c.draining = true
		c.streams[slot] = stream{status: waiting}
		return dst
	}
	c.next = id + 2
	c.ring[id>>1&mask] = slot + 1
	c.active++
	s := &c.streams[slot]
	*s = stream{id: id, status: open, window: c.peerWindow}

	at := len(dst)
	dst = append(dst, c.head...)
	last := at
	for ; at < len(dst); at += frameHeader + maxFrame { // one frame, hardly ever more
		binary.BigEndian.PutUint32(dst[at+5:], id)
		last = at
	}
	if n := len(dst) - last - frameHeader + len(c.own[slot]); n <= maxFrame {
		dst[last], dst[last+1], dst[last+2] = byte(n>>16), byte(n>>8), byte(n) //nolint:gosec // G115: its bytes
		dst = append(dst, c.own[slot]...)
	}
	if !c.begun {
		c.begun = true
		c.head = c.request.further(c.table)
	}
	if len(c.request.body) == 0 {
		return dst
	}
	c.stalled++
	return c.sendBody(dst, s)
}

// sendBody sends of a body what the windows have room for.
func (c *Conn) sendBody(dst []byte, s *stream) []byte {
	for body := c.request.body; ; {
		n := int(min(int64(len(body)-s.sent), int64(c.peerFrame), s.window, c.window))
		if n <= 0 {
			return dst
		}
		flags := byte(0)
		if s.sent+n == len(body) {
			flags = flagEndStream
		}
		dst = appendFrame(dst, n, frameData, flags, s.id)
		dst = append(dst, body[s.sent:s.sent+n]...)
		s.sent += n
		s.window -= int64(n)
		c.window -= int64(n)
		if flags != 0 {
			c.stalled--
			return dst
		}
	}
}

// Reply appends what there is to send besides requests that are begun: what the
// peer asked for, windows, and what has waited.
func (c *Conn) Reply(dst []byte) []byte {
	dst = append(dst, c.replies...)
	c.replies = c.replies[:0]
	if c.consumed >= windowUpdate {
		dst = appendFrame(dst, 4, frameWindowUpdate, 0, 0)
		dst = binary.BigEndian.AppendUint32(dst, uint32(c.consumed)) //nolint:gosec // G115: at most the window
		c.left += c.consumed
		c.consumed = 0
	}
	if c.stalled > 0 && c.window > 0 {
		for range c.streams { // in turn, so that none starves
			c.cursor = (c.cursor + 1) % len(c.streams)
			if s := &c.streams[c.cursor]; s.status == open && s.sent < len(c.request.body) {
				dst = c.sendBody(dst, s)
			}
		}
	}
	for len(c.queue) > 0 && c.settled && !c.draining && c.active < int(c.limit) {
		slot := c.queue[0]
		c.queue = c.queue[:copy(c.queue, c.queue[1:])]
		dst = c.start(dst, slot)
	}
	return dst
}

// Cancel gives up a request and appends what tells the peer.
func (c *Conn) Cancel(dst []byte, slot uint32) []byte {
	c.Reject(slot)
	return c.Reply(dst)
}

// Reject gives up a request; Reply will tell the peer.
func (c *Conn) Reject(slot uint32) {
	s := &c.streams[slot]
	switch s.status {
	case open:
		c.reset(s.id)
		c.close(s)
	case waiting:
		for i, w := range c.queue {
			if w == slot {
				c.queue = append(c.queue[:i], c.queue[i+1:]...)
				break
			}
		}
	case unused:
	}
	s.status = unused
}

// reset tells the peer that a stream is of no interest any more.
func (c *Conn) reset(id uint32) {
	c.replies = appendFrame(c.replies, 4, frameReset, 0, id)
	c.replies = binary.BigEndian.AppendUint32(c.replies, codeCancel)
}

// close forgets an open stream.
func (c *Conn) close(s *stream) {
	c.ring[s.id>>1&uint32(len(c.ring)-1)] = 0 //nolint:gosec // G115: a small size
	c.active--
	if s.sent < len(c.request.body) {
		c.stalled--
	}
	s.status = unused
}

// finish closes a stream of which the answer is whole. The peer may have
// answered before it had all of the body, and does not want the rest.
func (c *Conn) finish(s *stream) {
	c.idle = 0
	if s.sent < len(c.request.body) {
		c.reset(s.id)
	}
	c.close(s)
}

// Drained says that the connection is to be replaced, as it carries no further
// request: the peer has said so, or the numbers of streams are used up.
func (c *Conn) Drained() bool { return c.draining && c.active == 0 }

// Unprocessed says that a request, by the peer's word or because it was not
// sent, has not been processed, and never will be on this connection.
func (c *Conn) Unprocessed(slot uint32) bool {
	return c.draining && c.streams[slot].status == waiting
}
