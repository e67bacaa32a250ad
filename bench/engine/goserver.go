package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// serveGo is a gRPC server as people write them in Go: Go's own HTTP/2, a
// goroutine a call, answers that come one by one. The fast server's come in
// batches, which costs clients less; a comparison should hold with both.
func serveGo(addr netip.AddrPort, in io.Reader, out io.Writer) error {
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp4", addr.String())
	if err != nil {
		return fmt.Errorf("listening on %s: %w", addr, err)
	}
	var counted fastServer
	answer := newGRPCAnswer().data
	s := &http.Server{
		ReadHeaderTimeout: 10 * time.Second, //nolint:mnd // for one client
		Protocols:         new(http.Protocols),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return // the client has gone
			}
			counted.count.Add(1)
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Trailer", "Grpc-Status")
			_, _ = w.Write(answer) // the client may have gone
			w.Header().Set("Grpc-Status", "0")
		}),
	}
	s.Protocols.SetUnencryptedHTTP2(true)
	failed := make(chan error, 2)
	go func() { failed <- s.Serve(ln) }()
	go func() { failed <- counted.answer(in, out) }()
	return <-failed
}
