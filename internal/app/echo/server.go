package echo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/flow"
	"github.com/windtunnel/windtunnel/internal/impair"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Options are what a server is started with.
type Options struct {
	Listen   string // host:port; port 0 takes a free one
	Identity string // stamped on every answer
	Plant    Plant  // what is done to every request besides
	// Impairable lets whoever is in its network namespace change Plant.
	Impairable bool
	// Ready, if set, is called with the address once the server listens.
	Ready func(addr net.Addr)
}

// Headers of the answers, and the one that sidecars add to requests: who the
// client has proved to be.
const (
	headerIdentity = "x-windtunnel-identity"
	headerPeer     = "x-windtunnel-peer"
	headerXFCC     = "x-forwarded-client-cert"
	serverName     = "windtunnel-echo"
)

const (
	fixedBody = "hello from windtunnel echo\n"
	maxBody   = 64 << 20 // that is sent or echoed
)

// Serve answers until the context ends, which is no error.
//
//	GET, HEAD /        a fixed body of 27 bytes
//	GET, HEAD /size/N  N bytes, at most 64 MiB
//	POST, PUT          the request's own body, at most 64 MiB
//
// Every answer carries x-windtunnel-identity; where the request carries
// x-forwarded-client-cert, that is returned as x-windtunnel-peer.
func Serve(ctx context.Context, o Options) error {
	if strings.ContainsAny(o.Identity, "\r\n") {
		return fmt.Errorf("echo: the identity %q cannot be a header", o.Identity)
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("echo: listening on %s: %w", o.Listen, err)
	}
	udp, err := listenUDP(ctx, ln.Addr())
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	s := &server{identity: o.Identity, h2: newHandover(ln.Addr()), clock: flow.NewClock(), plant: impair.NewServer(model.Impairment(o.Plant))}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() }) // ends Accept
	defer stop()
	h2 := s.serveHTTP2()
	defer h2.Close() //nolint:errcheck // its listener is ours, its connections are cut
	if o.Ready != nil {
		o.Ready(ln.Addr())
	}
	var connections sync.WaitGroup
	defer connections.Wait()
	defer cancel()
	if o.Impairable {
		if err := s.plant.Listen(ctx); err != nil {
			return errors.Join(fmt.Errorf("echo: %w", err), ln.Close(), udp.Close())
		}
	}
	connections.Go(func() { s.datagrams(ctx, udp) })
	for {
		c, err := ln.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("echo: accepting: %w", err)
		case err != nil: // a client that left, or no file descriptors for now
			pause(ctx)
			continue
		}
		connections.Go(func() {
			cut := context.AfterFunc(ctx, func() { _ = c.Close() })
			defer cut()
			s.connection(ctx, c)
		})
	}
}

// pause keeps a lasting failure from spinning.
func pause(ctx context.Context) {
	timer := time.NewTimer(5 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

type server struct {
	identity string
	h2       *handover
	clock    flow.Clock
	places   flow.Places
	plant    *impair.Server
}

// connection serves HTTP/1.1, or what else the client begins with: no HTTP/1.1
// method begins with PRI, as HTTP/2 does, or with flow's magic.
func (s *server) connection(ctx context.Context, c net.Conn) {
	in := bufio.NewReaderSize(c, 16<<10)
	if first, err := in.Peek(3); err == nil {
		switch string(first) {
		case "PRI":
			s.h2.give(&begun{Conn: c, in: in})
			return
		case flow.Magic[:3]:
			s.flow(ctx, c, in)
			return
		}
	}
	defer c.Close() //nolint:errcheck // all that can be sent has been
	h := newHTTP1(s.identity, in, c)
	h.plant = s.plant
	for h.exchange() {
	}
}

// content is what a request is answered with. The body is not yet read where
// that has to be by its length.
type content struct {
	status int
	size   int64
	body   io.Reader
}

// choose is all the server's knowledge; sent is the request's body.
func choose(method, path string, sent []byte) content {
	switch method {
	case http.MethodPost, http.MethodPut:
		return content{http.StatusOK, int64(len(sent)), bytes.NewReader(sent)}
	case http.MethodGet, http.MethodHead:
	default:
		return content{http.StatusMethodNotAllowed, 0, http.NoBody}
	}
	path, _, _ = strings.Cut(path, "?")
	if path == "/" {
		return content{http.StatusOK, int64(len(fixedBody)), strings.NewReader(fixedBody)}
	}
	size, ok := strings.CutPrefix(path, "/size/")
	if !ok {
		return content{http.StatusNotFound, 0, http.NoBody}
	}
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil || n < 0 || n > maxBody {
		return content{http.StatusBadRequest, 0, http.NoBody}
	}
	return content{http.StatusOK, n, io.LimitReader(letters{}, n)}
}

// letters is an endless body.
type letters struct{}

func (letters) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'w'
	}
	return len(b), nil
}

// serveHTTP2 starts the standard library's server on connections handed over.
func (s *server) serveHTTP2() *http.Server {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	h := &http.Server{
		Handler: http.HandlerFunc(s.answerHTTP2), Protocols: p,
		ReadHeaderTimeout: 10 * time.Second,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 1000},
	}
	go func() { _ = h.Serve(s.h2) }() // ends with Close, and says just that
	return h
}

func (s *server) answerHTTP2(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	fail := s.plant.Meet()
	if isGRPC(r) {
		s.answerGRPC(told(w, r, began), r, fail)
		return
	}
	sent, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	c := choose(r.Method, r.URL.Path, sent)
	if fail {
		c = content{http.StatusServiceUnavailable, 0, http.NoBody}
	}
	h := w.Header()
	h.Set("Server", serverName)
	h.Set(headerIdentity, s.identity)
	h.Set("Content-Length", strconv.FormatInt(c.size, 10))
	if peer := r.Header.Get(headerXFCC); peer != "" {
		h.Set(headerPeer, peer)
	}
	if _, ok := model.TracedNumber(r.Header.Get(model.HeaderRequestID)); ok {
		h.Set(model.HeaderTiming, string(model.AppendTiming(nil, model.TimingApp, time.Since(began).Nanoseconds())))
	}
	w.WriteHeader(c.status)
	if r.Method != http.MethodHead {
		_, _ = io.Copy(w, c.body) // the client may be gone
	}
}

// handover is a listener for connections that have been accepted elsewhere.
type handover struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newHandover(addr net.Addr) *handover {
	return &handover{addr: addr, conns: make(chan net.Conn), done: make(chan struct{})}
}

func (h *handover) give(c net.Conn) {
	select {
	case h.conns <- c:
	case <-h.done:
		_ = c.Close()
	}
}

// Accept waits for the next connection.
func (h *handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept; it may be called twice.
func (h *handover) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

// Addr is that of the real listener.
func (h *handover) Addr() net.Addr { return h.addr }

// begun is a connection of which something has been read already.
type begun struct {
	net.Conn
	in *bufio.Reader
}

func (b *begun) Read(p []byte) (int, error) { return b.in.Read(p) }
