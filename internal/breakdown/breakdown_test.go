package breakdown_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/breakdown"
	"github.com/windtunnel/windtunnel/internal/model"
)

func addr(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

func outbound(request uint64, pod, service, peer string, start, took, upstream int64) model.Span {
	return model.Span{Request: request, Pod: pod, Service: service, Peer: addr(peer), Start: start, Took: took, Upstream: upstream, App: model.NoTime}
}

func inbound(request uint64, pod, service, local string, start, took, upstream, app int64) model.Span {
	return model.Span{Request: request, Pod: pod, Service: service, Inbound: true, Local: addr(local), Start: start, Took: took, Upstream: upstream, App: app, Own: model.NoTime}
}

// parts are what a breakdown says of one request.
func parts(b *model.Breakdown, request int) map[string]int64 {
	m := map[string]int64{}
	for _, p := range b.Parts {
		if p.Took[request] != model.NoTime {
			m[string(p.Kind)+" "+p.Name] = p.Took[request]
		}
	}
	return m
}

func TestDirect(t *testing.T) {
	t.Parallel()
	b := breakdown.Of(&model.Traced{Number: []uint64{1, 2}, Service: []int64{100, 90}, App: []int64{30, model.NoTime}}, nil, "client", "network")
	want := []map[string]int64{{"network network": 70, "app app": 30}, {"unexplained network, and app": 90}}
	for i := range want {
		if diff := cmp.Diff(want[i], parts(b, i)); diff != "" {
			t.Errorf("request %d: %s", i, diff)
		}
	}
}

// An app that tells what it did not wait for is believed; the way to its own
// sidecar is then not its.
func TestOwnTime(t *testing.T) {
	t.Parallel()
	spans := []model.Span{
		outbound(1, "client", "front", "10.0.0.2:80", 0, 980, 960),
		inbound(1, "front-0", "front", "10.0.0.2:80", 10, 940, 920, 900),
		outbound(1, "front-0", "a", "10.0.0.3:80", 100, 400, 390),
	}
	spans[1].Own = 350
	got := parts(breakdown.Of(&model.Traced{Number: []uint64{1}, Service: []int64{1000}, App: []int64{900}}, spans, "client", "network"), 0)
	if got["app front: app"] != 350 || got["unexplained front: between sidecar and app"] != 170 {
		t.Errorf("%v", got)
	}
}

func TestTwoSidecars(t *testing.T) {
	t.Parallel()
	spans := []model.Span{
		inbound(7, "server-0", "server", "10.0.0.2:80", 1020, 50, 30, 10),
		outbound(7, "client", "server", "10.0.0.2:80", 1000, 90, 70),
		outbound(8, "client", "server", "10.0.0.2:80", 2000, 90, 70), // the other end's record is missing
	}
	b := breakdown.Of(&model.Traced{Number: []uint64{7, 8, 9}, Service: []int64{100, 100, 100}, App: []int64{10, 10, 10}}, spans, "client", "network")
	want := map[string]int64{
		"unexplained between generator and sidecar":   10,
		"proxy client: sidecar, outbound":             20,
		"network network to server":                   20,
		"proxy server: sidecar, inbound":              20,
		"unexplained server: between sidecar and app": 20,
		"app server: app":                             10,
	}
	if b.Traced != 3 || len(b.Total) != 1 {
		t.Fatalf("%d of %d requests were broken down, want 1 of 3", len(b.Total), b.Traced)
	}
	if diff := cmp.Diff(want, parts(b, 0)); diff != "" {
		t.Error(diff)
	}
	if b.Parts[0].Name != "between generator and sidecar" || b.Parts[5].Name != "server: app" {
		t.Errorf("the order is %+v", b.Parts)
	}
}

// A front asks two services at the same time, one of which is proxied at L4 only,
// and that in another cluster's pod is reached through a gateway.
func TestSeveralServices(t *testing.T) {
	t.Parallel()
	spans := []model.Span{
		outbound(1, "client", "front", "10.0.0.2:80", 0, 980, 960),
		inbound(1, "front-0", "front", "10.0.0.2:80", 10, 940, 920, 900),
		outbound(1, "front-0", "a", "10.0.0.99:15443", 100, 400, 390),
		inbound(1, "a-0", "a", "10.9.0.3:80", 200, 200, 180, 170),
		outbound(1, "front-0", "b", "10.0.0.4:80", 200, 500, 480),
	}
	b := breakdown.Of(&model.Traced{Number: []uint64{1}, Service: []int64{1000}, App: []int64{900}}, spans, "client", "network")
	want := map[string]int64{
		"unexplained between generator and sidecar":  20,
		"proxy client: sidecar, outbound":            20,
		"network network to front":                   20,
		"proxy front: sidecar, inbound":              20,
		"unexplained front: between sidecar and app": 20,
		"app front: app":                             300,
		"proxy front: sidecar, outbound to a":        10,
		"network network to a":                       190,
		"proxy a: sidecar, inbound":                  20,
		"unexplained a: between sidecar and app":     10,
		"app a: app":                                 170,
		"proxy front: sidecar, outbound to b":        20,
		"unexplained b and the way there":            480,
		"parallel front: asks at the same time":      -300,
	}
	if diff := cmp.Diff(want, parts(b, 0)); diff != "" {
		t.Error(diff)
	}
}

// Whatever proxies say, the parts of a request add up to what was measured.
func TestPartsAddUp(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	pods := []string{"client", "a", "b", "c"}
	for range 2000 {
		var spans []model.Span
		for range 1 + random.IntN(8) {
			took := random.Int64N(1000)
			s := outbound(1, pods[random.IntN(4)], pods[1+random.IntN(3)], "10.0.0.1:80", random.Int64N(1000), took, random.Int64N(took+1))
			if random.IntN(2) == 0 {
				s.Inbound, s.Local, s.App, s.Own = true, s.Peer, random.Int64N(1000), random.Int64N(2000)-500
			}
			spans = append(spans, s)
		}
		b := breakdown.Of(&model.Traced{Number: []uint64{1}, Service: []int64{1500}, App: []int64{10}}, spans, "client", "network")
		if len(b.Total) == 0 {
			continue
		}
		var sum int64
		for _, took := range parts(b, 0) {
			sum += took
		}
		if sum != b.Total[0] {
			t.Fatalf("%d, not %d, of %+v", sum, b.Total[0], spans)
		}
	}
}

// Without proxies, what an app of several services tells is all there is.
func TestAppsThatTell(t *testing.T) {
	t.Parallel()
	const told = "app;dur=0.000060, front.app;dur=0.000020, front.parallel;dur=0.000005, a.network;dur=0.000010, a.app;dur=0.000030, odd;dur=0.000002"
	b := breakdown.Of(&model.Traced{Number: []uint64{1, 2}, Service: []int64{100, 90}, App: []int64{60, 30}, Told: []string{told}}, nil, "client", "network")
	want := []map[string]int64{{
		"network network": 40, "app front: app": 20, "parallel front: asks at the same time": -5, "network network to a": 10, "app a: app": 30,
		"unexplained what the app does not tell apart": 5,
	}, {"network network": 60, "app app": 30}}
	for i := range want {
		if diff := cmp.Diff(want[i], parts(b, i)); diff != "" {
			t.Errorf("request %d: %s", i, diff)
		}
	}
}
