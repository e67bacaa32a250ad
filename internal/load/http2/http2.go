// Package http2 is HTTP/2 for the load engine: several requests at a time on
// each connection, in the clear with prior knowledge or over TLS by ALPN.
package http2

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/h2"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Name is the protocol's name in studies.
const Name = "http2"

// Config is the protocol's part of a load.
type Config struct {
	load.HTTPRequest

	Streams int `json:"streams,omitempty" jsonschema:"default=1,minimum=1,maximum=1024" jsonschema_description:"Requests at a time on each connection."`
}

// Protocol makes HTTP/2 sessions.
type Protocol struct{ config Config }

var (
	_ load.Protocol    = Protocol{}
	_ load.Multiplexer = Protocol{}
	_ load.Secure      = Protocol{}
	_ load.Numbering   = Protocol{}
)

// Plugin is the catalog entry.
func Plugin() model.Plugin[load.Protocol] {
	return model.Plugin[load.Protocol]{
		Name:    Name,
		Summary: "HTTP/2: several requests at a time on each connection, in the clear (h2c) or over TLS",
		Config:  Config{},
		New:     func(config json.RawMessage) (load.Protocol, error) { return New(config) },
	}
}

// New reads a configuration.
func New(config json.RawMessage) (Protocol, error) {
	c := Config{Streams: 1}
	if err := model.ReadConfig(config, &c); err != nil {
		return Protocol{}, err
	}
	errs := []error{c.Fill()}
	if c.Streams < 1 || c.Streams > h2.MaxStreams {
		errs = append(errs, &model.ConfigError{Key: "streams", Text: fmt.Sprintf("is %d; from 1 to %d requests at a time can share a connection", c.Streams, h2.MaxStreams)})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		switch strings.ToLower(name) {
		case "keep-alive", "proxy-connection":
			errs = append(errs, &model.ConfigError{Key: "headers." + name, Text: "is no header of HTTP/2: its connections are kept alive by themselves"})
		case "te":
			if c.Headers[name] != "trailers" {
				errs = append(errs, &model.ConfigError{Key: "headers." + name, Text: `may only be "trailers" in HTTP/2`})
			}
		}
	}
	return Protocol{c}, errors.Join(errs...)
}

// Streams is how many requests at a time one connection carries.
func (p Protocol) Streams() int { return p.config.Streams }

// ALPN is what is offered in TLS.
func (p Protocol) ALPN() []string { return []string{"h2"} }

// Numbers says whether requests can carry a number: not where the load sets its
// own request id.
func (p Protocol) Numbers() bool { return load.Numbers(p.config.Headers) }

// Prepare encodes the request once.
func (p Protocol) Prepare(_ context.Context, to load.Peer) (func() load.Session, error) {
	if !load.IsVisible(to.Authority) {
		return nil, fmt.Errorf("building the request: host %q has characters that no host has", to.Authority)
	}
	scheme := "http"
	if to.TLS != nil {
		scheme = "https"
	}
	request := h2.NewRequest(p.config.fields(scheme, to.Authority), p.config.Payload())
	return func() load.Session { return newSession(request, p.config) }, nil
}

// fields are the header of the request.
func (c *Config) fields(scheme, authority string) []h2.Field {
	var further []h2.Field
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		switch lower := strings.ToLower(name); lower {
		case "host":
			authority = c.Headers[name]
		default:
			further = append(further, h2.Field{Name: lower, Value: strings.Trim(c.Headers[name], " \t")})
		}
	}
	if n := len(c.Payload()); n > 0 || c.Method == http.MethodPost || c.Method == http.MethodPut || c.Method == http.MethodPatch {
		further = append(further, h2.Field{Name: "content-length", Value: strconv.Itoa(n)})
	}
	return append([]h2.Field{
		{Name: ":method", Value: c.Method},
		{Name: ":scheme", Value: scheme},
		{Name: ":path", Value: c.Path},
		{Name: ":authority", Value: authority},
	}, further...)
}
