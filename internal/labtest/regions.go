package labtest

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// TwoRegions is a topology of the regions home and away, so far from each other,
// with a cluster in each: the pods client-home and server-home on nodes of their
// own, and so for away. The service "server" has both servers, the service
// "remote" the pod remote-away only. Clusters with networks of their own do not
// reach each other's pods.
func TwoRegions(delay time.Duration, networks bool) model.Topology {
	t := model.Topology{
		Links: []model.Link{{A: "home", B: "away", Delay: delay}},
		Services: []model.Service{
			{Name: "server", Port: 80, TargetPort: 8080, Pods: []string{"server-home", "server-away"}},
			{Name: "remote", Port: 80, TargetPort: 8080, Pods: []string{"remote-away"}},
		},
	}
	for _, region := range []string{"home", "away"} {
		servers := []model.PodSpec{{Name: "server-" + region, Role: "server"}}
		if region == "away" {
			servers = append(servers, model.PodSpec{Name: "remote-away", Role: "server"})
		}
		cluster := model.Cluster{Name: "cluster-" + region, Nodes: []model.Node{
			{Name: region + "-0", Pods: []model.PodSpec{{Name: "client-" + region, Role: model.RoleClient}}},
			{Name: region + "-1", Pods: servers},
		}}
		if networks {
			cluster.Network = "network-" + region
		}
		t.Regions = append(t.Regions, model.Region{Name: region, Clusters: []model.Cluster{cluster}})
	}
	return t
}

// StartServers runs Serve in all pods of all services, as processes that faults
// can act on. Tests' Main must know CommandServe.
func StartServers(t *testing.T, site model.Site) {
	t.Helper()
	for _, svc := range site.Topology().Services {
		for _, name := range svc.Pods {
			_, err := Pod(t, site, name).Start(t.Context(), model.Process{
				Name: CommandServe, Component: model.ComponentApp, Command: []string{"{self}", CommandServe, name},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Kill ends all processes of a pod at once, as a crash does, and returns what
// starts them again.
func Kill(t *testing.T, site model.Site, name string) (revive func()) {
	t.Helper()
	mortal, ok := Pod(t, site, name).(model.Mortal)
	if !ok {
		t.Fatalf("the pod %s of %T cannot be killed", name, site)
	}
	again, err := mortal.Kill(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := again(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// Responders asks n times, each over a new connection, and counts who answered;
// what failed is counted under "failed".
func Responders(t *testing.T, site model.Site, from string, to netip.AddrPort, host string, n int) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for range n {
		who, err := Ask(t, site, from, to, host)
		if err != nil {
			who = "failed"
		}
		counts[who]++
	}
	return counts
}

// AnsweredBy waits until so many answers in a row are of one server.
func AnsweredBy(t *testing.T, site model.Site, from string, to netip.AddrPort, host, server string) {
	t.Helper()
	const enough = 10
	Eventually(t, func() error {
		for range enough {
			if who, err := Ask(t, site, from, to, host); err != nil || who != server {
				return fmt.Errorf("%q answered %s, not %s (%w)", who, from, server, err)
			}
		}
		return nil
	})
}

// Deploy deploys a layer for the length of the test.
func Deploy(t *testing.T, site model.Site, layer model.Layer) {
	t.Helper()
	t.Cleanup(deploy(t, site, layer))
}

// Observed checks that a layer observes what it claims, except for claims that
// show elsewhere, and returns the facts by key.
func Observed(t *testing.T, site model.Site, layer model.Layer, elsewhere ...string) map[string]string {
	t.Helper()
	observe(t, site, layer, elsewhere)
	o, ok := layer.(model.Observer)
	if !ok {
		t.Fatalf("%T observes nothing", layer)
	}
	ledger, err := o.Observe(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	facts := map[string]string{}
	for _, f := range ledger {
		if facts[f.Key] != "" {
			f.Value = facts[f.Key] + "; " + f.Value
		}
		facts[f.Key] = f.Value
	}
	for _, key := range slices.Sorted(maps.Keys(facts)) {
		t.Logf("%s: %s", key, facts[key])
	}
	return facts
}
