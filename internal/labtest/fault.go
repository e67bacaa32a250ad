package labtest

import (
	"context"
	"errors"
	"net/http"
	"os/signal"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/model"
)

// CommandServe is the name under which a fault's tests give Serve to Main.
const CommandServe = "serve"

// Serve answers HTTP on port 8080 with the identity args[0], as a process of a
// pod, until it is asked to end.
func Serve(args []string) int {
	server := &http.Server{
		Addr: ":8080", ReadHeaderTimeout: readyWithin,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set(identityHeader, args[0]) }),
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return 1
	}
	return 0
}

// FaultSuite says how a fault's conformance is tested. The site has the pod
// client-0 on node-0, and server-0 and server-1 on node-1.
type FaultSuite struct {
	Plugin model.Plugin[model.Fault]
	// Links are the topology's.
	Links []model.Link
	Cases map[string]FaultCase
}

// FaultCase is a configuration of a fault.
type FaultCase struct {
	Config string
	// Unreachable are the servers that do not answer the client while it acts.
	Unreachable []string
}

// Fault is the conformance suite that every fault's tests run, for each case on
// a site of its own. It injects the fault, looks who still answers the client,
// heals it, twice, looks again, checks that everything is as it was, and does it
// all again. Tests' Main must know CommandServe.
func Fault(t *testing.T, s FaultSuite) {
	t.Helper()
	for name, c := range s.Cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.conforms(t, c)
		})
	}
}

func (s FaultSuite) conforms(t *testing.T, c FaultCase) {
	t.Helper()
	topology := Topology(2) //nolint:mnd // as FaultSuite says
	topology.Links = s.Links
	site := Site(t, topology)
	servers := site.Topology().Services[0].Pods
	StartServers(t, site)
	reachAll(t, site, nil)
	before := State(t, site)
	for _, round := range []string{"first", "second"} {
		fault := New(t, s.Plugin, c.Config) // the catalog makes one for every injection
		heal, err := fault.Inject(t.Context(), site)
		if err != nil {
			t.Fatalf("injecting %T: %v", fault, err)
		}
		for _, name := range servers {
			reached(t, site, name, !slices.Contains(c.Unreachable, name))
		}
		measured(t, site, fault, c.Unreachable)
		for range 2 {
			if err := heal(context.WithoutCancel(t.Context())); err != nil {
				t.Errorf("healing %T: %v", fault, err)
			}
		}
		reachAll(t, site, nil)
		if diff := cmp.Diff(before, State(t, site)); diff != "" {
			t.Errorf("the %s heal left another state than the one before (-before +after):\n%s", round, diff)
		}
	}
}

// reached checks whether a server answers the client over a new connection.
func reached(t *testing.T, site model.Site, name string, want bool) {
	t.Helper()
	svc := site.Topology().Services[0]
	to := fronts(t, site, nil, model.Service{Pods: []string{name}, TargetPort: svc.TargetPort})[0]
	who, err := Ask(t, site, client(t, site), to, "")
	if got := err == nil && who == name; got != want {
		t.Errorf("while the fault acts, %s answers: %v (%q, %v), want %v", name, got, who, err, want)
	}
}

// measured checks what a fault says of itself.
func measured(t *testing.T, site model.Site, fault model.Fault, unreachable []string) {
	t.Helper()
	if k, ok := fault.(model.Striker); ok {
		if diff := cmp.Diff(unreachable, k.Struck(site)); diff != "" {
			t.Errorf("it says that it strikes others than do not answer (-not answering +struck):\n%s", diff)
		}
	}
	if o, ok := fault.(model.FaultObserver); ok {
		facts, err := o.Observe(t.Context(), site)
		if err != nil || len(facts) == 0 {
			t.Errorf("it observes %v, %v", facts, err)
		}
	}
}
