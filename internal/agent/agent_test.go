package agent_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/agent"
	"github.com/windtunnel/windtunnel/internal/load/http1"
	"github.com/windtunnel/windtunnel/internal/model"
)

var protocols = agent.Protocols{http1.Plugin()}

// start runs an agent for the length of the test.
func start(t *testing.T) *agent.Client {
	t.Helper()
	client, pipe := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- agent.Serve(t.Context(), pipe, protocols) }()
	c := agent.Dial(client)
	t.Cleanup(func() {
		_ = c.Close()
		if err := <-done; err != nil {
			t.Errorf("the agent ended with: %v", err)
		}
	})
	return c
}

func server(t *testing.T, h http.HandlerFunc) netip.AddrPort {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return netip.MustParseAddrPort(s.Listener.Addr().String())
}

func answer(w http.ResponseWriter, id, body string) {
	w.Header().Set("X-Windtunnel-Identity", id)
	w.Header().Set("Server", "test")
	_, _ = io.WriteString(w, body)
}

func closedLoop(d time.Duration) model.Load {
	return model.Load{
		Name: "test", Protocol: http1.Name, Arrival: model.ArrivalClosed, Connections: 2, Duration: d, Timeout: time.Second,
	}
}

func gateJob(to ...netip.AddrPort) agent.GateJob {
	return agent.GateJob{Load: closedLoop(time.Second), Targets: to, Host: "server", Streak: 6, Timeout: 20 * time.Second, Identities: []string{"a", "b"}}
}

func TestGate(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	a := server(t, func(w http.ResponseWriter, _ *http.Request) {
		switch n.Add(1) {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2, 3:
			answer(w, "stranger", "hello")
		case 4, 5:
			answer(w, "a", "warming up")
		default:
			answer(w, "a", "hello")
		}
	})
	b := server(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, "b", "hello") })
	ready, err := start(t).Gate(t.Context(), gateJob(a, b))
	if err != nil {
		t.Fatal(err)
	}
	if !ready.Passed || ready.Streak != 6 || ready.Wanted != 6 || ready.Attempts < 8 || ready.Took <= 0 {
		t.Errorf("got %+v", ready)
	}
	if ready.Payload != "crc32c:9a71bb4c/5" || ready.BodyBytes != 5 || ready.Headers["server"] != "test" {
		t.Errorf("payload %q of %d bytes, headers %v", ready.Payload, ready.BodyBytes, ready.Headers)
	}
	if ready.Responders["a"] < 3 || ready.Responders["b"] < 3 || ready.Responders["stranger"] != 0 {
		t.Errorf("responders %v", ready.Responders)
	}
	if !strings.Contains(ready.LastError, "body has changed") && !strings.Contains(ready.LastError, "stranger") {
		t.Errorf("last error %q", ready.LastError)
	}
}

func TestGateThatDoesNotPass(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"bad status":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }, "404"},
		"stranger":    {func(w http.ResponseWriter, _ *http.Request) { answer(w, "c", "hello") }, `answered by "c"`},
		"no identity": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }, `answered by ""`},
		"other bodies": {func(w http.ResponseWriter, _ *http.Request) {
			answer(w, "a", strconv.FormatInt(time.Now().UnixNano(), 10))
		}, "body has changed"},
		"no answer": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "timeout"},
		"cut short": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			answer(w, "a", "hello")
		}, "EOF"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := gateJob(server(t, tt.handler))
			j.Timeout, j.Load.Timeout = time.Second, 100*time.Millisecond
			ready, err := start(t).Gate(t.Context(), j)
			if err != nil {
				t.Fatal(err)
			}
			if ready.Passed || ready.Attempts == 0 || !strings.Contains(ready.LastError, tt.want) {
				t.Errorf("passed %v after %d attempts in %s, last error %q, want %q", ready.Passed, ready.Attempts, ready.Took, ready.LastError, tt.want)
			}
		})
	}
}

func TestLoadAfterGate(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	to := server(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, "a", "hello") })
	c := start(t)
	ready, err := c.Gate(t.Context(), gateJob(to))
	if err != nil {
		t.Fatal(err)
	}
	var windows []model.Window
	var last agent.Progress
	r, err := c.Load(t.Context(), agent.LoadJob{
		Load: closedLoop(500 * time.Millisecond), Targets: []netip.AddrPort{to}, Host: "server",
		Warmup: 200 * time.Millisecond, Payload: ready.Payload, Identities: []string{"a", "b"},
	}, func(w model.Window) { windows = append(windows, w) }, func(p agent.Progress) { last = p })
	if err != nil {
		t.Fatal(err)
	}
	if len(windows) != 1 || windows[0].Duration() != 500*time.Millisecond {
		t.Errorf("windows %v", windows)
	}
	if last.Succeeded == 0 || last.Due < last.Succeeded || last.P50 <= 0 || last.P99 < last.P50 {
		t.Errorf("last progress %+v", last)
	}
	if r.Succeeded == 0 || r.Due != r.Succeeded || r.PayloadChanged != 0 || r.Response.Count() != r.Succeeded {
		t.Errorf("due %d, succeeded %d, failed %v, changed %d", r.Due, r.Succeeded, r.Failed, r.PayloadChanged)
	}
	if diff := cmp.Diff(map[string]uint64{"a": r.Succeeded}, r.Responders); diff != "" {
		t.Errorf("responders (-want +got):\n%s", diff)
	}
}

func TestCancelLeavesTheAgentUsable(t *testing.T) {
	t.Parallel()
	to := server(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, "a", "hello") })
	c := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := c.Load(ctx, agent.LoadJob{Load: closedLoop(time.Hour), Targets: []netip.AddrPort{to}, Host: "server"},
		func(model.Window) { cancel() }, nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want %v", err, context.Canceled)
	}
	// The load ends within 50 ms; until then the agent says that it is busy.
	for {
		ready, err := c.Gate(t.Context(), gateJob(to))
		if err != nil && strings.Contains(err.Error(), "another command") {
			continue
		}
		if err != nil || !ready.Passed {
			t.Errorf("passed %v: %v", ready.Passed, err)
		}
		return
	}
}

func TestJobsThatCannotRun(t *testing.T) {
	t.Parallel()
	to := netip.MustParseAddrPort("127.0.0.1:1")
	c := start(t)
	bad := gateJob(to)
	bad.Load.Protocol = "gopher"
	if _, err := c.Gate(t.Context(), bad); err == nil || !strings.Contains(err.Error(), `does not speak "gopher", only http1`) {
		t.Errorf("gate: got %v", err)
	}
	if _, err := c.Gate(t.Context(), gateJob()); err == nil || !strings.Contains(err.Error(), "targets") {
		t.Errorf("gate without targets: got %v", err)
	}
	if _, err := c.Load(t.Context(), agent.LoadJob{Load: closedLoop(time.Second), Host: "server"}, nil, nil); err == nil || !strings.Contains(err.Error(), "no target") {
		t.Errorf("load without targets: got %v", err)
	}
}

func TestServeSurvivesGarbage(t *testing.T) {
	t.Parallel()
	ours, pipe := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- agent.Serve(t.Context(), pipe, protocols) }()
	in := bufio.NewReader(ours)
	for line, want := range map[string]string{
		"hello\n":           "is no command",
		"{}\n":              "either a gate or a load",
		"{\"id\": 3}\n":     "either a gate or a load",
		"{\"id\": \"x\"}\n": "is no command",
		"\x00\xff{\n":       "is no command",
		"{\"id\":1,\"gate\":{\"Load\":{\"protocol\":\"x\"}}}\n": "does not speak",
	} {
		if _, err := io.WriteString(ours, line); err != nil {
			t.Fatal(err)
		}
		got, err := in.ReadString('\n')
		if err != nil || !strings.Contains(got, want) {
			t.Errorf("to %q it said %q (%v), want %q", line, got, err, want)
		}
	}
	_ = ours.Close()
	if err := <-done; err != nil {
		t.Errorf("the end of the pipe is no error: %v", err)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	_, pipe := net.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- agent.Serve(ctx, pipe, protocols) }()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("got %v", err)
	}
}

func TestClientNeedsAnAgent(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		says string
		want string
	}{
		"garbage":     {"panic: oh no\n", "panic: oh no"},
		"ends":        {"", "the agent has ended"},
		"ends midway": {"{\"id\":1", "no message"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, pipe := net.Pipe()
			go func() {
				if _, err := bufio.NewReader(pipe).ReadString('\n'); err == nil {
					_, _ = io.WriteString(pipe, tt.says)
				}
				_ = pipe.Close()
			}()
			c := agent.Dial(client)
			if _, err := c.Gate(t.Context(), gateJob(netip.MustParseAddrPort("127.0.0.1:1"))); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			_ = c.Close()
		})
	}
}
