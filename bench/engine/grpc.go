package main

import (
	"encoding/binary"
	"slices"
)

// HTTP/2 as far as the fast server speaks it (RFC 9113): it answers every
// stream that the client has ended with the same three frames, and reads no
// header. Clients that it serves are trusted to call the health service.
const (
	frameHeader = 9

	frameData         = 0x0
	frameHeaders      = 0x1
	frameSettings     = 0x4
	framePing         = 0x6
	frameWindowUpdate = 0x8

	flagEndStream  = 0x1
	flagACK        = 0x1
	flagEndHeaders = 0x4

	preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	// refill is how many bytes of bodies are taken before the connection's
	// window is opened again by as much: half of the initial one.
	refill = 32 << 10
)

// grpcConn is what must be kept between reads of one connection.
type grpcConn struct {
	rest     []byte // a frame that has not come in whole
	greeted  bool
	consumed uint32
}

// grpcAnswer is what follows a frame's stream: headers (":status: 200" by
// index, the content type as a literal that is not to be kept), the message {status: SERVING}, and
// trailers with "grpc-status: 0".
type grpcAnswer struct{ headers, data, trailers []byte }

func newGRPCAnswer() grpcAnswer {
	return grpcAnswer{
		headers:  []byte("\x88\x00\x0ccontent-type\x10application/grpc"),
		data:     []byte("\x00\x00\x00\x00\x02\x08\x01"),
		trailers: []byte("\x00\x0bgrpc-status\x010"),
	}
}

func appendFrame(dst []byte, kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	dst = append(dst, byte(n>>16), byte(n>>8), byte(n), kind, flags) //nolint:gosec // G115: a frame is short
	dst = binary.BigEndian.AppendUint32(dst, stream)
	return append(dst, payload...)
}

// feed takes bytes as they came in and appends what is to be sent; requests is
// how many of them were answered.
func (c *grpcConn) feed(in []byte, a grpcAnswer, dst []byte) (requests int, out []byte) {
	c.rest = append(c.rest, in...)
	b := c.rest
	if !c.greeted {
		if len(b) < len(preface) {
			return 0, dst
		}
		b, c.greeted = b[len(preface):], true
		dst = appendFrame(dst, frameSettings, 0, 0, nil)
	}
	for len(b) >= frameHeader {
		length := int(b[0])<<16 | int(b[1])<<8 | int(b[2])
		if len(b) < frameHeader+length {
			break
		}
		kind, flags, stream := b[3], b[4], binary.BigEndian.Uint32(b[5:])
		payload := b[frameHeader : frameHeader+length]
		b = b[frameHeader+length:]
		switch {
		case kind == frameSettings && flags&flagACK == 0:
			dst = appendFrame(dst, frameSettings, flagACK, 0, nil)
		case kind == framePing && flags&flagACK == 0:
			dst = appendFrame(dst, framePing, flagACK, 0, payload)
		case kind == frameData || kind == frameHeaders:
			if kind == frameData {
				c.consumed += uint32(length) //nolint:gosec // G115: 24 bits
			}
			if flags&flagEndStream != 0 {
				requests++
				dst = appendFrame(dst, frameHeaders, flagEndHeaders, stream, a.headers)
				dst = appendFrame(dst, frameData, 0, stream, a.data)
				dst = appendFrame(dst, frameHeaders, flagEndHeaders|flagEndStream, stream, a.trailers)
			}
		}
	}
	if c.consumed >= refill {
		dst = appendFrame(dst, frameWindowUpdate, 0, 0, binary.BigEndian.AppendUint32(nil, c.consumed))
		c.consumed = 0
	}
	c.rest = slices.Delete(c.rest, 0, len(c.rest)-len(b))
	return requests, dst
}
