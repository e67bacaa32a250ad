package generator

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/study"
)

// setting is a flag for a common key of protocols' configurations; --set
// reaches all others.
type setting struct {
	name, short string
	kind        string // what the help calls the value; "" for a flag without one
	usage       string
	keys        map[string]string // the key, by protocol
	// value turns what was given into the key's value; nil: as it is.
	value func(string) (any, error)
	modes map[string]string // the mode that is meant, by protocol
}

// settings are the flags of protocols.
func settings() []setting {
	both := func(key string) map[string]string { return map[string]string{"http1": key, "http2": key} }
	return []setting{
		{"method", "X", "method", "HTTP method (default GET; POST with --data)", both("method"), nil, nil},
		{"call", "", "method", "gRPC method as package.Service/Method (default: our own Echo)", map[string]string{"grpc": "method"}, nil, nil},
		{"message", "", "json", "gRPC request as JSON, or @file", map[string]string{"grpc": "message"}, asJSON, nil},
		{"reflection", "", "", "learn the gRPC method's types from the server", map[string]string{"grpc": "reflection"}, asTrue, nil},
		{"stream", "", "", "TCP: as many bytes as go through, not requests", map[string]string{"tcp": "mode"}, func(string) (any, error) { return "stream", nil }, nil},
		{"direction", "", "direction", "TCP stream: up, down or both", map[string]string{"tcp": "direction"}, nil, map[string]string{"tcp": "stream"}},
		{"request-size", "", "bytes", "TCP, UDP: bytes of a request", map[string]string{"tcp": "request", "udp": "request"}, asBytes, nil},
		{"response-size", "", "bytes", "TCP, UDP: bytes of an answer", map[string]string{"tcp": "response", "udp": "response"}, asBytes, nil},
		{"size", "", "bytes", "UDP flow, ICMP: payload of a datagram", map[string]string{"udp": "size", "icmp": "size"}, asBytes, map[string]string{"udp": "flow"}},
		{"bitrate", "", "rate", "UDP flow, TCP stream: bits per second, as 100Mbit/s", map[string]string{"udp": "bitrate", "tcp": "bitrate"}, asBitRate, map[string]string{"tcp": "stream", "udp": "flow"}},
	}
}

func asTrue(string) (any, error) { return true, nil }

func asJSON(s string) (any, error) {
	if !json.Valid([]byte(s)) {
		return nil, fmt.Errorf("%.60q is not JSON", s)
	}
	return json.RawMessage(s), nil
}

// asBytes takes a plain number or one with a unit.
func asBytes(s string) (any, error) {
	if strings.Trim(s, "0123456789") == "" {
		s += "B"
	}
	return study.ParseBytes(s)
}

func asBitRate(s string) (any, error) { return study.ParseBitRate(s) }

func (f *loadFlags) defineProtocol(s *pflag.FlagSet) {
	f.settings = map[string]*text{}
	s.StringArrayVarP(&f.headers, "header", "H", nil, "HTTP `header`, as 'Name: value'; may be repeated")
	s.StringVarP(&f.data, "data", "d", "", "HTTP `body`, or @file")
	s.BoolVar(&f.http2, "http2", false, "HTTP/2 instead of HTTP/1.1; without TLS with prior knowledge (h2c)")
	s.BoolVar(&f.insecure, "insecure", false, "accept any certificate")
	s.StringVar(&f.caCert, "cacert", "", "`file` with the certificates, in PEM, that sign the server's; not the system's")
	s.StringVar(&f.serverName, "server-name", "", "`name` to ask for (SNI) and to find in the certificate, instead of the URL's host")
	for _, o := range settings() {
		t := &text{kind: o.kind}
		f.settings[o.name] = t
		if flag := s.VarPF(t, o.name, o.short, o.usage); o.kind == "" {
			t.kind, flag.NoOptDefVal = "bool", "true"
		}
	}
	s.StringArrayVar(&f.set, "set", nil, "`key=value` of the protocol's configuration, as in a study; may be repeated")
}

// security is the load's TLS.
func (f *loadFlags) security(t target, p *problems) *model.TLS {
	if !t.tls {
		f.misplaced(p, "is for https and grpcs, not "+t.scheme, "insecure", "cacert", "server-name")
		return nil
	}
	s := &model.TLS{ServerName: f.serverName, Insecure: f.insecure}
	p.unless(!f.insecure || f.caCert == "", "--insecure: accepts any certificate; --cacert then means nothing")
	if f.caCert != "" {
		pem, err := os.ReadFile(f.caCert)
		if err != nil {
			p.add("--cacert: %w", err)
		}
		s.CA = string(pem)
		p.unless(err != nil || strings.Contains(s.CA, "-----BEGIN CERTIFICATE-----"), "--cacert: %s holds no certificate in PEM", f.caCert)
	}
	return s
}

// config is the protocol's configuration: from the URL, its flags, and --set.
func (f *loadFlags) config(t target, p *problems) map[string]any {
	c := map[string]any{}
	http := t.protocol == "http1" || t.protocol == "http2"
	switch {
	case http && t.path != "":
		c["path"] = t.path
	case t.protocol == "grpc" && len(t.path) > 1:
		c["method"] = strings.TrimPrefix(t.path, "/")
	}
	for _, o := range settings() {
		f.setting(o, t, c, p)
	}
	if !http {
		f.misplaced(p, "is for http and https, not "+t.scheme, "header", "data", "http2")
	} else {
		f.http(c, p)
	}
	for _, s := range f.set {
		key, value, ok := strings.Cut(s, "=")
		if !ok || key == "" {
			p.add("--set: %q is not key=value", s)
			continue
		}
		var v any = value
		if json.Valid([]byte(value)) {
			v = json.RawMessage(value)
		}
		c[key] = v
	}
	return c
}

func (f *loadFlags) setting(o setting, t target, c map[string]any, p *problems) {
	if !f.given(o.name) {
		return
	}
	key, ok := o.keys[t.protocol]
	if !ok {
		p.add("--%s: is for %s, not %s", o.name, strings.Join(slices.Sorted(maps.Keys(o.keys)), " and "), t.protocol)
		return
	}
	if mode := o.modes[t.protocol]; mode != "" {
		c["mode"] = mode
	}
	text, err := content(f.settings[o.name].value)
	if err == nil && o.value != nil {
		if c[key], err = o.value(string(text)); err == nil {
			return
		}
	}
	if err != nil {
		p.add("--%s: %w", o.name, err)
	}
	c[key] = string(text)
}

// http are the parts of a request that are no keys of their own.
func (f *loadFlags) http(c map[string]any, p *problems) {
	headers := map[string]string{}
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, ":")
		p.unless(ok, "--header: %q is not 'Name: value'", h)
		headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	if len(headers) > 0 {
		c["headers"] = headers
	}
	if !f.given("data") {
		return
	}
	if !f.given("method") {
		c["method"] = "POST"
	}
	body, err := content(f.data)
	switch {
	case err != nil:
		p.add("--data: %w", err)
	case utf8.Valid(body):
		c["body"] = string(body)
	default:
		c["body_base64"] = body
	}
}

// content is a flag's value, or what is in the file that @ names.
func content(value string) ([]byte, error) {
	name, ok := strings.CutPrefix(value, "@")
	if !ok {
		return []byte(value), nil
	}
	return os.ReadFile(name)
}

// plugin makes the protocol, with all that is wrong with its configuration.
func (a *app) plugin(t target, config json.RawMessage, p *problems) load.Protocol {
	i := slices.IndexFunc(a.catalog.Protocols, func(p model.Plugin[load.Protocol]) bool { return p.Name == t.protocol })
	if i < 0 {
		var spoken []string
		for _, known := range a.catalog.Protocols {
			spoken = append(spoken, known.Name)
		}
		p.add("%s:// needs the protocol %s, which this program does not speak; it speaks %s", t.scheme, t.protocol, strings.Join(spoken, ", "))
		return nil
	}
	protocol, err := a.catalog.Protocols[i].New(config)
	if err == nil {
		return protocol
	}
	for _, e := range parts(err) {
		if key, ok := errors.AsType[*model.ConfigError](e); ok {
			e = fmt.Errorf("%s: %w", flagOf(key.Key, t.protocol), e)
		}
		p.add("%w", e)
	}
	return nil
}

// parts are the errors that were joined.
func parts(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// flagOf is the flag that sets a key.
func flagOf(key, protocol string) string {
	for _, o := range settings() {
		if o.keys[protocol] == key {
			return "--" + o.name
		}
	}
	switch first, _, _ := strings.Cut(key, "."); first {
	case "headers":
		return "--header"
	case "body", "body_base64":
		return "--data"
	case "path":
		return "URL"
	}
	return "--set"
}
