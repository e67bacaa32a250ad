package hop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/sys"
)

// serving serves on loopback for the length of the test.
func serving(t *testing.T, identity string, peers *Peers, h Handler) netip.AddrPort {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ready, done := make(chan net.Addr, 1), make(chan error, 1)
	j := Job{App: "test", Identity: identity, Listen: netip.MustParseAddrPort("127.0.0.1:0")}
	go func() { done <- Serve(ctx, j, peers, h, func(a net.Addr) { ready <- a }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serving ended with: %v", err)
		}
		peers.Close()
	})
	select {
	case a := <-ready:
		return netip.MustParseAddrPort(a.String())
	case err := <-done:
		t.Fatal(err)
		return netip.AddrPort{}
	}
}

func ok(context.Context, *Exchange) Answer { return Text(http.StatusOK, "ok") }

// calling is an exchange of a server that nobody has asked.
func calling(t *testing.T, p Pool, services map[string][]netip.AddrPort) *Exchange {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Request-Id", "42")
	peers := NewPeers(Job{Identity: "me", Peers: services}, p)
	t.Cleanup(peers.Close)
	return &Exchange{Request: r, peers: peers}
}

func one(at netip.AddrPort) map[string][]netip.AddrPort {
	return map[string][]netip.AddrPort{"s": {at}}
}

var usual = Pool{Idle: usualIdle, IdleTimeout: usualTimeout}

func TestPathOfHops(t *testing.T) {
	t.Parallel()
	leaf := serving(t, "leaf-0", nil, func(ctx context.Context, e *Exchange) Answer {
		if e.Request.Host != "s" || e.Request.Header.Get("X-Request-Id") != "42" {
			return Text(http.StatusBadRequest, "")
		}
		return ok(ctx, e)
	})
	slow := make(chan struct{})
	middle := serving(t, "middle-0", NewPeers(Job{Peers: one(leaf)}, usual), func(ctx context.Context, e *Exchange) Answer {
		if r := e.Call(ctx, Call{Service: "s", Path: "/"}); !r.OK() {
			return Text(http.StatusBadGateway, r.Problem())
		}
		<-slow
		return ok(ctx, e)
	})
	fast := serving(t, "fast-0", nil, func(ctx context.Context, e *Exchange) Answer { close(slow); return ok(ctx, e) })
	e := calling(t, usual, map[string][]netip.AddrPort{"middle": {middle}, "fast": {fast}})
	for i, r := range e.CallAll(t.Context(), []Call{{Service: "middle", Path: "/"}, {Service: "fast", Path: "/"}}) {
		if !r.OK() || string(r.Body) != "ok" {
			t.Errorf("call %d: %s", i, r.Problem())
		}
	}
	if got := strings.Join(e.hops, ","); got != "middle-0,leaf-0,fast-0" {
		t.Errorf("hops %s, not in the order of calls", got)
	}
}

// A service is asked by the name that its cluster has for it.
func TestHost(t *testing.T) {
	t.Parallel()
	at := serving(t, "s-0", nil, func(_ context.Context, e *Exchange) Answer { return Text(http.StatusOK, e.Request.Host) })
	for host, hosts := range map[string]map[string]string{"s": nil, "s-7": {"s": "s-7"}} {
		middle := serving(t, "middle-0", NewPeers(Job{Peers: one(at), Hosts: hosts}, usual), func(ctx context.Context, e *Exchange) Answer {
			r := e.Call(ctx, Call{Service: "s", Path: "/"})
			return Text(r.Status, string(r.Body))
		})
		e := calling(t, usual, map[string][]netip.AddrPort{"middle": {middle}})
		if r := e.Call(t.Context(), Call{Service: "middle", Path: "/"}); string(r.Body) != host {
			t.Errorf("asked for %q: %s", r.Body, r.Problem())
		}
	}
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	at := serving(t, "s-0", nil, func(context.Context, *Exchange) Answer {
		if asked.Add(1) < 3 {
			return Text(http.StatusServiceUnavailable, "")
		}
		return Text(http.StatusOK, "")
	})
	for _, test := range []struct {
		attempts, asked int32
		problem, hops   string
	}{{0, 1, "status 503", "s-0"}, {2, 2, "status 503", "s-0"}, {5, 3, "", "s-0"}} {
		asked.Store(0)
		e := calling(t, usual, one(at))
		r := e.Call(t.Context(), Call{Service: "s", Path: "/", Attempts: int(test.attempts)})
		if got := asked.Load(); got != test.asked || r.Problem() != test.problem || strings.Join(e.hops, ",") != test.hops {
			t.Errorf("%d attempts: asked %d times, %q, hops %v", test.attempts, got, r.Problem(), e.hops)
		}
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	hanging := serving(t, "s-0", nil, func(ctx context.Context, e *Exchange) Answer { <-ctx.Done(); return ok(ctx, e) })
	e := calling(t, usual, map[string][]netip.AddrPort{"hanging": {hanging}, "nobody": {netip.MustParseAddrPort("127.0.0.1:1")}})
	for service, want := range map[string]string{"hanging": "timed out", "nobody": "connection refused", "stranger": "none that this server knows"} {
		r := e.Call(t.Context(), Call{Service: service, Path: "/", Timeout: 50 * time.Millisecond})
		if !strings.Contains(r.Problem(), want) || r.OK() || len(e.hops) > 0 {
			t.Errorf("%s: %q, hops %v", service, r.Problem(), e.hops)
		}
	}
}

// counting counts the connections of a server that answers when it is let.
func counting(t *testing.T, answer func()) (at netip.AddrPort, connections *sync.Map) {
	t.Helper()
	connections = &sync.Map{}
	return serving(t, "s-0", nil, func(ctx context.Context, e *Exchange) Answer {
		connections.Store(e.Request.RemoteAddr, true)
		answer()
		return ok(ctx, e)
	}), connections
}

func size(m *sync.Map) (n int) {
	m.Range(func(any, any) bool { n++; return true })
	return n
}

func TestPool(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pool Pool
		want int
	}{
		"bounded":     {Pool{Connections: 2, Idle: 2, IdleTimeout: time.Minute}, 2},
		"kept":        {Pool{Connections: 1, Idle: 1, IdleTimeout: time.Minute}, 1},
		"fresh":       {Pool{Fresh: true}, 8},
		"none idle":   {Pool{IdleTimeout: time.Minute}, 8},
		"unlimited":   {usual, 8},
		"timed out":   {Pool{Idle: 1, IdleTimeout: time.Nanosecond}, 8},
		"two at most": {Pool{Connections: 2, Fresh: true}, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			together := name == "bounded" || name == "unlimited"
			var busy, most atomic.Int32
			all := make(chan struct{})
			at, connections := counting(t, func() {
				n := busy.Add(1)
				for old := most.Load(); n > old; old = most.Load() {
					most.CompareAndSwap(old, n)
				}
				if name == "unlimited" && n == 8 {
					close(all)
				}
				if name == "unlimited" {
					<-all
				}
				busy.Add(-1)
			})
			e := calling(t, test.pool, one(at))
			calls := make([]Call, 8)
			for i := range calls {
				calls[i] = Call{Service: "s", Path: "/"}
			}
			if together {
				e.CallAll(t.Context(), calls)
			} else {
				for _, c := range calls {
					if r := e.Call(t.Context(), c); !r.OK() {
						t.Fatal(r.Problem())
					}
				}
			}
			if n := size(connections); n != test.want && (name != "bounded" || n == 0 || n > 2) || test.pool.Connections > 0 && int(most.Load()) > test.pool.Connections {
				t.Errorf("%d connections, want %d; %d at a time", n, test.want, most.Load())
			}
		})
	}
}

// Each new connection goes to the next address.
func TestRounds(t *testing.T) {
	t.Parallel()
	var at []netip.AddrPort
	for i := range 3 {
		at = append(at, serving(t, fmt.Sprintf("s-%d", i), nil, ok))
	}
	e := calling(t, Pool{Fresh: true}, map[string][]netip.AddrPort{"s": at})
	for range 6 {
		e.Call(t.Context(), Call{Service: "s", Path: "/"})
	}
	counts := map[string]int{}
	for _, h := range e.hops {
		counts[h]++
	}
	if diff := cmp.Diff(map[string]int{"s-0": 2, "s-1": 2, "s-2": 2}, counts); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestGRPCIsRefused(t *testing.T) {
	t.Parallel()
	at := serving(t, "s-0", nil, ok)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+at.String()+"/windtunnel.echo.v1.Echo/Unary", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/grpc")
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: p}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if resp.Header.Get("Grpc-Status") != "12" || !strings.Contains(resp.Header.Get("Grpc-Message"), "http1") || resp.Header.Get(HeaderIdentity) != "s-0" {
		t.Errorf("%v", resp.Header)
	}
}

func TestServeRefuses(t *testing.T) {
	t.Parallel()
	taken := serving(t, "s-0", nil, ok)
	for want, j := range map[string]Job{
		"cannot be a header": {Identity: "a,b"},
		"listening on":       {Identity: "a", Listen: taken},
	} {
		if err := Serve(t.Context(), j, nil, ok, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := Main(t.Context(), t.TempDir()+"/none", nil); err == nil {
		t.Error("no file, no error")
	}
}

func TestBurnIsCPUTime(t *testing.T) {
	t.Parallel()
	const d = 20 * time.Millisecond
	done := make(chan error, 1)
	var used time.Duration
	go func() { // a thread of its own: LockOSThread is not undone
		before, err := threadCPU()
		err = errors.Join(err, Burn(t.Context(), d))
		after, failure := threadCPU()
		used = after - before
		done <- errors.Join(err, failure)
	}()
	if err := <-done; err != nil || used < d || used > 3*d {
		t.Errorf("%v of CPU for %v; %v", used, d, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Burn(ended, time.Hour); err != nil {
		t.Error(err)
	}
	Wait(ended, time.Hour)
}

// threadCPU keeps the goroutine on its thread until it ends.
func threadCPU() (time.Duration, error) {
	runtime.LockOSThread()
	return sys.ThreadCPU()
}

func TestExponential(t *testing.T) {
	t.Parallel()
	a, b := NewWorker("a"), NewWorker("a")
	var sum time.Duration
	const n = 10_000
	for range n {
		d := a.Exponential(time.Millisecond)
		if d != b.Exponential(time.Millisecond) {
			t.Fatal("the same server has another sequence")
		}
		sum += d
	}
	if mean := sum / n; mean < 950*time.Microsecond || mean > 1050*time.Microsecond {
		t.Errorf("mean %s, want 1ms", mean)
	}
}

func FuzzReadJob(f *testing.F) {
	f.Add([]byte(`{"app": "graph", "identity": "a-0", "listen": "0.0.0.0:80", "peers": {"b": ["10.0.0.1:80"]}, "config": {}}`))
	f.Add([]byte(`{} {}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		j, err := ReadJob(data)
		if err != nil {
			return
		}
		for service, at := range j.Peers {
			if e := (&Exchange{peers: NewPeers(j, usual)}); len(at) > 0 && e.peers.clients[service] == nil {
				t.Errorf("no client of %q", service)
			}
		}
	})
}
