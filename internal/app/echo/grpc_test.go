package echo

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/windtunnel/windtunnel/internal/echopb"
)

func dial(t *testing.T) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient("passthrough:///"+serving(t), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxBody)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// fresh is an empty message of our file.
func fresh(t *testing.T, name string) *dynamicpb.Message {
	t.Helper()
	files, err := echopb.Files()
	if err != nil {
		t.Fatal(err)
	}
	d, err := files.FindDescriptorByName(protoreflect.FullName("windtunnel.echo.v1." + name))
	if err != nil {
		t.Fatal(err)
	}
	m, ok := d.(protoreflect.MessageDescriptor)
	if !ok {
		t.Fatalf("%s is no message", name)
	}
	return dynamicpb.NewMessage(m)
}

func payloadOf(m *dynamicpb.Message) []byte {
	return m.Get(m.Descriptor().Fields().ByName("payload")).Bytes()
}

func TestUnary(t *testing.T) {
	t.Parallel()
	c := dial(t)
	for _, payload := range []string{"", "hello", strings.Repeat("x", 1_000_000)} {
		in, out := fresh(t, "Message"), fresh(t, "Message")
		in.Set(in.Descriptor().Fields().ByName("payload"), protoreflect.ValueOfBytes([]byte(payload)))
		var md metadata.MD
		ctx := metadata.AppendToOutgoingContext(t.Context(), headerXFCC, "URI=b")
		if err := c.Invoke(ctx, "/"+echopb.MethodUnary, in, out, grpc.Header(&md)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(payloadOf(out), []byte(payload)) || len(md.Get(headerIdentity)) != 1 || len(md.Get(headerPeer)) != 1 {
			t.Errorf("%d bytes came back as %d, header %v", len(payload), len(payloadOf(out)), md)
		}
	}
	err := c.Invoke(t.Context(), "/a.B/C", fresh(t, "Message"), fresh(t, "Message"))
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("got %v, want unimplemented", err)
	}
}

func TestServerStream(t *testing.T) {
	t.Parallel()
	c := dial(t)
	tests := map[string]struct {
		count, size uint32
		code        codes.Code
	}{
		"none":      {0, 10, codes.OK},
		"empty":     {3, 0, codes.OK},
		"small":     {100, 20, codes.OK},
		"large":     {3, 1 << 20, codes.OK},
		"too many":  {echopb.MaxCount + 1, 1, codes.InvalidArgument},
		"too large": {1, echopb.MaxSize + 1, codes.InvalidArgument},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := c.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, "/"+echopb.MethodServerStream)
			if err != nil {
				t.Fatal(err)
			}
			in := fresh(t, "StreamRequest")
			in.Set(in.Descriptor().Fields().ByName("count"), protoreflect.ValueOfUint32(tt.count))
			in.Set(in.Descriptor().Fields().ByName("size"), protoreflect.ValueOfUint32(tt.size))
			if err = errors.Join(s.SendMsg(in), s.CloseSend()); err != nil {
				t.Fatal(err)
			}
			n := uint32(0)
			out := fresh(t, "Message")
			for err = s.RecvMsg(out); err == nil; err = s.RecvMsg(out) {
				n++
				if len(payloadOf(out)) != int(tt.size) {
					t.Fatalf("a message of %d bytes", len(payloadOf(out)))
				}
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
			if tt.code == codes.OK && n != tt.count || status.Code(err) != tt.code {
				t.Errorf("%d messages, then %v", n, err)
			}
		})
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	r, err := healthv1.NewHealthClient(dial(t)).Check(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil || r.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Error(r, err)
	}
}

func TestReflection(t *testing.T) {
	t.Parallel()
	s, err := reflectionv1.NewServerReflectionClient(dial(t)).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(q *reflectionv1.ServerReflectionRequest) *reflectionv1.ServerReflectionResponse {
		t.Helper()
		if err := s.Send(q); err != nil {
			t.Fatal(err)
		}
		r, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(r.GetOriginalRequest(), q) {
			t.Errorf("the answer is to %v", r.GetOriginalRequest())
		}
		return r
	}
	symbol := func(name string) *reflectionv1.ServerReflectionRequest {
		return &reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: name}}
	}
	file := &reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_FileByFilename{FileByFilename: echopb.FileName}}
	for _, q := range []*reflectionv1.ServerReflectionRequest{symbol(echopb.Service), symbol("windtunnel.echo.v1.Message"), symbol("windtunnel.echo.v1.Echo.Unary"), file} {
		got := &descriptorpb.FileDescriptorProto{}
		files := ask(q).GetFileDescriptorResponse().GetFileDescriptorProto()
		if len(files) != 1 || proto.Unmarshal(files[0], got) != nil || !proto.Equal(got, echopb.File()) {
			t.Errorf("%v: %d files, %v", q, len(files), got)
		}
	}
	if e := ask(symbol("a.B")).GetErrorResponse(); e.GetErrorCode() != int32(codes.NotFound) {
		t.Errorf("got %v, want not found", e)
	}
	list := ask(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}).GetListServicesResponse().GetService()
	if len(list) != 4 || list[0].GetName() != echopb.Service {
		t.Errorf("services %v", list)
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v at the end", err)
	}
}

func FuzzReflection(f *testing.F) {
	f.Add(protowire.AppendString(protowire.AppendTag(nil, askSymbol, protowire.BytesType), echopb.Service))
	f.Fuzz(func(t *testing.T, question []byte) {
		if answer, ok := describe(question); ok && len(answer) < len(question) {
			t.Errorf("the answer to %x does not have the question", question)
		}
	})
}
