package hop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Pool bounds the connections that a server keeps to one service. Of those
// that are idle the one that was used last is taken.
type Pool struct {
	// Connections is the most there are at a time; further requests wait for
	// one. 0: no bound.
	Connections int           `json:"connections,omitempty"`
	Idle        int           `json:"idle"`            // the most that are kept idle
	IdleTimeout time.Duration `json:"idle_timeout_ns"` // how long one is kept idle
	Fresh       bool          `json:"fresh,omitempty"` // each request has a connection of its own
}

// Peers are the services that a server calls.
type Peers struct {
	clients map[string]*http.Client
	hosts   map[string]string
}

const (
	dialWithin = 5 * time.Second
	maxAnswer  = 16 << 20
)

// NewPeers makes clients of all services of a job. Of several addresses each
// new connection goes to the next.
func NewPeers(j Job, p Pool) *Peers {
	all := &Peers{clients: map[string]*http.Client{}, hosts: j.Hosts}
	for service, addrs := range j.Peers {
		t := &http.Transport{
			DialContext: newRounds(j.Identity, addrs).dial, DisableCompression: true,
			MaxConnsPerHost: p.Connections, MaxIdleConnsPerHost: p.Idle, IdleConnTimeout: p.IdleTimeout, DisableKeepAlives: p.Fresh,
		}
		if p.Idle == 0 {
			t.MaxIdleConnsPerHost = -1 // 0 would be the library's default
		}
		stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		all.clients[service] = &http.Client{Transport: t, CheckRedirect: stay}
	}
	return all
}

// Close closes what is idle.
func (p *Peers) Close() {
	if p == nil {
		return
	}
	for _, c := range p.clients {
		c.CloseIdleConnections()
	}
}

// rounds gives each new connection the next of several addresses.
type rounds struct {
	addrs []netip.AddrPort
	next  atomic.Uint32
}

// newRounds lets servers begin with different addresses.
func newRounds(identity string, addrs []netip.AddrPort) *rounds {
	h := fnv.New32a()
	_, _ = h.Write([]byte(identity)) // never fails
	r := &rounds{addrs: addrs}
	r.next.Store(h.Sum32())
	return r
}

func (r *rounds) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	to := r.addrs[(r.next.Add(1)-1)%uint32(len(r.addrs))] //nolint:gosec // a few
	return (&net.Dialer{Timeout: dialWithin}).DialContext(ctx, network, to.String())
}

// Call is what a server asks another.
type Call struct {
	Service string
	Method  string // empty: GET
	Path    string
	Body    []byte
	Timeout time.Duration // of one attempt
	// Attempts is how often it is tried, at least once, until an answer is right:
	// its status is under 400.
	Attempts int
}

// Result is what came of a call: the last answer, or why there is none.
type Result struct {
	Answer

	Err  error
	hops string
}

// OK says whether the answer is right.
func (r *Result) OK() bool { return r.Err == nil && r.Status < http.StatusBadRequest }

// Problem says in words what is wrong; empty: nothing.
func (r *Result) Problem() string {
	switch {
	case r.Err != nil:
		return r.Err.Error()
	case r.OK():
		return ""
	}
	return fmt.Sprintf("status %d", r.Status)
}

// Call asks another service.
func (e *Exchange) Call(ctx context.Context, c Call) Result {
	return e.CallAll(ctx, []Call{c})[0]
}

// CallAll asks several services at a time. The path of hops has them in the
// order of the calls.
func (e *Exchange) CallAll(ctx context.Context, calls []Call) []Result {
	all := make([]Result, len(calls))
	var wg sync.WaitGroup
	for i, c := range calls[1:] {
		wg.Go(func() { all[i+1] = e.try(ctx, c) })
	}
	all[0] = e.try(ctx, calls[0])
	wg.Wait()
	for i := range all {
		e.Hop(all[i].hops)
	}
	return all
}

func (e *Exchange) try(ctx context.Context, c Call) Result {
	var r Result
	for range max(1, c.Attempts) {
		if r = e.once(ctx, c); r.OK() || ctx.Err() != nil {
			break
		}
	}
	return r
}

// handedOn are the header fields that belong to a request as a whole: those
// that Istio asks applications to hand on, and the W3C's.
func handedOn() []string {
	return []string{
		"X-Request-Id", "X-B3-Traceid", "X-B3-Spanid", "X-B3-Parentspanid", "X-B3-Sampled", "X-B3-Flags", "B3",
		"Traceparent", "Tracestate", "X-Ot-Span-Context", "End-User",
	}
}

func (e *Exchange) once(ctx context.Context, c Call) Result {
	if e.peers == nil || e.peers.clients[c.Service] == nil {
		return Result{Err: fmt.Errorf("service %s is none that this server knows", c.Service)}
	}
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	method := c.Method
	if method == "" {
		method = http.MethodGet
	}
	// The host is the service's name, as in a cluster; rounds says where it is.
	host := cmp.Or(e.peers.hosts[c.Service], c.Service)
	r, err := http.NewRequestWithContext(ctx, method, "http://"+host+c.Path, strings.NewReader(string(c.Body)))
	if err != nil {
		return Result{Err: fmt.Errorf("asking %s: %w", c.Service, err)}
	}
	if len(c.Body) == 0 {
		r.Body, r.GetBody, r.ContentLength = http.NoBody, nil, 0
	}
	for _, name := range handedOn() {
		if v := e.Request.Header.Get(name); v != "" {
			r.Header.Set(name, v)
		}
	}
	from := time.Now()
	resp, err := e.peers.clients[c.Service].Do(r)
	if err != nil {
		return Result{Err: why(err)}
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return Result{Err: fmt.Errorf("reading the answer: %w", err)}
	}
	e.note(asked{c.Service, from, time.Now(), resp.Header.Get(model.HeaderTiming)})
	a := Answer{Status: resp.StatusCode, Type: resp.Header.Get("Content-Type"), Body: body, Header: resp.Header}
	return Result{Answer: a, hops: resp.Header.Get(HeaderHops)}
}

// why shortens what the library says, to what matters.
func why(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("timed out")
	}
	if refused, ok := errors.AsType[*net.OpError](err); ok {
		return refused
	}
	return err
}
