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
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// Options are what a server is started with.
type Options struct {
	Listen   string // host:port
	Identity string // stamped on every answer
	// Ready, if set, is called with the address once the server listens.
	Ready func(addr net.Addr)
}

// The server's own headers.
const (
	headerIdentity = "x-windtunnel-identity"
	headerPeer     = "x-windtunnel-peer"
	headerXFCC     = "x-forwarded-client-cert" // set by sidecars: who the client proved to be
)

const (
	body      = "windtunnel echo\n"
	maxHeader = 64 << 10
	maxBody   = 64 << 20
	h2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

// Serve answers until the context ends.
//
//	GET /            a fixed body of 16 bytes
//	GET /size/N      N bytes, at most 64 MiB
//	POST, PUT        the request's own body
func Serve(ctx context.Context, o Options) error {
	debug.SetGCPercent(400) // little is allocated; collect seldom
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("echo: listening on %s: %w", o.Listen, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	if o.Ready != nil {
		o.Ready(ln.Addr())
	}
	s := newServer(o)
	defer s.http2.Close() //nolint:errcheck // nothing to do about it at the end
	for {
		c, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("echo: accepting: %w", err)
		}
		go s.connection(c)
	}
}

type server struct {
	identity string
	fixed    []byte // the whole answer to GET /
	http2    *http.Server
	h2conns  *handover
}

func newServer(o Options) *server {
	s := &server{identity: o.Identity, h2conns: &handover{conns: make(chan net.Conn), done: make(chan struct{})}}
	s.fixed = fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nserver: windtunnel-echo\r\n%s: %s\r\ncontent-length: %d\r\n\r\n%s", headerIdentity, o.Identity, len(body), body)
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	s.http2 = &http.Server{Handler: http.HandlerFunc(s.serveHTTP2), Protocols: p, ReadHeaderTimeout: 10 * time.Second}
	go s.http2.Serve(s.h2conns) //nolint:errcheck // ends with Close
	return s
}

// connection serves HTTP/1.1, or hands over to HTTP/2 if the client begins so.
func (s *server) connection(c net.Conn) {
	in := bufio.NewReaderSize(c, 16<<10)
	first, err := in.Peek(4)
	if err == nil && string(first) == h2Preface[:4] {
		s.h2conns.give(&prefixed{Conn: c, in: in})
		return
	}
	out := bufio.NewWriterSize(c, 16<<10)
	for {
		again, err := s.exchange(in, out)
		if err != nil || !again {
			break
		}
		if in.Buffered() > 0 {
			continue // pipelined: answer together
		}
		if out.Flush() != nil {
			break
		}
	}
	_ = out.Flush() // the client may be gone
	_ = c.Close()
}

// request is what matters of one.
type request struct {
	method, path []byte
	peer         []byte
	length       int64
	chunked      bool
	closing      bool
}

// exchange reads one request and writes its answer; again says whether the
// connection may carry another.
func (s *server) exchange(in *bufio.Reader, out *bufio.Writer) (again bool, err error) {
	var r request
	if err := r.read(in); err != nil {
		if errors.Is(err, io.EOF) {
			return false, err
		}
		_, err := out.WriteString("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
		return false, err
	}
	if len(r.peer) == 0 && r.length == 0 && !r.chunked && len(r.path) == 1 && string(r.method) == "GET" {
		_, err := out.Write(s.fixed)
		return !r.closing, err
	}
	return !r.closing, s.answer(&r, in, out)
}

func (r *request) read(in *bufio.Reader) error {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	var ok bool
	if r.method, r.path, ok = requestLine(line); !ok {
		return errors.New("no HTTP/1.1 request line")
	}
	// The line's bytes are overwritten by further reads.
	if len(r.path) > 1 || len(r.method) != 3 {
		r.method, r.path = bytes.Clone(r.method), bytes.Clone(r.path)
	} else {
		r.method, r.path = methodGet(r.method), []byte("/")
	}
	for total := 0; ; {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if total += len(line); total > maxHeader {
			return errors.New("the header is over 64 KiB")
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return nil
		}
		if err := r.field(line); err != nil {
			return err
		}
	}
}

func methodGet(m []byte) []byte {
	if string(m) == "GET" {
		return []byte("GET")
	}
	return bytes.Clone(m)
}

func requestLine(line []byte) (method, path []byte, ok bool) {
	line = bytes.TrimRight(line, "\r\n")
	method, rest, ok := bytes.Cut(line, []byte(" "))
	if !ok {
		return nil, nil, false
	}
	path, version, ok := bytes.Cut(rest, []byte(" "))
	return method, path, ok && (string(version) == "HTTP/1.1" || string(version) == "HTTP/1.0") && len(path) > 0
}

func (r *request) field(line []byte) error {
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok {
		return errors.New("a header without a colon")
	}
	switch value = bytes.TrimSpace(value); len(name) {
	case len("content-length"):
		if bytes.EqualFold(name, []byte("content-length")) {
			n, err := strconv.ParseInt(string(value), 10, 64)
			if err != nil || n < 0 || n > maxBody {
				return errors.New("a content-length that is none")
			}
			r.length = n
		}
	case len("transfer-encoding"):
		if bytes.EqualFold(name, []byte("transfer-encoding")) {
			r.chunked = bytes.EqualFold(value, []byte("chunked"))
		}
	case len("connection"):
		if bytes.EqualFold(name, []byte("connection")) {
			r.closing = bytes.EqualFold(value, []byte("close"))
		}
	case len(headerXFCC):
		if bytes.EqualFold(name, []byte(headerXFCC)) {
			r.peer = bytes.Clone(value)
		}
	}
	return nil
}

// answer is the way of everything but a plain GET /.
func (s *server) answer(r *request, in *bufio.Reader, out *bufio.Writer) error {
	sent, err := r.body(in)
	if err != nil {
		return err
	}
	status, size, payload := s.choose(string(r.method), string(r.path), sent)
	fmt.Fprintf(out, "HTTP/1.1 %d %s\r\nserver: windtunnel-echo\r\n%s: %s\r\ncontent-length: %d\r\n", status, http.StatusText(status), headerIdentity, s.identity, size)
	if peer := Peer(string(r.peer)); peer != "" {
		fmt.Fprintf(out, "%s: %s\r\n", headerPeer, peer)
	}
	if _, err := out.WriteString("\r\n"); err != nil || string(r.method) == "HEAD" {
		return err
	}
	_, err = io.Copy(out, payload)
	return err
}

func (r *request) body(in *bufio.Reader) ([]byte, error) {
	var src io.Reader = io.LimitReader(in, r.length)
	if r.chunked {
		req, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"), in)))
		if err != nil {
			return nil, err
		}
		src = io.LimitReader(req.Body, maxBody)
		r.closing = true // the parser above may have read ahead
	}
	return io.ReadAll(src)
}

func (s *server) choose(method, path string, sent []byte) (status int, size int64, payload io.Reader) {
	if method == http.MethodPost || method == http.MethodPut {
		return http.StatusOK, int64(len(sent)), bytes.NewReader(sent)
	}
	if rest, ok := strings.CutPrefix(path, "/size/"); ok {
		n, err := strconv.ParseInt(rest, 10, 64)
		if err != nil || n < 0 || n > maxBody {
			return http.StatusBadRequest, 0, strings.NewReader("")
		}
		return http.StatusOK, n, io.LimitReader(letters{}, n)
	}
	return http.StatusOK, int64(len(body)), strings.NewReader(body)
}

// letters is an endless body.
type letters struct{}

func (letters) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'w'
	}
	return len(b), nil
}

// Peer finds the client's proven identity in x-forwarded-client-cert; "" if
// there is none.
func Peer(xfcc string) string {
	for _, part := range strings.FieldsFunc(xfcc, func(r rune) bool { return r == ';' || r == ',' }) {
		if uri, ok := strings.CutPrefix(part, "URI="); ok {
			return uri
		}
	}
	return ""
}

func (s *server) serveHTTP2(w http.ResponseWriter, r *http.Request) {
	sent, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	status, size, payload := s.choose(r.Method, r.URL.Path, sent)
	h := w.Header()
	h.Set("Server", "windtunnel-echo")
	h.Set(headerIdentity, s.identity)
	h.Set("Content-Length", strconv.FormatInt(size, 10))
	if peer := Peer(r.Header.Get(headerXFCC)); peer != "" {
		h.Set(headerPeer, peer)
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = io.Copy(w, payload) // the client may be gone
	}
}

// handover is a listener for connections that others have accepted.
type handover struct {
	conns chan net.Conn
	done  chan struct{}
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
	select {
	case <-h.done:
	default:
		close(h.done)
	}
	return nil
}

// Addr is of no use here, but part of net.Listener.
func (h *handover) Addr() net.Addr { return &net.TCPAddr{} }

// prefixed is a connection of which something has been read already.
type prefixed struct {
	net.Conn
	in *bufio.Reader
}

func (p *prefixed) Read(b []byte) (int, error) { return p.in.Read(b) }
