// Package tcp is plain TCP for the load engine: requests and answers of fixed
// sizes, on kept connections or each on its own, and streams in bulk.
package tcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/windtunnel/windtunnel/internal/flow"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Name is the protocol's name in studies.
const Name = "tcp"

// The modes.
const (
	modeRequest = "request"
	modeConnect = "connect"
	modeStream  = "stream"
)

// The directions of streams.
const (
	directionUp   = "up"
	directionDown = "down"
	directionBoth = "both"
)

const (
	defaultSize  = 64
	defaultBlock = 128 << 10
)

// Config is the protocol's part of a load.
type Config struct {
	Mode      string  `json:"mode,omitempty" jsonschema:"enum=request,enum=connect,enum=stream,default=request" jsonschema_description:"request: requests and answers on kept connections, as netperf's TCP_RR. connect: each on a connection of its own, as TCP_CRR. stream: as many bytes as go through, on every connection."`
	Request   int     `json:"request,omitempty" jsonschema:"minimum=1,maximum=67108864,default=64" jsonschema_description:"Bytes of a request."`
	Response  int     `json:"response,omitempty" jsonschema:"minimum=1,maximum=67108864,default=64" jsonschema_description:"Bytes of an answer."`
	Raw       bool    `json:"raw,omitempty" jsonschema_description:"Send nothing but requests, for a peer that returns what it gets: any echo server."`
	Direction string  `json:"direction,omitempty" jsonschema:"enum=up,enum=down,enum=both,default=up" jsonschema_description:"Of streams: up from the generator, down to it, or both, on two connections."`
	Block     int     `json:"block,omitempty" jsonschema:"minimum=1,maximum=16777216,default=131072" jsonschema_description:"Bytes that a stream hands to the kernel at a time."`
	Bitrate   float64 `json:"bitrate,omitempty" jsonschema:"minimum=0" jsonschema_description:"Most bits per second of all streams of one direction together, evenly paced by the kernel; 0: no limit."`
	Zerocopy  bool    `json:"zerocopy,omitempty" jsonschema_description:"Send streams from a file in memory with sendfile, without copying, as iperf3 -Z."`
	SkipCopy  bool    `json:"skip_receive_copy,omitempty" jsonschema_description:"Drop received streams in the kernel instead of copying them, as iperf3 --skip-rx-copy."`
}

// Plugin is the catalog entry.
func Plugin() model.Plugin[load.Protocol] {
	return model.Plugin[load.Protocol]{
		Name:    Name,
		Summary: "TCP: request and response, connect-request-response, and bulk streams",
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
	if c.Mode == modeStream {
		return Streams{exchanges{c}}, nil
	}
	if c.Mode == modeConnect {
		return connects{exchanges{c}}, nil
	}
	return exchanges{c}, nil
}

// fill takes the defaults for what is not given, and returns all that cannot be.
func (c *Config) fill() error {
	if c.Mode == "" {
		c.Mode = modeRequest
	}
	stream := c.Mode == modeStream
	var errs []error
	for _, key := range []struct {
		name  string
		given bool
		of    bool
	}{
		{"request", c.Request != 0, !stream},
		{"response", c.Response != 0, !stream},
		{"raw", c.Raw, !stream},
		{"direction", c.Direction != "", stream},
		{"block", c.Block != 0, stream},
		{"bitrate", c.Bitrate != 0, stream},
		{"zerocopy", c.Zerocopy, stream},
		{"skip_receive_copy", c.SkipCopy, stream},
	} {
		if key.given && !key.of {
			errs = append(errs, &model.ConfigError{Key: key.name, Text: "has no meaning in mode " + c.Mode})
		}
	}
	c.Request = cmp.Or(c.Request, defaultSize)
	if c.Raw {
		c.Response = cmp.Or(c.Response, c.Request)
	}
	c.Response = cmp.Or(c.Response, defaultSize)
	c.Direction = cmp.Or(c.Direction, directionUp)
	c.Block = cmp.Or(c.Block, defaultBlock)
	return errors.Join(append(errs, c.bounds()...)...)
}

// bounds are all values that cannot be.
func (c *Config) bounds() (errs []error) {
	check := func(ok bool, key, format string, args ...any) {
		if !ok {
			errs = append(errs, &model.ConfigError{Key: key, Text: fmt.Sprintf(format, args...)})
		}
	}
	within := func(n, most int) bool { return n >= 1 && n <= most }
	check(slices.Contains([]string{modeRequest, modeConnect, modeStream}, c.Mode), "mode", "%q is none of request, connect and stream", c.Mode)
	check(within(c.Request, flow.MaxSize), "request", "of %d bytes: must be 1 to %d", c.Request, flow.MaxSize)
	check(within(c.Response, flow.MaxSize), "response", "of %d bytes: must be 1 to %d", c.Response, flow.MaxSize)
	check(!c.Raw || c.Response == c.Request, "response", "of %d bytes: an echo of a raw request is as long as that, %d", c.Response, c.Request)
	check(slices.Contains([]string{directionUp, directionDown, directionBoth}, c.Direction), "direction", "%q is none of up, down and both", c.Direction)
	check(within(c.Block, flow.MaxBlock), "block", "of %d bytes: must be 1 to %d", c.Block, flow.MaxBlock)
	check(c.Bitrate >= 0 && c.Bitrate <= 1e15, "bitrate", "of %g bit/s: must be 0 to 1e15", c.Bitrate)
	return errs
}

// exchanges are requests and answers on kept connections.
type exchanges struct{ config Config }

var _ load.Protocol = exchanges{}

// Prepare builds the bytes of the request once.
func (p exchanges) Prepare(context.Context, load.Peer) (func() load.Session, error) {
	c := &p.config
	request := make([]byte, c.Request)
	flow.Fill(request)
	hello := flow.Hello{Kind: flow.Exchange, Once: c.Mode == modeConnect, Request: uint32(c.Request), Response: uint32(c.Response)} //nolint:gosec // G115: checked
	var first []byte
	if !c.Raw {
		first = hello.Append(nil)
	}
	return func() load.Session {
		return &session{request: request, first: first, response: int64(c.Response), once: c.Mode == modeConnect}
	}, nil
}

// Anonymous says whether answers come without an identity.
func (p exchanges) Anonymous() bool { return p.config.Raw }

// connects are requests each on a connection of its own.
type connects struct{ exchanges }

// Reconnects says that opening a connection is part of every request.
func (connects) Reconnects() bool { return true }
