package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// serveGo is a gRPC server as people have them: grpc-go with its health service.
// Answers come when a goroutine has made them; the fast server's come in
// batches, which costs clients less. A comparison should hold with both.
func serveGo(addr netip.AddrPort, in io.Reader, out io.Writer) error {
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp4", addr.String())
	if err != nil {
		return fmt.Errorf("listening on %s: %w", addr, err)
	}
	var counted fastServer
	s := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		counted.count.Add(1)
		return handle(ctx, request)
	}))
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	failed := make(chan error, 2)
	go func() { failed <- s.Serve(ln) }()
	go func() { failed <- counted.answer(in, out) }()
	return <-failed
}
