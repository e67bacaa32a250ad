package hop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/impair"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// Answer is what a server says.
type Answer struct {
	Status int
	Type   string // content type; empty: plain text
	Body   []byte
	Header http.Header // further fields
}

// Text is an answer in words.
func Text(status int, text string) Answer { return Answer{Status: status, Body: []byte(text)} }

// JSON is an answer in JSON.
func JSON(status int, body []byte) Answer {
	return Answer{Status: status, Type: "application/json", Body: body}
}

// Handler is what a server does: it answers one request.
type Handler func(ctx context.Context, e *Exchange) Answer

// Exchange is one request while it is served.
type Exchange struct {
	Request *http.Request
	Body    []byte

	peers  *Peers
	hops   []string
	traced bool
	mu     sync.Mutex // guards asked
	asked  []asked
}

// Hop adds who was asked, and whom that has asked.
func (e *Exchange) Hop(path string) {
	if path != "" {
		e.hops = append(e.hops, path)
	}
}

const (
	maxRequest   = 1 << 20
	headerWithin = 10 * time.Second
)

// Serve answers until the context ends, which is no error: HTTP/1.1, and
// HTTP/2 without TLS. peers may be nil where the server calls nobody. ready,
// unless it is nil, is told where it listens.
func Serve(ctx context.Context, j Job, peers *Peers, answer Handler, ready func(net.Addr)) error {
	if j.Identity == "" || strings.ContainsAny(j.Identity, "\r\n,") {
		return fmt.Errorf("%s: the identity %q cannot be a header", j.App, j.Identity)
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", j.Listen.String())
	if err != nil {
		return fmt.Errorf("%s: listening on %s: %w", j.App, j.Listen, err)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler: &handler{job: j, peers: peers, answer: answer}, Protocols: protocols, ReadHeaderTimeout: headerWithin,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // ends Serve
	defer stop()
	if ready != nil {
		ready(ln.Addr())
	}
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("%s: serving on %s: %w", j.App, j.Listen, err)
	}
	return nil
}

type handler struct {
	job    Job
	peers  *Peers
	answer Handler
}

// ServeHTTP answers with the identity and the path of hops.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	to := w.Header()
	to.Set(HeaderIdentity, h.job.Identity)
	if peer := r.Header.Get(headerXFCC); peer != "" {
		to.Set(HeaderPeer, peer)
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		refuseGRPC(to, h.job.App)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	e := &Exchange{Request: r, Body: body, peers: h.peers}
	_, e.traced = model.TracedNumber(r.Header.Get(model.HeaderRequestID))
	a := h.answer(r.Context(), e)
	to.Set(HeaderHops, strings.Join(append([]string{h.job.Identity}, e.hops...), ","))
	maps.Copy(to, a.Header)
	if e.traced {
		to.Set(model.HeaderTiming, e.timing(h.job.Service, began, time.Now()))
	}
	if a.Type == "" {
		a.Type = "text/plain; charset=utf-8"
	}
	to.Set("Content-Type", a.Type)
	to.Set("Content-Length", strconv.Itoa(len(a.Body)))
	w.WriteHeader(a.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(a.Body) // the client may be gone
	}
}

// refuseGRPC says in gRPC's way that only HTTP is spoken: a status without an answer.
func refuseGRPC(to http.Header, app string) {
	const unimplemented = "12"
	to.Set("Content-Type", "application/grpc")
	to.Set("Grpc-Status", unimplemented)
	to.Set("Grpc-Message", "the app "+app+" speaks HTTP, not gRPC: load it with the protocol http1 or http2")
}

// Main is a server as a pod's process: it reads its job from a file and serves
// until the context ends. what makes of the job what the server does, and how
// it keeps its connections.
func Main(ctx context.Context, file string, what func(Job) (Handler, Pool, error)) error {
	data, err := sys.ReadFile(file)
	if err != nil {
		return err
	}
	j, err := ReadJob(data)
	if err != nil {
		return err
	}
	handler, pool, err := what(j)
	if err != nil {
		return fmt.Errorf("%s: %w", j.App, err)
	}
	peers := NewPeers(j, pool)
	defer peers.Close()
	suffers := impair.NewServer(model.Impairment{})
	if err := suffers.Listen(ctx); err != nil {
		return fmt.Errorf("%s: %w", j.App, err)
	}
	return Serve(ctx, j, peers, impaired(handler, suffers), nil)
}

// impaired is a server that the fault server can act on.
func impaired(well Handler, suffers *impair.Server) Handler {
	return func(ctx context.Context, e *Exchange) Answer {
		if suffers.Meet() {
			return Text(http.StatusServiceUnavailable, "made to fail\n")
		}
		return well(ctx, e)
	}
}
