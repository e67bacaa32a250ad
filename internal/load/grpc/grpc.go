// Package grpc is gRPC for the load engine: unary calls and server streams of
// any service whose types are known, with grpc-status as the result.
package grpc

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/windtunnel/windtunnel/internal/echopb"
	"github.com/windtunnel/windtunnel/internal/h2"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Name is the protocol's name in studies.
const Name = "grpc"

// Config is the protocol's part of a load.
type Config struct {
	Method     string            `json:"method,omitempty" jsonschema:"default=windtunnel.echo.v1.Echo/Unary" jsonschema_description:"Method to call: package.Service/Method, unary or streaming answers."`
	Message    json.RawMessage   `json:"message,omitempty" jsonschema_description:"The request as JSON, by protobuf's JSON mapping; default: an empty message."`
	Metadata   map[string]string `json:"metadata,omitempty" jsonschema_description:"Further metadata of each call; of names that end in -bin, values in base64."`
	Descriptor []byte            `json:"descriptor,omitempty" jsonschema_description:"FileDescriptorSet in base64 that has the method's types; {file: NAME} takes it from a file beside the study."`
	Reflection bool              `json:"reflection,omitempty" jsonschema_description:"Ask the server for the method's types, by gRPC server reflection."`
	Streams    int               `json:"streams,omitempty" jsonschema:"default=1,minimum=1,maximum=1024" jsonschema_description:"Calls at a time on each connection."`
}

// Protocol makes gRPC sessions.
type Protocol struct {
	config Config
	call   *call // nil: the server is to be asked
}

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
		Summary: "gRPC: unary calls and server streams of any method, by grpc-status",
		Config:  Config{},
		New:     func(config json.RawMessage) (load.Protocol, error) { return New(config) },
	}
}

// New reads a configuration, and builds the request where it can.
func New(config json.RawMessage) (Protocol, error) {
	c := Config{Method: echopb.MethodUnary, Streams: 1}
	if err := model.ReadConfig(config, &c); err != nil {
		return Protocol{}, err
	}
	if err := c.check(); err != nil || c.Reflection {
		return Protocol{config: c}, err
	}
	files, err := c.files()
	if err != nil {
		return Protocol{}, err
	}
	call, err := c.call(files)
	return Protocol{c, call}, err
}

func (c *Config) check() error {
	var errs []error
	check := func(ok bool, key, format string, args ...any) {
		if !ok {
			errs = append(errs, &model.ConfigError{Key: key, Text: fmt.Sprintf(format, args...)})
		}
	}
	service, method, ok := strings.Cut(c.Method, "/")
	check(ok && protoreflect.FullName(service).IsValid() && protoreflect.Name(method).IsValid(),
		"method", "%q is not of the form package.Service/Method", c.Method)
	check(len(c.Descriptor) == 0 || !c.Reflection, "reflection", "is asked for beside descriptor: the types can only come from one")
	check(c.Streams >= 1 && c.Streams <= h2.MaxStreams, "streams", "is %d; from 1 to %d calls at a time can share a connection", c.Streams, h2.MaxStreams)
	taken := []string{"te", "content-type", "content-length", "connection", "host", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}
	for _, name := range slices.Sorted(maps.Keys(c.Metadata)) {
		key := "metadata." + name
		check(validName(name), key, "is no metadata key: lower-case letters, digits and _ - . are")
		check(!slices.Contains(taken, name) && !strings.HasPrefix(name, "grpc-"), key, "is set by the load generator")
		check(!strings.ContainsFunc(c.Metadata[name], func(r rune) bool { return r < ' ' || r > '~' }), key, "has a value of other than printable ASCII; names that end in -bin take base64")
	}
	return errors.Join(errs...)
}

func validName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("_-.", r)
	})
}

// files are the types that the configuration has, or the echo server's.
func (c *Config) files() (*protoregistry.Files, error) {
	if len(c.Descriptor) == 0 {
		return echopb.Files()
	}
	var set descriptorpb.FileDescriptorSet
	err := proto.Unmarshal(c.Descriptor, &set)
	var files *protoregistry.Files
	if err == nil {
		files, err = protodesc.NewFiles(&set)
	}
	if err != nil {
		return nil, &model.ConfigError{Key: "descriptor", Text: fmt.Sprintf("is no complete FileDescriptorSet: %v; make one by protoc --include_imports --descriptor_set_out", err)}
	}
	return files, nil
}

// call is a call that is ready to be made.
type call struct {
	body   []byte // the message with its prefix
	stream bool   // of answers
}

// call looks the method up and encodes the message.
func (c *Config) call(files *protoregistry.Files) (*call, error) {
	wrong := func(key, format string, args ...any) error {
		return &model.ConfigError{Key: key, Text: fmt.Sprintf(format, args...)}
	}
	service, name, _ := strings.Cut(c.Method, "/")
	d, err := files.FindDescriptorByName(protoreflect.FullName(service))
	s, ok := d.(protoreflect.ServiceDescriptor)
	if err != nil || !ok {
		return nil, wrong("method", "%s has a service that is not among the known types; give its descriptor, or set reflection", c.Method)
	}
	m := s.Methods().ByName(protoreflect.Name(name))
	if m == nil {
		var names []string
		for i := range s.Methods().Len() {
			names = append(names, string(s.Methods().Get(i).Name()))
		}
		return nil, wrong("method", "%s is none of the service's methods: %s", c.Method, strings.Join(names, ", "))
	}
	if m.IsStreamingClient() {
		return nil, wrong("method", "%s streams requests; calls of one request can be sent, with one answer or a stream of them", c.Method)
	}
	message := dynamicpb.NewMessage(m.Input())
	if len(c.Message) > 0 {
		if err = (protojson.UnmarshalOptions{Resolver: dynamicpb.NewTypes(files)}).Unmarshal(c.Message, message); err != nil {
			return nil, wrong("message", "is no %s: %v", m.Input().FullName(), err)
		}
	}
	// Deterministic, so that one study sends the same bytes every time.
	encoded, err := (proto.MarshalOptions{Deterministic: true}).Marshal(message)
	if err != nil {
		return nil, wrong("message", "cannot be encoded as %s: %v", m.Input().FullName(), err)
	}
	return &call{frame(encoded), m.IsStreamingServer()}, nil
}

// frame puts the prefix before a message: not compressed, and its length.
func frame(message []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))) //nolint:gosec // G115: protobuf has no message of 4 GiB
	return append(b, message...)
}

// Streams is how many calls at a time one connection carries.
func (p Protocol) Streams() int { return p.config.Streams }

// ALPN is what is offered in TLS.
func (p Protocol) ALPN() []string { return []string{"h2"} }

// Numbers says whether calls can carry a number: not where the load sets its own
// request id.
func (p Protocol) Numbers() bool { return p.config.Metadata[model.HeaderRequestID] == "" }

// Prepare encodes the request once, and asks the server for the types if it is
// to be asked.
func (p Protocol) Prepare(ctx context.Context, to load.Peer) (func() load.Session, error) {
	if !load.IsVisible(to.Authority) {
		return nil, fmt.Errorf("building the request: host %q has characters that no host has", to.Authority)
	}
	call := p.call
	if call == nil {
		service, _, _ := strings.Cut(p.config.Method, "/")
		files, err := reflect(ctx, to, service)
		if err != nil {
			return nil, fmt.Errorf("asking %s for the types of %s by reflection: %w", to.Authority, service, err)
		}
		if call, err = p.config.call(files); err != nil {
			return nil, err
		}
	}
	request := h2.NewRequest(fields(to, p.config.Method, p.config.Metadata), call.body)
	return func() load.Session { return newSession(request, p.config.Streams, call.stream) }, nil
}

// fields are the header of a call.
func fields(to load.Peer, method string, metadata map[string]string) []h2.Field {
	scheme := "http"
	if to.TLS != nil {
		scheme = "https"
	}
	all := []h2.Field{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: scheme},
		{Name: ":path", Value: "/" + method},
		{Name: ":authority", Value: to.Authority},
		{Name: "te", Value: "trailers"},
		{Name: "content-type", Value: "application/grpc"},
	}
	if _, ok := metadata["user-agent"]; !ok {
		all = append(all, h2.Field{Name: "user-agent", Value: "windtunnel"})
	}
	if to.Timeout > 0 {
		all = append(all, h2.Field{Name: "grpc-timeout", Value: timeout(to.Timeout)})
	}
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		all = append(all, h2.Field{Name: name, Value: strings.TrimSpace(metadata[name])})
	}
	return all
}

// timeout is a duration as grpc-timeout has it: at most eight digits and a
// unit, rounded up.
func timeout(d time.Duration) string {
	unit, name := time.Microsecond, "u"
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{time.Millisecond, "m"}, {time.Second, "S"}, {time.Minute, "M"}, {time.Hour, "H"}} {
		if d <= 99_999_999*unit {
			break
		}
		unit, name = u.unit, u.name
	}
	return strconv.FormatInt(int64(math.Ceil(float64(d)/float64(unit))), 10) + name
}
