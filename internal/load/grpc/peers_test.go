package grpc

import (
	"context"
	"encoding/base64"
	"net"
	"net/netip"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/windtunnel/windtunnel/internal/agent"
	"github.com/windtunnel/windtunnel/internal/app/echo"
	"github.com/windtunnel/windtunnel/internal/echopb"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

// run runs a load for 200 ms, closed with two connections.
func run(t *testing.T, to netip.AddrPort, config string) *model.LoadResult {
	t.Helper()
	p, err := New([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	l := model.Load{Name: "test", Protocol: Name, Arrival: model.ArrivalClosed, Connections: 2, Duration: 200 * time.Millisecond, Timeout: 2 * time.Second}
	r, _, err := load.Run(t.Context(), load.Job{Load: l, Protocol: p, Host: "server", Targets: []netip.AddrPort{to}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// bytes64 is a payload in base64.
func bytes64(n int) string { return base64.StdEncoding.EncodeToString(make([]byte, n)) }

// health is the descriptor of gRPC's health checks.
func health(t *testing.T) string {
	t.Helper()
	b, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(healthv1.File_grpc_health_v1_health_proto)}})
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b)
}

// ours is our echo server.
func ours(t *testing.T) netip.AddrPort {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ready, done := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		done <- echo.Serve(ctx, echo.Options{Listen: "127.0.0.1:0", Identity: "me", Ready: func(a net.Addr) { ready <- a }})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case a := <-ready:
		return netip.MustParseAddrPort(a.String())
	case err := <-done:
		t.Fatal(err)
		return netip.AddrPort{}
	}
}

// theirs is a server of grpc-go. Unary answers a message of one byte with the
// status of that number.
func theirs(t *testing.T, options ...grpc.ServerOption) netip.AddrPort {
	t.Helper()
	files, err := echopb.Files()
	if err != nil {
		t.Fatal(err)
	}
	d, err := files.FindDescriptorByName("windtunnel.echo.v1.Message")
	if err != nil {
		t.Fatal(err)
	}
	message, ok := d.(protoreflect.MessageDescriptor)
	if !ok {
		t.Fatal("a message is none")
	}
	s := grpc.NewServer(options...)
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: echopb.Service, HandlerType: (*any)(nil), Metadata: echopb.FileName,
		Methods: []grpc.MethodDesc{{MethodName: "Unary", Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			m := dynamicpb.NewMessage(message)
			if wrong := decode(m); wrong != nil {
				return nil, wrong
			}
			if md, _ := metadata.FromIncomingContext(ctx); len(md.Get("x-test")) != 1 {
				return nil, status.Error(codes.InvalidArgument, "no metadata")
			}
			if _, ok := ctx.Deadline(); !ok {
				return nil, status.Error(codes.InvalidArgument, "no deadline")
			}
			if b := m.Get(message.Fields().ByName("payload")).Bytes(); len(b) == 1 {
				return nil, status.Error(codes.Code(b[0]), "as you wish")
			}
			return m, nil
		}}},
		Streams: []grpc.StreamDesc{{StreamName: "ServerStream", ServerStreams: true, Handler: func(_ any, stream grpc.ServerStream) error {
			if wrong := stream.RecvMsg(dynamicpb.NewMessage(message)); wrong != nil {
				return wrong
			}
			for range 20 {
				if wrong := stream.SendMsg(dynamicpb.NewMessage(message)); wrong != nil {
					return wrong
				}
			}
			return nil
		}}},
	}, struct{}{})
	o := reflection.ServerOptions{Services: s, DescriptorResolver: files}
	reflectionv1.RegisterServerReflectionServer(s, reflection.NewServerV1(o))
	reflectionv1alpha.RegisterServerReflectionServer(s, reflection.NewServer(o))
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return netip.MustParseAddrPort(ln.Addr().String())
}

func TestOurServer(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	to := ours(t)
	for name, config := range map[string]string{
		"unary":      `{"message": {"payload": "aGVsbG8="}}`,
		"streams":    `{"streams": 16}`,
		"large":      `{"message": {"payload": "` + bytes64(300_000) + `"}, "streams": 2}`,
		"reflection": `{"reflection": true}`,
		"health":     `{"method": "grpc.health.v1.Health/Check", "descriptor": "` + health(t) + `"}`,
	} {
		r := run(t, to, config)
		if r.Succeeded < 5 || r.Succeeded != r.Due || r.Responders["me"] != r.Succeeded || r.Messages != r.Succeeded {
			t.Errorf("%s: succeeded %d of %d, failed %v, statuses %v, reasons %v, %d messages, responders %v", name, r.Succeeded, r.Due, r.Failed, r.Statuses, r.Reasons, r.Messages, r.Responders)
		}
	}
	r := run(t, to, `{"method": "windtunnel.echo.v1.Echo/ServerStream", "message": {"count": 30, "size": 1000}, "streams": 4}`)
	if r.Succeeded < 2 || r.Succeeded != r.Due || r.Messages != 30*r.Succeeded || r.BodyBytesMin != 30*1008 {
		t.Errorf("succeeded %d of %d, failed %v, %d messages, bodies of %d bytes", r.Succeeded, r.Due, r.Failed, r.Messages, r.BodyBytesMin)
	}
	r = run(t, to, `{"method": "windtunnel.echo.v1.Echo/ServerStream", "message": {"count": 2000000}}`)
	if r.Succeeded != 0 || r.Statuses[3] != r.Due || r.Failed[model.CauseStatus] != r.Due {
		t.Errorf("succeeded %d, failed %v, statuses %v", r.Succeeded, r.Failed, r.Statuses)
	}
}

func TestServerOfGRPCGo(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	to := theirs(t)
	for name, config := range map[string]string{
		"unary":      `{"message": {"payload": "aGVsbG8="}}`,
		"streams":    `{"streams": 16}`,
		"large":      `{"message": {"payload": "` + bytes64(300_000) + `"}, "streams": 2}`,
		"reflection": `{"reflection": true}`,
	} {
		r := run(t, to, config[:len(config)-1]+`, "metadata": {"x-test": "a"}}`)
		if r.Succeeded < 5 || r.Succeeded != r.Due || r.Messages != r.Succeeded {
			t.Errorf("%s: succeeded %d of %d, failed %v, statuses %v, reasons %v", name, r.Succeeded, r.Due, r.Failed, r.Statuses, r.Reasons)
		}
	}
	r := run(t, to, `{"method": "windtunnel.echo.v1.Echo/ServerStream", "streams": 4}`)
	if r.Succeeded < 5 || r.Succeeded != r.Due || r.Messages != 20*r.Succeeded {
		t.Errorf("succeeded %d of %d, failed %v, %d messages", r.Succeeded, r.Due, r.Failed, r.Messages)
	}
	r = run(t, to, `{"message": {"payload": "CA=="}, "metadata": {"x-test": "a"}}`)
	if r.Succeeded != 0 || r.Statuses[8] != r.Due || r.Failed[model.CauseStatus] != r.Due {
		t.Errorf("succeeded %d, failed %v, statuses %v", r.Succeeded, r.Failed, r.Statuses)
	}
}

func TestFewerStreamsThanAsked(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	r := run(t, theirs(t, grpc.MaxConcurrentStreams(3)), `{"streams": 20, "metadata": {"x-test": "a"}}`)
	if r.Succeeded < 5 || r.Succeeded != r.Due {
		t.Errorf("succeeded %d of %d, failed %v", r.Succeeded, r.Due, r.Failed)
	}
}

func TestReflectionThatFails(t *testing.T) {
	t.Parallel()
	p, err := New([]byte(`{"method": "a.B/C", "reflection": true}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]netip.AddrPort{"ours": ours(t), "theirs": theirs(t), "nobody": netip.MustParseAddrPort("127.0.0.1:1")} {
		if _, err := p.Prepare(t.Context(), load.Peer{Authority: "server", Targets: []netip.AddrPort{to}}); err == nil {
			t.Errorf("%s: there is no such service", name)
		}
	}
}

// The ready gate waits for each answer before it says anything more.
func TestReadyGate(t *testing.T) {
	t.Parallel()
	l := model.Load{Name: "test", Protocol: Name, Arrival: model.ArrivalClosed, Connections: 1, Timeout: time.Second}
	ready, err := agent.Gate(t.Context(), agent.GateJob{
		Load: l, Targets: []netip.AddrPort{ours(t)}, Host: "server", Streak: 5, Timeout: 10 * time.Second, Identities: []string{"me"},
	}, agent.Protocols{Plugin()})
	if err != nil || !ready.Passed || ready.Headers["content-type"] != "application/grpc" {
		t.Errorf("%+v, %v", ready, err)
	}
}
