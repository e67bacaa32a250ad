// Package http1 is HTTP/1.1 for the load engine: one request at a time on each
// kept-alive connection, and an incremental parser that gives the same answer
// however the bytes are split.
package http1

import (
	"bytes"
	"encoding/json"
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
const IdentityHeader = "x-windtunnel-identity"

// Protocol makes HTTP/1.1 sessions.
type Protocol struct{}

var _ load.Protocol = Protocol{}

// Plugin is the catalog entry.
func Plugin() model.Plugin[load.Protocol] {
	return model.Plugin[load.Protocol]{
		Name:    Name,
		Summary: "HTTP/1.1 with keep-alive: one request at a time on each connection",
		New: func(config json.RawMessage) (load.Protocol, error) {
			if s := string(bytes.TrimSpace(config)); s != "" && s != "null" && s != "{}" {
				return nil, fmt.Errorf("http1 takes no configuration, not %s", s)
			}
			return Protocol{}, nil
		},
	}
}

// Prepare builds the bytes of the request once. It refuses what would not be
// one request: line breaks in headers, or headers that frame the body.
func (Protocol) Prepare(l model.Load, authority string) (func() load.Session, error) {
	request, err := build(l.HTTP, authority)
	if err != nil {
		return nil, fmt.Errorf("building the request of load %s: %w", l.Name, err)
	}
	head := l.HTTP.Method == http.MethodHead
	return func() load.Session { return &session{request: request, head: head} }, nil
}

func build(r model.HTTPRequest, authority string) ([]byte, error) {
	switch {
	case !isToken(r.Method) || r.Method == http.MethodConnect:
		return nil, fmt.Errorf("method %q cannot be sent", r.Method)
	case !strings.HasPrefix(r.Path, "/") || !isVisible(r.Path):
		return nil, fmt.Errorf("path %q must begin with / and have no spaces", r.Path)
	case !isVisible(authority):
		return nil, fmt.Errorf("host %q has characters that no host has", authority)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", r.Method, r.Path)
	host := authority
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		value := r.Headers[name]
		if !isToken(name) || strings.ContainsAny(value, "\r\n\x00") {
			return nil, fmt.Errorf("header %q: %q cannot be sent", name, value)
		}
		switch strings.ToLower(name) {
		case "host":
			host = value
			continue
		case "content-length", "transfer-encoding", "connection", "expect", "upgrade":
			return nil, fmt.Errorf("header %q is set by the generator, not by a study", name)
		}
		fmt.Fprintf(&b, "%s: %s\r\n", name, value)
	}
	fmt.Fprintf(&b, "Host: %s\r\n", host)
	if len(r.Body) > 0 || r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(r.Body))
	}
	b.WriteString("\r\n")
	b.Write(r.Body)
	return b.Bytes(), nil
}

// isToken says whether s is a token of RFC 9110.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	})
}

func isVisible(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c == 0x7f })
}
