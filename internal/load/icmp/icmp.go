// Package icmp is ICMP echo for the load engine: what ping does, with the
// engine's schedules and histograms.
package icmp

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/windtunnel/windtunnel/internal/flow"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Name is the protocol's name in studies.
const Name = "icmp"

const (
	defaultSize = 56 // as ping's
	header      = 8
	maxSize     = 65507
)

// Types of messages, of IPv4 and IPv6.
const (
	echoRequest4 = 8
	echoReply4   = 0
	echoRequest6 = 128
	echoReply6   = 129
)

// Config is the protocol's part of a load.
type Config struct {
	Size int `json:"size,omitempty" jsonschema:"minimum=0,maximum=65507,default=56" jsonschema_description:"Bytes of an echo request after its header of 8."`
}

// Protocol makes sessions of ICMP echo.
type Protocol struct{ config Config }

var (
	_ load.Networker = Protocol{}
	_ load.Anonymous = Protocol{}
)

// Plugin is the catalog entry.
func Plugin() model.Plugin[load.Protocol] {
	return model.Plugin[load.Protocol]{
		Name:    Name,
		Summary: "ICMP echo, as ping sends it",
		Config:  Config{},
		New:     New,
	}
}

// New reads a configuration.
func New(config json.RawMessage) (load.Protocol, error) {
	c := Config{Size: defaultSize}
	if err := model.ReadConfig(config, &c); err != nil {
		return nil, err
	}
	if c.Size < 0 || c.Size > maxSize {
		return nil, &model.ConfigError{Key: "size", Text: fmt.Sprintf("of %d bytes: must be 0 to %d", c.Size, maxSize)}
	}
	return Protocol{c}, nil
}

// Network is ICMP.
func (Protocol) Network() load.Network { return load.ICMP }

// Anonymous is true: an echo reply says nothing of who sent it.
func (Protocol) Anonymous() bool { return true }

// Prepare builds the bytes of the request once. It fails where ICMP sockets may
// not be opened.
func (p Protocol) Prepare(_ context.Context, to load.Peer) (func() load.Session, error) {
	if len(to.Targets) == 0 {
		return nil, errors.New("ICMP: no target")
	}
	at := to.Targets[0].Addr().Unmap()
	conn, err := load.DialICMP(at)
	if err == nil {
		err = conn.Close()
	}
	if err != nil {
		return nil, err
	}
	request := make([]byte, header+p.config.Size)
	flow.Fill(request[header:])
	s := session{request: request, reply: echoReply4}
	if request[0] = echoRequest4; at.Is6() {
		request[0], s.reply = echoRequest6, echoReply6
	}
	return func() load.Session {
		mine := s
		_, _ = rand.Read(mine.id[:]) // never fails
		return &mine
	}, nil
}

// session sends one echo request at a time. Its identifier and number tell the
// reply from all else that a raw socket receives; on a ping socket, the kernel
// replaces the identifier and hands over nothing else.
type session struct {
	request []byte
	reply   byte
	id      [2]byte
	number  uint16
	busy    bool
	answer  load.Answer
}

var _ load.Session = (*session)(nil)

// Open begins with nothing.
func (s *session) Open(dst []byte) []byte {
	s.busy = false
	return dst
}

// Begin appends the request.
func (s *session) Begin(dst []byte, id uint32) []byte {
	s.number++
	s.busy, s.answer = true, load.Answer{ID: id}
	at := len(dst)
	dst = append(dst, s.request...)
	b := dst[at:]
	copy(b[4:], s.id[:])
	binary.BigEndian.PutUint16(b[6:], s.number)
	binary.BigEndian.PutUint16(b[2:], 0)
	binary.BigEndian.PutUint16(b[2:], checksum(b)) // of IPv6 the kernel computes it
	return dst
}

// Feed takes one packet. One that is not the reply that is waited for is none
// of ours: a raw socket receives whatever the peer sends.
func (s *session) Feed(b []byte, got []load.Answer) ([]load.Answer, error) {
	b, raw := withoutHeader(b)
	if len(b) < header || b[0] != s.reply || b[1] != 0 || !s.busy || binary.BigEndian.Uint16(b[6:]) != s.number {
		return got, nil
	}
	// A raw socket of IPv6 has no IP header either, so there the number decides.
	if raw && [2]byte(b[4:6]) != s.id {
		return got, nil
	}
	s.busy = false
	if len(b) != len(s.request) {
		s.answer.Failure = model.CausePayload
	}
	s.answer.BodyBytes, s.answer.Sum = int64(len(b)-header), load.Sum(0, b[header:])
	return append(got, s.answer), nil
}

// withoutHeader removes the IPv4 header that raw sockets hand over. No ICMP
// message that matters begins with 0x45 to 0x4f.
func withoutHeader(b []byte) (message []byte, raw bool) {
	const words = 4
	if len(b) == 0 || b[0]>>4 != 4 {
		return b, false
	}
	size := int(b[0]&0xf) * words
	return b[min(size, len(b)):], true
}

// checksum is the Internet checksum, RFC 1071.
func checksum(b []byte) uint16 {
	var sum uint32
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) > 0 {
		sum += uint32(b[0]) << 8
	}
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
