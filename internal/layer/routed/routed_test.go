package routed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/layer/nftservice"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

func TestMain(m *testing.M) {
	labtest.Main(m, labtest.Commands{labtest.CommandServe: labtest.Serve})
}

func service(*testing.T) model.Layer { return nftservice.Layer{} }

func TestConformance(t *testing.T) {
	t.Parallel()
	labtest.NetworkLayer(t, labtest.NetworkSuite{
		Plugin: Plugin(), Form: model.NoEncapsulation, Segments: true, DataPath: "kernel, a route a pod", Service: service,
	})
}

func TestConformanceBGP(t *testing.T) {
	t.Parallel()
	labtest.NeedProgram(t, "bird")
	labtest.NetworkLayer(t, labtest.NetworkSuite{
		Plugin: Plugin(), Config: map[string]any{"routes": "bgp", "bfd": "2s"}, // no machine is so busy
		Form: model.NoEncapsulation, Segments: true, DataPath: "kernel, a route a pod", Service: service,
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	labtest.Configs(t, Plugin(), map[string]string{
		`{}`:                                "",
		`{"mtu": 1400, "routes": "static"}`: "",
		`{"routes": "bgp", "bfd": "off"}`:   "",
		`{"routes": "bgp", "bfd": "50ms", "hold": "3s", "announce": "services"}`: "",
		`{"routes": "ospf"}`:                 `routes is "ospf"; it can be static or bgp`,
		`{"bfd": "50ms"}`:                    "bfd has no meaning without routes: bgp",
		`{"hold": "9s"}`:                     "hold has no meaning",
		`{"announce": "services"}`:           "announce has no meaning",
		`{"routes": "bgp", "bfd": "1ms"}`:    "bfd is \"1ms\"; it can be off or 10ms to 10s",
		`{"routes": "bgp", "hold": "1s"}`:    "hold is \"1s\"; it can be 3s to 1h",
		`{"routes": "bgp", "hold": "3.5s"}`:  "whole seconds",
		`{"routes": "bgp", "announce": "x"}`: `announce is "x"; it can be pods or services`,
		`{"route": "bgp"}`:                   "unknown field",
	})
}

// Without BIRD nothing is begun, and it is said how to get it. Where Debian has
// put it, it is found without the search path.
func TestMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for raw, needs := range map[string]bool{`{}`: false, `{"routes": "bgp"}`: true} {
		checked, ok := made(t, Plugin(), raw).(interface {
			Check(ctx context.Context) error
		})
		if !ok {
			t.Fatal("the layer cannot say what it needs")
		}
		err := checked.Check(t.Context())
		if err != nil && (!needs || !errors.Is(err, model.ErrUnsupported) || !strings.Contains(err.Error(), "apt-get install bird2")) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// threeNodes have a client on the first, a server on each of the others.
func threeNodes() model.Topology {
	topology := labtest.Topology(2)
	nodes := &topology.Regions[0].Clusters[0].Nodes
	servers := (*nodes)[1].Pods
	(*nodes)[1].Pods = servers[:1:1]
	*nodes = append(*nodes, model.Node{Name: "node-2", Pods: servers[1:]})
	return topology
}

func made(t *testing.T, plugin model.Plugin[model.Layer], raw string) model.Layer {
	t.Helper()
	layer, err := plugin.New(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	return layer
}

// A node that is lost takes its ways to a service with it: what is left of the
// nodes serves. When it is back, or its daemon, so are they.
func TestConvergence(t *testing.T) {
	t.Parallel()
	labtest.NeedProgram(t, "bird")
	site := labtest.Site(t, threeNodes())
	labtest.StartServers(t, site)
	before := labtest.State(t, site)
	layer, local := made(t, Plugin(), `{"routes": "bgp", "announce": "services"}`), made(t, nftservice.Plugin(), `{"endpoints": "node"}`)
	remove, err := layer.Deploy(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	away, err := local.Deploy(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	svc, err := site.Service("server")
	if err != nil {
		t.Fatal(err)
	}
	vip := nftservice.Layer{}.Front(svc)[0]
	both := func() { answeredBy(t, site, vip, "server-0", "server-1") }
	both()

	severer, ok := site.(model.Severer)
	if !ok {
		t.Fatalf("the nodes of %T cannot be cut off", site)
	}
	cut := time.Now()
	mend, err := severer.Sever(t.Context(), []string{"node-1"}, []string{"node-0", "node-2"})
	if err != nil {
		t.Fatal(err)
	}
	labtest.AnsweredBy(t, site, "client-0", vip, "", "server-1")
	t.Logf("%s after the node was cut off, ten answers in a row had come from the other", time.Since(cut))
	if facts := labtest.Observed(t, site, layer, model.FactEncapsulation); !strings.Contains(facts[model.FactRoutes], "are missing") {
		t.Errorf("without a node the ledger says %q", facts[model.FactRoutes])
	}
	if err = mend(t.Context()); err != nil {
		t.Fatal(err)
	}
	both()

	mortal, ok := site.(model.ComponentMortal)
	if !ok {
		t.Fatalf("of %T no component can be killed", site)
	}
	struck, revive, err := mortal.KillComponent(t.Context(), model.ComponentController, []string{"node-2"})
	if err != nil || !slices.Equal(struck, []string{"node-2"}) {
		t.Fatalf("killing a daemon struck %v, %v", struck, err)
	}
	labtest.AnsweredBy(t, site, "client-0", vip, "", "server-0")
	if err := revive(t.Context()); err != nil {
		t.Fatal(err)
	}
	both()
	labtest.Eventually(t, func() error { return whole(t, site, layer) })
	if err := errors.Join(away(t.Context()), remove(t.Context())); err != nil {
		t.Fatal(err)
	}
	labtest.Eventually(t, func() error { // what was killed last takes a moment to be gone
		if diff := cmp.Diff(before, labtest.State(t, site)); diff != "" {
			return fmt.Errorf("the removal left another state than the one before (-before +after):\n%s", diff)
		}
		return nil
	})
}

// answeredBy waits until all of these servers have answered, and nobody else.
func answeredBy(t *testing.T, site model.Site, at netip.AddrPort, servers ...string) {
	t.Helper()
	labtest.Eventually(t, func() error {
		const tries = 30 // one of two servers is never met in them once in 10^9 times
		counts := labtest.Responders(t, site, "client-0", at, "", tries)
		if got := slices.Sorted(maps.Keys(counts)); !slices.Equal(got, servers) {
			return fmt.Errorf("answers from %v, not %v", counts, servers)
		}
		return nil
	})
}

// whole is nil when all routes are there.
func whole(t *testing.T, site model.Site, layer model.Layer) error {
	t.Helper()
	facts := labtest.Observed(t, site, layer, model.FactEncapsulation)
	if want := "BGP (iBGP, every node with every other), hold time 1m30s, BFD every 100ms, 3 may be missing"; facts[model.FactRoutes] != want {
		return fmt.Errorf("the ledger says %q, not %q", facts[model.FactRoutes], want)
	}
	if !strings.HasPrefix(facts[model.FactProgram], "BIRD ") {
		return fmt.Errorf("the program is %q", facts[model.FactProgram])
	}
	return nil
}

// The client's node has one route to the service's address over both others,
// and the program that made it is known.
func TestAnnounced(t *testing.T) {
	t.Parallel()
	labtest.NeedProgram(t, "bird")
	site := labtest.Site(t, threeNodes())
	labtest.Deploy(t, site, made(t, Plugin(), `{"routes": "bgp", "announce": "services", "bfd": "off"}`))
	svc, err := site.Service("server")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"10.128.4.0/22", "10.128.8.0/22", svc.VIP.String() + "/32"}
	labtest.In(t, site, "node-0", func() error {
		net, err := sys.OpenHere()
		if err != nil {
			return err
		}
		defer net.Close()
		found, err := net.RoutesBy(sys.RoutesOfBIRD)
		var got []string
		for _, p := range found {
			got = append(got, p.String())
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("BIRD's routes (-want +got):\n%s", diff)
		}
		return err
	})
}
