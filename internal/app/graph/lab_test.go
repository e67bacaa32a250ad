package graph

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/hop"
	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestMain(m *testing.M) { labtest.Main(m, labtest.AppServer(Name, Serve)) }

func TestConformance(t *testing.T) {
	t.Parallel()
	app := newApp(t, `{"services": [{"name": "server"}]}`)
	labtest.App(t, labtest.AppSuite{New: func(*testing.T) model.App { return app }})
}

func newApp(t *testing.T, raw string) *App {
	t.Helper()
	services, err := parse(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	return &App{services: services}
}

// tiers has services of one or two pods each, all on one node, and a client.
func tiers(sizes map[string]int, order ...string) model.Topology {
	t := model.Topology{Regions: []model.Region{{Name: "r", Clusters: []model.Cluster{{Name: "c", Nodes: []model.Node{
		{Name: "node-0", Pods: []model.PodSpec{{Name: "client-0", Role: "client"}}}, {Name: "node-1"},
	}}}}}}
	node := &t.Regions[0].Clusters[0].Nodes[1]
	for _, name := range order {
		svc := model.Service{Name: name, Port: 80, TargetPort: 8080}
		for i := range sizes[name] {
			pod := fmt.Sprintf("%s-%d", name, i)
			svc.Pods, node.Pods = append(svc.Pods, pod), append(node.Pods, model.PodSpec{Name: pod, Role: "server"})
		}
		t.Services = append(t.Services, svc)
	}
	return t
}

// Requests go through all tiers; what a dead pod does to them is seen; and a
// service is where Connect says.
func TestTiers(t *testing.T) {
	t.Parallel()
	site := labtest.Site(t, tiers(map[string]int{"front": 1, "middle": 1, "leaf": 2}, "front", "middle", "leaf"))
	app := newApp(t, `{"services": [
		{"name": "front", "routes": [{"size": 10, "calls": [{"service": "middle", "timeout": "2s"}, {"service": "leaf"}]}]},
		{"name": "middle", "routes": [{"calls": [{"service": "leaf"}]}], "pool": {"fresh": true}},
		{"name": "leaf"}]}`)
	ends, err := app.Deploy(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	if ends.Service != "front" || len(ends.Backends) != 4 {
		t.Errorf("%+v", ends)
	}
	front := ends.Backends[0].Addr
	hops := func(want string) {
		t.Helper()
		labtest.Eventually(t, func() error {
			r, failure := labtest.Get(t, site, "client-0", http.MethodGet, front, "/", "")
			if failure != nil {
				return failure
			}
			got := strings.NewReplacer("leaf-0", "leaf", "leaf-1", "leaf").Replace(r.Header.Get(hop.HeaderHops))
			if r.Status != http.StatusOK || got != want || r.Body != "wwwwwwwwww" || r.Header.Get(hop.HeaderIdentity) != "front-0" {
				return fmt.Errorf("%d, hops %s, body %q", r.Status, got, r.Body)
			}
			return nil
		})
	}
	hops("front-0,middle-0,leaf,leaf")
	// Everything that is asked for as leaf is at leaf-1.
	last := ends.Backends[3].Addr
	connect := func(service string) []netip.AddrPort {
		if service == "leaf" {
			return []netip.AddrPort{last}
		}
		return []netip.AddrPort{ends.Backends[1].Addr}
	}
	if err = app.Connect(t.Context(), site, connect); err != nil {
		t.Fatal(err)
	}
	hops("front-0,middle-0,leaf,leaf")
	mortal, ok := labtest.Pod(t, site, "leaf-1").(model.Mortal)
	if !ok {
		t.Fatal("pods cannot be killed here")
	}
	revive, err := mortal.Kill(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	labtest.Eventually(t, func() error {
		r, failure := labtest.Get(t, site, "client-0", http.MethodGet, front, "/", "")
		if failure != nil {
			return failure
		}
		if r.Status != http.StatusBadGateway || !strings.Contains(r.Body, "asking middle: status 502") || r.Header.Get(hop.HeaderHops) != "front-0,middle-0" {
			return fmt.Errorf("%d, %s %v", r.Status, r.Body, r.Header)
		}
		return nil
	})
	if err := revive(t.Context()); err != nil {
		t.Fatal(err)
	}
	hops("front-0,middle-0,leaf,leaf")
}
