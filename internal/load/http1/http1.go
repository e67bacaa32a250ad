// Package http1 is HTTP/1.1 for the load engine: one request at a time on each
// connection, and an incremental parser that gives the same answer however the
// bytes are split.
package http1

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Name is the protocol's name in studies.
const Name = "http1"

// IdentityHeader is where servers say who they are.
const IdentityHeader = load.IdentityHeader

// Config is the protocol's part of a load.
type Config struct {
	load.HTTPRequest

	Reconnect bool `json:"reconnect,omitempty" jsonschema_description:"Ask for the connection to be closed after each answer, so that every request pays for a new one."`
	Chunked   int  `json:"chunked,omitempty" jsonschema:"minimum=0" jsonschema_description:"Send the body in chunks of so many bytes instead of with its length; 0: not."`
}

// Protocol makes HTTP/1.1 sessions.
type Protocol struct{ config Config }

var (
	_ load.Protocol  = Protocol{}
	_ load.Numbering = Protocol{}
)

// Plugin is the catalog entry.
func Plugin() model.Plugin[load.Protocol] {
	return model.Plugin[load.Protocol]{
		Name:    Name,
		Summary: "HTTP/1.1: one request at a time on each connection, kept alive or not",
		Config:  Config{},
		New:     func(config json.RawMessage) (load.Protocol, error) { return New(config) },
	}
}

// New reads a configuration.
func New(config json.RawMessage) (Protocol, error) {
	var c Config
	if err := model.ReadConfig(config, &c); err != nil {
		return Protocol{}, err
	}
	err := c.Fill()
	if c.Chunked < 0 {
		err = errors.Join(err, &model.ConfigError{Key: "chunked", Text: "is negative"})
	}
	if c.Chunked > 0 && len(c.Payload()) == 0 {
		err = errors.Join(err, &model.ConfigError{Key: "chunked", Text: "needs a body to send in chunks"})
	}
	return Protocol{c}, err
}

// Prepare builds the bytes of the request once.
func (p Protocol) Prepare(_ context.Context, to load.Peer) (func() load.Session, error) {
	if !load.IsVisible(to.Authority) {
		return nil, fmt.Errorf("building the request: host %q has characters that no host has", to.Authority)
	}
	s := session{request: p.config.request(to.Authority), head: p.config.Method == http.MethodHead}
	if p.Numbers() {
		line := bytes.IndexByte(s.request, '\n') + 1 // the request line stays the first
		s.before, s.after = s.request[:line], s.request[line:]
	}
	return func() load.Session { one := s; return &one }, nil
}

// Numbers says whether requests can carry a number: not where the load sets its
// own request id.
func (p Protocol) Numbers() bool { return load.Numbers(p.config.Headers) }

// request is the request as it is sent.
func (c *Config) request(authority string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", c.Method, c.Path)
	host := authority
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		if strings.EqualFold(name, "host") {
			host = c.Headers[name]
			continue
		}
		fmt.Fprintf(&b, "%s: %s\r\n", name, c.Headers[name])
	}
	fmt.Fprintf(&b, "Host: %s\r\n", host)
	if c.Reconnect {
		b.WriteString("Connection: close\r\n")
	}
	body := c.Payload()
	switch {
	case c.Chunked > 0:
		b.WriteString("Transfer-Encoding: chunked\r\n\r\n")
		for chunk := range slices.Chunk(body, c.Chunked) {
			fmt.Fprintf(&b, "%x\r\n%s\r\n", len(chunk), chunk)
		}
		b.WriteString("0\r\n\r\n")
		return b.Bytes()
	case len(body) > 0 || c.Method == http.MethodPost || c.Method == http.MethodPut || c.Method == http.MethodPatch:
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}
