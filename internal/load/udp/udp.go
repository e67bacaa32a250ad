// Package udp is plain UDP for the load engine: requests and answers of one
// datagram each, and flows of datagrams at a fixed rate.
package udp

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/windtunnel/windtunnel/internal/flow"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Name is the protocol's name in studies.
const Name = "udp"

// The modes.
const (
	modeRequest = "request"
	modeFlow    = "flow"
)

// rawHeader is what a raw request begins with: its number.
const rawHeader = 8

// Config is the protocol's part of a load.
type Config struct {
	Mode     string  `json:"mode,omitempty" jsonschema:"enum=request,enum=flow,default=request" jsonschema_description:"request: requests and answers of one datagram each, as netperf's UDP_RR. flow: datagrams one way at a fixed rate, which the receiver counts."`
	Request  int     `json:"request,omitempty" jsonschema:"minimum=8,maximum=65507,default=64" jsonschema_description:"Bytes of a request; at least 64, or 8 if raw."`
	Response int     `json:"response,omitempty" jsonschema:"minimum=8,maximum=65507,default=64" jsonschema_description:"Bytes of an answer: at least 64 and at most those of the request."`
	Raw      bool    `json:"raw,omitempty" jsonschema_description:"Send plain numbered datagrams, for a peer that returns what it gets: any echo server."`
	Size     int     `json:"size,omitempty" jsonschema:"minimum=36,maximum=65507" jsonschema_description:"Bytes of a flow's datagrams, without headers; default: what fits the path's MTU (MTU - 28, IPv6: - 48)."`
	Bitrate  float64 `json:"bitrate,omitempty" jsonschema:"minimum=0" jsonschema_description:"Bits per second of a flow, headers not counted, instead of the load's rate."`
	GSO      bool    `json:"gso,omitempty" jsonschema_description:"Let the kernel cut flows' datagrams from large buffers: higher rates, but in bursts and not paced one by one; reported as offload."`
}

// Plugin is the catalog entry.
func Plugin() model.Plugin[load.Protocol] {
	return model.Plugin[load.Protocol]{
		Name:    Name,
		Summary: "UDP: request and response, and flows at a fixed rate with loss and jitter",
		Config:  Config{},
		New:     New,
	}
}

// New reads a configuration.
func New(config json.RawMessage) (load.Protocol, error) {
	var c Config
	if err := model.ReadConfig(config, &c); err != nil {
		return nil, err
	}
	if err := c.fill(); err != nil {
		return nil, err
	}
	if c.Mode == modeFlow {
		return Datagrams{exchanges{c}}, nil
	}
	return exchanges{c}, nil
}

// fill takes the defaults for what is not given, and returns all that cannot be.
func (c *Config) fill() error {
	c.Mode = cmp.Or(c.Mode, modeRequest)
	isFlow := c.Mode == modeFlow
	var errs []error
	for _, key := range []struct {
		name  string
		given bool
		of    bool
	}{
		{"request", c.Request != 0, !isFlow},
		{"response", c.Response != 0, !isFlow},
		{"raw", c.Raw, !isFlow},
		{"size", c.Size != 0, isFlow},
		{"bitrate", c.Bitrate != 0, isFlow},
		{"gso", c.GSO, isFlow},
	} {
		if key.given && !key.of {
			errs = append(errs, &model.ConfigError{Key: key.name, Text: "has no meaning in mode " + c.Mode})
		}
	}
	c.Request = cmp.Or(c.Request, flow.ExchangeHeader)
	if c.Raw {
		c.Response = cmp.Or(c.Response, c.Request)
	}
	c.Response = cmp.Or(c.Response, flow.ExchangeHeader)
	return errors.Join(append(errs, c.bounds()...)...)
}

// bounds are all values that cannot be.
func (c *Config) bounds() (errs []error) {
	check := func(ok bool, key, format string, args ...any) {
		if !ok {
			errs = append(errs, &model.ConfigError{Key: key, Text: fmt.Sprintf(format, args...)})
		}
	}
	least := flow.ExchangeHeader
	if c.Raw {
		least = rawHeader
	}
	check(c.Mode == modeRequest || c.Mode == modeFlow, "mode", "%q is neither request nor flow", c.Mode)
	check(c.Request >= least && c.Request <= flow.MaxDatagram, "request", "of %d bytes: must be %d to %d", c.Request, least, flow.MaxDatagram)
	check(c.Response >= least && c.Response <= c.Request, "response", "of %d bytes: must be %d to %d, as servers never answer with more than they were sent", c.Response, least, c.Request)
	check(!c.Raw || c.Response == c.Request, "response", "of %d bytes: an echo of a raw request is as long as that, %d", c.Response, c.Request)
	check(c.Size == 0 || c.Size >= flow.DataHeader && c.Size <= flow.MaxDatagram, "size", "of %d bytes: must be %d to %d", c.Size, flow.DataHeader, flow.MaxDatagram)
	check(c.Bitrate >= 0 && c.Bitrate <= 1e15, "bitrate", "of %g bit/s: must be 0 to 1e15", c.Bitrate)
	return errs
}

// exchanges are requests and answers of one datagram each.
type exchanges struct{ config Config }

var _ load.Networker = exchanges{}

// Network is UDP.
func (exchanges) Network() load.Network { return load.UDP }

// Anonymous says whether answers come without an identity.
func (p exchanges) Anonymous() bool { return p.config.Raw }

// Prepare builds the bytes of the request once.
func (p exchanges) Prepare(context.Context, load.Peer) (func() load.Session, error) {
	c := &p.config
	request := make([]byte, c.Request)
	flow.Fill(request)
	if !c.Raw {
		clear(request[:flow.ExchangeHeader])
	}
	return func() load.Session { return &session{config: c, request: request} }, nil
}

// session sends one datagram at a time, and knows its answer by its number.
type session struct {
	config  *Config
	request []byte
	number  uint64
	busy    bool
	answer  load.Answer
}

var _ load.Session = (*session)(nil)

var errSize = errors.New("the answer has another size than was asked for")

// Open begins with nothing.
func (s *session) Open(dst []byte) []byte {
	s.busy = false
	return dst
}

// Begin appends the request.
func (s *session) Begin(dst []byte, id uint32) []byte {
	s.number++
	s.busy, s.answer = true, load.Answer{ID: id, BodyBytes: int64(s.config.Response)}
	at := len(dst)
	dst = append(dst, s.request...)
	b := dst[at:]
	if s.config.Raw {
		binary.BigEndian.PutUint64(b, s.number)
		return dst
	}
	flow.Datagram{Kind: flow.Request, Number: s.number}.Put(b)
	flow.PutResponseSize(b, s.config.Response)
	return dst
}

// Feed takes one datagram. One that is no answer, or the answer to a request
// that has been given up, is none of ours.
func (s *session) Feed(b []byte, got []load.Answer) ([]load.Answer, error) {
	number, identity, body, ok := s.parse(b)
	if !ok || !s.busy || number != s.number {
		return got, nil
	}
	if len(b) != s.config.Response {
		return got, errSize
	}
	s.busy = false
	s.answer.Identity, s.answer.Sum = identity, load.Sum(0, body)
	return append(got, s.answer), nil
}

func (s *session) parse(b []byte) (number uint64, identity, body []byte, ok bool) {
	if !s.config.Raw {
		number, identity, body, err := flow.ParseAnswer(b)
		return number, identity, body, err == nil
	}
	if len(b) < rawHeader {
		return 0, nil, nil, false
	}
	return binary.BigEndian.Uint64(b), nil, b[rawHeader:], true
}
