package runner

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/agent"
	"github.com/windtunnel/windtunnel/internal/load/http1"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/plan"
)

// The runner is tested on a target in memory: pods are goroutines, the agent
// is the real one, the server answers on loopback.

type target struct {
	addr netip.AddrPort
	// system answers loads instead of an agent and a server; nil: they do.
	system func(pod string, l model.Load) *model.LoadResult
	mu     sync.Mutex
	sites  int // provisioned and not closed
}

func (t *target) Provision(_ context.Context, topology model.Topology) (model.Site, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sites++
	return &site{target: t, topology: topology}, nil
}

type site struct {
	target   *target
	topology model.Topology
	closed   bool
}

func (s *site) Topology() model.Topology { return s.topology }

func (s *site) Pod(name string) (model.Pod, error) { return &pod{s, name}, nil }

func (s *site) Service(name string) (model.Service, error) { return model.Service{Name: name}, nil }
func (s *site) Logs() map[string][]byte                    { return map[string][]byte{"server-0/app": []byte("log")} }

func (s *site) Close(context.Context) error {
	s.target.mu.Lock()
	defer s.target.mu.Unlock()
	if !s.closed {
		s.target.sites--
	}
	s.closed = true
	return nil
}

type pod struct {
	site *site
	name string
}

func (p *pod) Name() string     { return p.name }
func (p *pod) Addr() netip.Addr { return p.site.target.addr.Addr() }

func (p *pod) Start(context.Context, model.Process) (model.Running, error) {
	ours, theirs := net.Pipe()
	r := &running{pipe: ours, done: make(chan struct{})}
	go func() { //nolint:contextcheck // a process outlives the call that starts it
		defer close(r.done)
		defer theirs.Close() //nolint:errcheck // a pipe in memory
		if p.site.target.system != nil {
			simulate(theirs, func(l model.Load) *model.LoadResult { return p.site.target.system(p.name, l) })
			return
		}
		_ = agent.Serve(context.Background(), theirs, agent.Protocols{http1.Plugin()}) // ends with the pipe
	}()
	return r, nil
}

type running struct {
	pipe io.ReadWriteCloser
	done chan struct{}
}

func (r *running) Done() <-chan struct{}      { return r.done }
func (r *running) Err() error                 { return nil }
func (r *running) Stream() io.ReadWriteCloser { return r.pipe }
func (r *running) Stop(context.Context) error { err := r.pipe.Close(); <-r.done; return err }

// app answers from one server on loopback, or fails.
type app struct {
	addr netip.AddrPort
	err  error
}

func (a app) Deploy(context.Context, model.Site) (model.Endpoints, error) {
	return model.Endpoints{Service: "server", Backends: []model.Backend{{Pod: "server-0", Identity: "server-0", Addr: a.addr}}}, a.err
}

// layer notes when it is deployed and removed.
type layer struct {
	name  string
	notes *[]string
	err   error
}

func (l layer) Deploy(context.Context, model.Site) (func(context.Context) error, error) {
	*l.notes = append(*l.notes, "deploy "+l.name)
	if l.err != nil {
		return nil, l.err
	}
	return func(context.Context) error { *l.notes = append(*l.notes, "remove "+l.name); return nil }, nil
}

type sink struct {
	outcomes []model.Outcome
	frozen   *model.Frozen
	fail     func(n int) error
	calls    int
}

func (s *sink) Outcome(o model.Outcome, _ map[string][]byte) error {
	s.calls++
	if s.fail != nil {
		if err := s.fail(s.calls); err != nil {
			return err
		}
	}
	s.outcomes = append(s.outcomes, o)
	return nil
}

func (s *sink) Freeze(f model.Frozen) error { s.frozen = &f; return nil }

type quiet struct{}

func (quiet) Started(model.Trial, int, int)     {}
func (quiet) Step(model.Trial, string)          {}
func (quiet) Load(model.Trial, agent.Progress)  {}
func (quiet) Finished(*model.Outcome, int, int) {}

func serve(t *testing.T) netip.AddrPort {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close() //nolint:errcheck // the client may be gone
				buf := make([]byte, 4096)
				for {
					if _, err := c.Read(buf); err != nil {
						return
					}
					if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nx-windtunnel-identity: server-0\r\ncontent-length: 2\r\n\r\nok"); err != nil {
						return
					}
				}
			}()
		}
	}()
	return netip.MustParseAddrPort(ln.Addr().String())
}

func settings(t *testing.T) (Settings, *target, *sink) {
	t.Helper()
	addr := serve(t)
	s := model.Study{
		Name: "test", Baseline: "direct", Target: "lab", App: model.PluginRef{Kind: "echo"},
		Topology: model.Topology{
			Regions:  []model.Region{{Name: "r", Clusters: []model.Cluster{{Name: "c", Nodes: []model.Node{{Name: "n", Pods: []model.PodSpec{{Name: "client", Role: "client"}, {Name: "server-0", Role: "server"}}}}}}}},
			Services: []model.Service{{Name: "server", Port: 80, TargetPort: 8080, Pods: []string{"server-0"}}},
		},
		Variants: []model.Variant{{Name: "direct"}, {Name: "layered", Stack: []model.PluginRef{{Kind: "a"}, {Kind: "b"}}}},
		Loads: []model.Load{{
			Name: "s", Protocol: http1.Name, Arrival: model.ArrivalOpen, Rate: 200, Connections: 2, Duration: 50 * time.Millisecond, Timeout: time.Second,
			From: "client", To: "server",
		}},
		Design: model.Design{Blocks: 6, MaxBlocks: 6, Warmup: 10 * time.Millisecond, Seed: 1, Primary: []string{"response.p50"}},
	}
	p, err := plan.Expand(s)
	if err != nil {
		t.Fatal(err)
	}
	tg, sk := &target{addr: addr}, &sink{}
	return Settings{
		Plan: p, Target: tg, App: app{addr: addr}, Sink: sk, Progress: quiet{}, SampleEvery: 10 * time.Millisecond,
		Stack: func(model.Variant) ([]model.Layer, error) { return nil, nil },
	}, tg, sk
}

func TestRunEveryTrialOnce(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	s, tg, sk := settings(t)
	var notes []string
	s.Stack = func(v model.Variant) ([]model.Layer, error) {
		if v.Name == "direct" {
			return nil, nil
		}
		return []model.Layer{layer{"a", &notes, nil}, layer{"b", &notes, nil}}, nil
	}
	end, err := Run(t.Context(), s)
	if err != nil || !end.Complete || len(sk.outcomes) != 12 || tg.sites != 0 {
		t.Fatalf("%v, %+v, %d outcomes, %d sites left", err, end.Reason, len(sk.outcomes), tg.sites)
	}
	for i, o := range sk.outcomes {
		if o.Trial.Index != s.Plan.Trials[i].Index || o.Failure != nil || o.Load.Succeeded+o.Load.Unsent != 10 || !o.Ready.Passed {
			t.Errorf("outcome %d: %+v, load %+v", i, o.Failure, o.Load)
		}
	}
	if got := strings.Join(notes[:4], ", "); got != "deploy a, deploy b, remove b, remove a" {
		t.Errorf("layers: %s", got)
	}
}

func TestFailedTrialIsKeptAndTheRunGoesOn(t *testing.T) { //nolint:paralleltest // as above
	s, tg, sk := settings(t)
	var notes []string
	s.Stack = func(v model.Variant) ([]model.Layer, error) {
		if v.Name == "direct" {
			return nil, nil
		}
		return []model.Layer{layer{"a", &notes, nil}, layer{"b", &notes, errors.New("boom")}}, nil
	}
	end, err := Run(t.Context(), s)
	if err != nil || !end.Complete || tg.sites != 0 {
		t.Fatalf("%v, %+v, %d sites left", err, end, tg.sites)
	}
	failed := 0
	for _, o := range sk.outcomes {
		if o.Failure != nil {
			failed++
			if o.Trial.Variant != "layered" || !strings.Contains(o.Failure.Error, "layer b: boom") {
				t.Errorf("got %+v", o.Failure)
			}
		}
	}
	if failed != 6 || strings.Count(strings.Join(notes, " "), "remove a") != 6 {
		t.Errorf("%d failed; %v", failed, notes)
	}
}

func TestUnsupportedEndsTheRun(t *testing.T) {
	t.Parallel()
	s, _, sk := settings(t)
	s.App = app{err: &model.UnsupportedError{What: "x", Missing: "y"}}
	if _, err := Run(t.Context(), s); !errors.Is(err, model.ErrUnsupported) || len(sk.outcomes) != 0 {
		t.Errorf("%v, %d outcomes", err, len(sk.outcomes))
	}
}

// A full disk: the trial is marked failed, kept as soon as that is possible,
// and the others are not touched.
func TestSinkThatFailsForAWhile(t *testing.T) { //nolint:paralleltest // as above
	s, _, sk := settings(t)
	sk.fail = func(n int) error {
		if n >= 3 && n <= 5 {
			return errors.New("no space left on device")
		}
		return nil
	}
	end, err := Run(t.Context(), s)
	if err != nil || !end.Complete || len(sk.outcomes) != 12 {
		t.Fatalf("%v, %+v, %d outcomes", err, end.Reason, len(sk.outcomes))
	}
	failed := 0
	for i, o := range sk.outcomes {
		if o.Trial.Index != i+1 {
			t.Errorf("outcome %d is of trial %d", i, o.Trial.Index)
		}
		if o.Failure != nil {
			failed++
			if !strings.Contains(o.Failure.Error, "no space left") {
				t.Errorf("got %+v", o.Failure)
			}
		}
	}
	if failed == 0 || failed > 3 {
		t.Errorf("%d trials are marked failed", failed)
	}
}

func TestInterruptedTrialIsNotKept(t *testing.T) { //nolint:paralleltest // as above
	s, tg, sk := settings(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sk.fail = func(n int) error {
		if n == 3 {
			cancel()
		}
		return nil
	}
	end, err := Run(ctx, s)
	if !errors.Is(err, context.Canceled) || end.Complete || len(sk.outcomes) != 3 || tg.sites != 0 {
		t.Fatalf("%v, %+v, %d outcomes, %d sites left", err, end.Reason, len(sk.outcomes), tg.sites)
	}
	sk.fail, s.Finished = nil, end.Outcomes
	end, err = Run(t.Context(), s)
	if err != nil || !end.Complete || len(sk.outcomes) != 12 || len(end.Outcomes) != 12 {
		t.Errorf("resumed: %v, %+v, %d outcomes", err, end.Reason, len(sk.outcomes))
	}
}

func TestStopRule(t *testing.T) { //nolint:paralleltest // as above
	s, _, sk := settings(t)
	s.Plan.Study.Design.Blocks = 3
	s.Stop = func(outcomes []model.Outcome) (string, bool) { return "narrow enough", len(outcomes) >= 8 }
	end, err := Run(t.Context(), s)
	if err != nil || end.Reason != "narrow enough" || !end.Complete || len(sk.outcomes) != 8 {
		t.Errorf("%v, %+v, %d outcomes", err, end.Reason, len(sk.outcomes))
	}
}
