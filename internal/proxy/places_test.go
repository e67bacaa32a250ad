package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/model"
)

// blueprint is a site of which only the addresses are real.
type blueprint struct{ topology model.Topology }

type address struct {
	model.Pod

	addr netip.Addr
}

func (a address) Addr() netip.Addr { return a.addr }

func (b blueprint) Topology() model.Topology { return b.topology }
func (b blueprint) Pod(name string) (model.Pod, error) {
	for i, n := range b.topology.Nodes() {
		for k, p := range n.Pods {
			if p.Name == name {
				return address{addr: netip.AddrFrom4([4]byte{10, 128, byte(i), byte(k)})}, nil
			}
		}
	}
	return nil, errors.New("no pod " + name)
}
func (b blueprint) Service(string) (model.Service, error) { return b.topology.Services[0], nil }
func (blueprint) Close(context.Context) error             { return nil }

// three has the regions near and far, in which there is a cluster each, and here,
// which has two; all have one pod of the service, and far two.
func three() blueprint {
	cluster := func(name, network string, pods ...string) model.Cluster {
		n := model.Node{Name: "node-" + name}
		for _, p := range pods {
			n.Pods = append(n.Pods, model.PodSpec{Name: p, Role: "server"})
		}
		return model.Cluster{Name: name, Network: network, Nodes: []model.Node{n}}
	}
	return blueprint{model.Topology{
		Regions: []model.Region{
			{Name: "far", Clusters: []model.Cluster{cluster("far-0", "b", "f0", "f1")}},
			{Name: "here", Clusters: []model.Cluster{cluster("here-0", "a", "h0"), cluster("here-1", "a", "h1")}},
			{Name: "near", Clusters: []model.Cluster{cluster("near-0", "a", "n0")}},
		},
		Services: []model.Service{{Name: "server", Port: 80, TargetPort: 8080, Pods: []string{"f0", "f1", "h0", "h1", "n0"}}},
		Links: []model.Link{
			{A: "here", B: "near", Delay: 5 * time.Millisecond},
			{A: "here", B: "far", Delay: 50 * time.Millisecond},
			{A: "near", B: "far", Delay: 48 * time.Millisecond},
		},
	}}
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	site := three()
	places, err := Locate(site)
	if err != nil {
		t.Fatal(err)
	}
	if !places.Networks() || places.Of("h1").Name != "here-1" {
		t.Errorf("networks %v, h1 is in %s", places.Networks(), places.Of("h1").Name)
	}
	for _, tt := range []struct {
		from string
		view View
		want string
	}{
		{"h0", View{}, "P0 far 2, P0 here 2, P0 near 1"},
		{"h0", View{Nearest: true}, "P0 here 2, P1 near 1, P2 far 2"},
		{"f0", View{Nearest: true}, "P0 far 2, P1 near 1, P2 here 2"},
		{"h0", View{Nearest: true, Failover: map[string]string{"here": "far"}}, "P0 here 2, P1 far 2, P2 near 1"},
		{"h0", View{Nearest: true, Failover: map[string]string{"near": "far"}}, "P0 here 2, P1 near 1, P2 far 2"},
		{"h0", View{Nearest: true, Local: true}, "P0 here 1"},
	} {
		tt.view.From = places.Of(tt.from)
		groups, err := places.Endpoints(site.topology.Services[0], tt.view)
		if got := Describe(Rows(groups)); err != nil || got != tt.want {
			t.Errorf("from %s with %+v: %s, %v; want %s", tt.from, tt.view, got, err, tt.want)
		}
	}
}

// A gateway stands for all pods behind it, and weighs as much.
func TestEndpointsThroughGateways(t *testing.T) {
	t.Parallel()
	site := three()
	places, err := Locate(site)
	if err != nil {
		t.Fatal(err)
	}
	view := View{From: places.Of("h0"), Nearest: true, Gateway: 15443, Beyond: Istio.Beyond}
	if _, err = places.Endpoints(site.topology.Services[0], view); !errors.Is(err, model.ErrUnsupported) {
		t.Errorf("without nodes' addresses: %v", err)
	}
	for i, c := range places.Clusters {
		c.Gateway = netip.AddrFrom4([4]byte{172, 18, 0, byte(i)})
	}
	groups, err := places.Endpoints(site.topology.Services[0], view)
	if got := Describe(Rows(groups)); err != nil || got != "P0 here 2, P1 near 1, P2 far 1 by gateway" {
		t.Errorf("Istio: %s, %v", got, err)
	}
	if diff := cmp.Diff([]Endpoint{{netip.MustParseAddr("172.18.0.0"), 15443, 2}}, groups[len(groups)-1].Endpoints, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	view.Beyond = Kuma.Beyond
	groups, err = places.Endpoints(site.topology.Services[0], view)
	if got := Describe(Rows(groups)); err != nil || got != "P0 here 1, P0 here 1 by gateway, P1 near 1 by gateway, P2 far 1 by gateway" {
		t.Errorf("Kuma: %s, %v", got, err)
	}
}

// Priorities have no gaps, whoever has pods of the service.
func TestPrioritiesWithoutGaps(t *testing.T) {
	t.Parallel()
	site := three()
	places, err := Locate(site)
	if err != nil {
		t.Fatal(err)
	}
	svc := site.topology.Services[0]
	svc.Pods = []string{"f0"}
	groups, err := places.Endpoints(svc, View{From: places.Of("h0"), Nearest: true})
	if got := Describe(Rows(groups)); err != nil || got != "P0 far 1" {
		t.Errorf("%s, %v", got, err)
	}
	svc.Pods = nil
	groups, err = places.Endpoints(svc, View{From: places.Of("h0"), Nearest: true})
	if got := Describe(Rows(groups)); err != nil || got != "none" {
		t.Errorf("%s, %v", got, err)
	}
}

func TestServerName(t *testing.T) {
	t.Parallel()
	svc := model.Service{Name: "server", Port: 80}
	for profile, want := range map[Profile]string{
		Istio: "outbound_.80_._.server.default.svc.cluster.local 15443",
		Kuma:  "server_default_svc_80{mesh=default} 10001",
	} {
		if got := fmt.Sprint(profile.ServerName(svc), " ", profile.GatewayPort()); got != want {
			t.Errorf("%s: %s, want %s", profile, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[Duration]string{"500ms": "0.5s", "2s": "2s", "1m30s": "90s"} {
		if got := text.JSON(); got != want {
			t.Errorf("%s is %s to Envoy, want %s", text, got, want)
		}
	}
	for _, text := range []Duration{"", "x", "0s", "-1s", "25h"} {
		if v, err := text.Value(); err == nil {
			t.Errorf("%q is %s", text, v)
		}
	}
}
