package grpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/windtunnel/windtunnel/internal/h2"
	"github.com/windtunnel/windtunnel/internal/load"
)

const (
	reflectionTimeout = 5 * time.Second
	maxFiles          = 1000
	maxReflected      = 16 << 20 // of one answer
)

// Fields of the messages of grpc.reflection.v1, and of v1alpha, which is equal.
const (
	requestFile     = 3 // file_by_filename
	requestSymbol   = 4 // file_containing_symbol
	answerFiles     = 4 // file_descriptor_response
	answerError     = 7 // error_response
	filesDescriptor = 1
	errorMessage    = 2
)

// reflect asks the peer for the files that have a service and all that it needs.
func reflect(ctx context.Context, to load.Peer, service string) (*protoregistry.Files, error) {
	to.Timeout = reflectionTimeout
	ctx, cancel := context.WithTimeout(ctx, reflectionTimeout)
	defer cancel()
	var errs []error
	for _, version := range []string{"v1", "v1alpha"} {
		r := reflector{to: to, method: "grpc.reflection." + version + ".ServerReflection/ServerReflectionInfo", files: map[string]*descriptorpb.FileDescriptorProto{}}
		files, err := r.all(ctx, service)
		if err == nil {
			return files, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", version, err))
	}
	return nil, fmt.Errorf("%w; if the server has no reflection, give the descriptor", errors.Join(errs...))
}

type reflector struct {
	to     load.Peer
	method string
	files  map[string]*descriptorpb.FileDescriptorProto
}

// all asks until no file is missing. Some servers answer with all that a file
// needs, others with the file alone.
func (r *reflector) all(ctx context.Context, service string) (*protoregistry.Files, error) {
	if err := r.ask(ctx, requestSymbol, service); err != nil {
		return nil, err
	}
	for missing := r.missing(); missing != ""; missing = r.missing() {
		if err := r.ask(ctx, requestFile, missing); err != nil {
			return nil, fmt.Errorf("file %s: %w", missing, err)
		}
		if r.files[missing] == nil || len(r.files) > maxFiles {
			return nil, fmt.Errorf("the server does not give file %s", missing)
		}
	}
	set := &descriptorpb.FileDescriptorSet{}
	for _, f := range r.files {
		set.File = append(set.File, f)
	}
	return protodesc.NewFiles(set)
}

// missing is a file that another needs; empty: there is none.
func (r *reflector) missing() string {
	for _, f := range r.files {
		for _, name := range f.GetDependency() {
			if r.files[name] == nil {
				return name
			}
		}
	}
	return ""
}

func (r *reflector) ask(ctx context.Context, field protowire.Number, what string) error {
	question := protowire.AppendString(protowire.AppendTag(nil, field, protowire.BytesType), what)
	b, err := r.exchange(ctx, question)
	if err != nil {
		return err
	}
	if len(b) < prefixBytes {
		return errors.New("the server has no answer")
	}
	found, err := fieldsOf(b[prefixBytes:], answerFiles, answerError)
	if err != nil {
		return err
	}
	for _, e := range found[answerError] {
		text, err := fieldsOf(e, errorMessage)
		return errors.Join(fmt.Errorf("the server says %q", slices.Concat(text[errorMessage]...)), err)
	}
	for _, response := range found[answerFiles] {
		descriptors, err := fieldsOf(response, filesDescriptor)
		if err != nil {
			return err
		}
		for _, d := range descriptors[filesDescriptor] {
			f := &descriptorpb.FileDescriptorProto{}
			if err := proto.Unmarshal(d, f); err != nil {
				return fmt.Errorf("reading a file's descriptor: %w", err)
			}
			r.files[f.GetName()] = f
		}
	}
	return nil
}

// fieldsOf are some fields of a message, all of them strings, bytes or messages.
func fieldsOf(b []byte, wanted ...protowire.Number) (map[protowire.Number][][]byte, error) {
	found := map[protowire.Number][][]byte{}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		b = b[n:]
		if kind == protowire.BytesType && slices.Contains(wanted, number) {
			v, _ := protowire.ConsumeBytes(b)
			found[number] = append(found[number], v)
		}
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return nil, protowire.ParseError(n)
		}
		b = b[n:]
	}
	return found, nil
}

// exchange makes one call and returns the body of its answer.
func (r *reflector) exchange(ctx context.Context, question []byte) ([]byte, error) {
	conn, err := r.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // all that matters has been read
	cut := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer cut()
	s := &kept{session: newSession(h2.NewRequest(fields(r.to, r.method, nil), frame(question)), 1, true)}
	out := s.Begin(s.Open(nil), 0)
	for buf := make([]byte, 16<<10); ; {
		if _, err := conn.Write(out); err != nil {
			return nil, fmt.Errorf("writing: %w", err)
		}
		n, err := conn.Read(buf)
		if err != nil {
			return nil, fmt.Errorf("reading: %w", err)
		}
		if err := s.Conn.Feed(buf[:n], s); err != nil {
			return nil, err
		}
		switch {
		case len(s.got) > 0 && s.got[0].Failure != "":
			return nil, fmt.Errorf("%s %d", s.got[0].Failure, s.got[0].Status)
		case len(s.got) > 0:
			return s.body, nil
		case len(s.body) > maxReflected:
			return nil, errors.New("the answer is over 16 MiB")
		}
		out = s.Reply(out[:0])
	}
}

func (r *reflector) dial(ctx context.Context) (net.Conn, error) {
	if len(r.to.Targets) == 0 {
		return nil, errors.New("no target")
	}
	dialer := &net.Dialer{}
	if r.to.TLS == nil {
		return dialer.DialContext(ctx, "tcp", r.to.Targets[0].String())
	}
	secured := tls.Dialer{NetDialer: dialer, Config: r.to.TLS}
	return secured.DialContext(ctx, "tcp", r.to.Targets[0].String())
}

// kept is a session that keeps the body.
type kept struct {
	*session

	body []byte
}

// Data keeps a part of the body.
func (k *kept) Data(id uint32, b []byte, end bool) {
	k.body = append(k.body, b...)
	k.session.Data(id, b, end)
}
