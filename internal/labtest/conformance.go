package labtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/model"
)

// identityHeader is where servers say who they are, as package http1 reads it.
const identityHeader = "X-Windtunnel-Identity"

// readyWithin is how long a layer or an app may take to answer.
const readyWithin = 20 * time.Second

// LayerSuite says how a layer's conformance is tested.
type LayerSuite struct {
	// New makes the layer, as the catalog would; it is called for every
	// deployment.
	New func(t *testing.T) model.Layer
	// Below makes the layers that the layer stands on, bottom up; nil: none.
	Below func(t *testing.T) []model.Layer
	// Servers is the number of backends; 0: two.
	Servers int
	// Elsewhere are the keys of claims that the layer cannot observe itself:
	// those that show on the wire or in answers.
	Elsewhere []string
}

// Layer is the conformance suite that every layer's tests run. On a site of
// two nodes it deploys the layer, checks that the client reaches every backend
// through it and that it observes what it claims, removes it, checks that
// everything is as it was, and does it all again.
func Layer(t *testing.T, s LayerSuite) {
	t.Helper()
	if s.Servers == 0 {
		s.Servers = 2
	}
	site := Site(t, Topology(s.Servers))
	serveAll(t, site)
	if s.Below != nil {
		for _, l := range s.Below(t) {
			remove := deploy(t, site, l)
			defer remove()
		}
	}
	before := State(t, site)
	for _, round := range []string{"first", "second"} {
		layer := s.New(t)
		remove := deploy(t, site, layer)
		reachAll(t, site, layer)
		observe(t, site, layer, s.Elsewhere)
		remove()
		if diff := cmp.Diff(before, State(t, site)); diff != "" {
			t.Errorf("the %s removal left another state than the one before deployment (-before +after):\n%s", round, diff)
		}
	}
	if s.Below == nil {
		reachAll(t, site, nil)
	}
}

func deploy(t *testing.T, site model.Site, layer model.Layer) (remove func()) {
	t.Helper()
	undo, err := layer.Deploy(t.Context(), site)
	if err != nil {
		t.Fatalf("deploying %T: %v", layer, err)
	}
	return func() {
		t.Helper()
		if err := undo(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("removing %T: %v", layer, err)
		}
	}
}

// serveAll serves HTTP in all pods of all services, from this process.
func serveAll(t *testing.T, site model.Site) {
	t.Helper()
	for _, svc := range site.Topology().Services {
		for _, name := range svc.Pods {
			listen := netip.AddrPortFrom(netip.IPv4Unspecified(), svc.TargetPort)
			In(t, site, name, func() error {
				l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", listen.String())
				if err != nil {
					return fmt.Errorf("listening: %w", err)
				}
				serve(t, l, name)
				return nil
			})
		}
	}
}

func serve(t *testing.T, l net.Listener, name string) {
	t.Helper()
	server := &http.Server{
		ReadHeaderTimeout: readyWithin,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(identityHeader, name)
			_, _ = io.WriteString(w, name) // the client may be gone
		}),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serving in %s: %v", name, err)
		}
	}()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("ending the server in %s: %v", name, err)
		}
		<-done
	})
}

// fronts are the addresses at which clients of a service are to ask.
func fronts(t *testing.T, site model.Site, layer model.Layer, svc model.Service) []netip.AddrPort {
	t.Helper()
	if f, ok := layer.(model.Fronter); ok {
		return f.Front(svc)
	}
	var all []netip.AddrPort
	for _, name := range svc.Pods {
		all = append(all, netip.AddrPortFrom(Pod(t, site, name).Addr(), svc.TargetPort))
	}
	return all
}

// reachAll asks every service, from the client pod and over new connections,
// until every backend has answered and twenty answers in a row were right.
func reachAll(t *testing.T, site model.Site, layer model.Layer) {
	t.Helper()
	const enough = 20
	for _, blueprint := range site.Topology().Services {
		svc, err := site.Service(blueprint.Name)
		if err != nil {
			t.Fatal(err)
		}
		addrs := fronts(t, site, layer, svc)
		if len(addrs) == 0 {
			t.Fatalf("%T has no address for service %s", layer, svc.Name)
		}
		missing := map[string]bool{}
		for _, name := range svc.Pods {
			missing[name] = true
		}
		streak := 0
		poll(t, func(i int) error {
			who, err := Ask(t, site, client(t, site), addrs[i%len(addrs)], svc.Name)
			if err != nil {
				streak = 0
				return err
			}
			if !slices.Contains(svc.Pods, who) {
				return fmt.Errorf("%q answered, which is no backend", who)
			}
			delete(missing, who)
			if streak++; streak < enough || len(missing) > 0 {
				return fmt.Errorf("%d right answers in a row from %v, but none from %v", streak, addrs, slices.Sorted(maps.Keys(missing)))
			}
			return nil
		})
	}
}

// client is the name of the first pod whose role is client.
func client(t *testing.T, site model.Site) string {
	t.Helper()
	for _, n := range site.Topology().Nodes() {
		for _, p := range n.Pods {
			if p.Role == model.RoleClient {
				return p.Name
			}
		}
	}
	t.Fatal("the topology has no client")
	return ""
}

// Ask sends one GET over a new connection from a pod and returns the identity
// of who answered with status 200. host is the Host header; "" is the address.
func Ask(t *testing.T, site model.Site, from string, to netip.AddrPort, host string) (identity string, err error) {
	t.Helper()
	const patience = 3 * time.Second
	reply, err := exchange(t, site, from, patience, http.MethodGet, to, "/", host, "")
	if err == nil && reply.Status != http.StatusOK {
		err = fmt.Errorf("%s answered %d %s", to, reply.Status, http.StatusText(reply.Status))
	}
	if err != nil {
		return "", err
	}
	return reply.Header.Get(identityHeader), nil
}

// Eventually calls try until it returns nil, for at most as long as a layer
// may take to be ready.
func Eventually(t *testing.T, try func() error) {
	t.Helper()
	poll(t, func(int) error { return try() })
}

// poll calls try, with the number of the attempt, until it returns nil.
func poll(t *testing.T, try func(i int) error) {
	t.Helper()
	const pause = 20 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), readyWithin)
	defer cancel()
	for i := 0; ; i++ {
		err := try(i)
		if err == nil {
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			t.Fatalf("after %v: %v", readyWithin, err)
		}
	}
}

// observe checks that every claim of the layer is a fact that it observes,
// except for those that show elsewhere.
func observe(t *testing.T, site model.Site, layer model.Layer, elsewhere []string) {
	t.Helper()
	o, ok := layer.(model.Observer)
	if !ok {
		return
	}
	ledger, err := o.Observe(t.Context(), site)
	if err != nil {
		t.Fatalf("observing %T: %v", layer, err)
	}
	for _, claim := range o.Claims() {
		seen := slices.ContainsFunc(ledger, func(f model.Fact) bool {
			return f.Layer == claim.Layer && f.Key == claim.Key && f.Value == claim.Value && f.Source != model.SourceDeclared
		})
		if !seen && !slices.Contains(elsewhere, claim.Key) {
			t.Errorf("claimed but not observed: %s: %s = %s; observed: %+v", claim.Layer, claim.Key, claim.Value, ledger)
		}
	}
}

// AppSuite says how an app's conformance is tested.
type AppSuite struct {
	// New makes the app, as the catalog would.
	New func(t *testing.T) model.App
	// Servers is the number of replicas; 0: two.
	Servers int
}

// App is the conformance suite that every app's tests run. It deploys the app
// on a site of two nodes and checks that every backend answers the client with
// its own identity and on loopback too (where sidecars reach it), that its
// processes are the app's on its account, and that it ends with the site.
func App(t *testing.T, s AppSuite) {
	t.Helper()
	if s.Servers == 0 {
		s.Servers = 2
	}
	site := Site(t, Topology(s.Servers))
	endpoints, err := s.New(t).Deploy(t.Context(), site)
	if err != nil {
		t.Fatalf("deploying: %v", err)
	}
	svc, err := site.Service(endpoints.Service)
	if err != nil {
		t.Fatal(err)
	}
	var pods []string
	for _, b := range endpoints.Backends {
		pods = append(pods, b.Pod)
		answersAs(t, site, client(t, site), b.Addr, b.Identity)
		answersAs(t, site, b.Pod, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), b.Addr.Port()), b.Identity)
		if b.Addr != netip.AddrPortFrom(Pod(t, site, b.Pod).Addr(), svc.TargetPort) {
			t.Errorf("backend %s is at %s, not at the service's target port %d of its pod", b.Identity, b.Addr, svc.TargetPort)
		}
	}
	if diff := cmp.Diff(svc.Pods, pods); diff != "" {
		t.Errorf("the backends are not the service's pods (-service +backends):\n%s", diff)
	}
	accounted(t, site, svc.Pods)
	if err := site.Close(t.Context()); err != nil {
		t.Errorf("closing the site: %v", err)
	}
}

func answersAs(t *testing.T, site model.Site, from string, to netip.AddrPort, identity string) {
	t.Helper()
	poll(t, func(int) error {
		who, err := Ask(t, site, from, to, "")
		if err == nil && who != identity {
			err = fmt.Errorf("%s answered %s as %q, not as %q", to, from, who, identity)
		}
		return err
	})
}

// accounted checks that the app's processes are on the account of the component "app".
func accounted(t *testing.T, site model.Site, pods []string) {
	t.Helper()
	sampled, ok := site.(model.SampledSite)
	if !ok || len(sampled.Unavailable()) > 0 {
		return
	}
	used := map[string]float64{}
	for _, s := range sampled.Samplers() {
		readings, err := s.Sample(t.Context(), nil)
		if err != nil {
			t.Fatalf("sampling: %v", err)
		}
		for _, r := range readings {
			if r.Metric == model.SampleCPU {
				used[r.Subject] = r.Value
			}
		}
	}
	for _, name := range pods {
		if used[name+"/"+string(model.ComponentApp)] == 0 {
			t.Errorf("the app in %s has used no CPU on its account", name)
		}
	}
}
