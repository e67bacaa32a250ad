package gateway

import (
	"crypto/tls"
	"encoding/json"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/layer/envoy"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/proxy"
)

func configured(t *testing.T, plugin model.Plugin[model.Layer], raw string) model.Layer {
	t.Helper()
	l, err := plugin.New(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestConformance(t *testing.T) {
	t.Parallel()
	find := program(t)
	labtest.Layer(t, labtest.LayerSuite{
		New: func(t *testing.T) model.Layer {
			t.Helper()
			return configured(t, Plugin(find), `{"concurrency": 1}`)
		},
	})
}

// Between networks pods do not reach each other; sidecars do through gateways,
// and prove who they are to each other, not to the gateway.
func TestAcrossNetworks(t *testing.T) {
	t.Parallel()
	find := program(t)
	const delay = 20 * time.Millisecond
	site := labtest.Site(t, labtest.TwoRegions(delay, true))
	labtest.StartServers(t, site)
	sidecars := configured(t, envoy.Plugin(find), `{"concurrency": 1, "load_balancing": "locality",
		"outlier_detection": {"consecutive_5xx_errors": 1, "interval": "1s", "base_ejection_time": "2s"}}`)
	if _, err := sidecars.Deploy(t.Context(), site); err == nil || !strings.Contains(err.Error(), "put the layer gateway") {
		t.Fatalf("without gateways: %v", err)
	}
	plain := configured(t, envoy.Plugin(find), `{"mtls": "disabled"}`)
	if _, err := plain.Deploy(t.Context(), site); err == nil || !strings.Contains(err.Error(), "mtls is disabled") {
		t.Fatalf("without mutual TLS: %v", err)
	}
	before := labtest.State(t, site)
	gateways := configured(t, Plugin(find), `{"concurrency": 1}`)
	remove, err := gateways.Deploy(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	labtest.Deploy(t, site, sidecars)
	firstAndLater(t, site, 2*delay)
	to := netip.AddrPortFrom(labtest.Pod(t, site, "server-home").Addr(), 8080)
	labtest.AnsweredBy(t, site, "client-home", to, "server", "server-home")
	const n = 20
	if got := labtest.Responders(t, site, "client-home", to, "server", n); got["server-home"] != n {
		t.Errorf("while the own region's server lived, %v answered", got)
	}
	revive := labtest.Kill(t, site, "server-home")
	labtest.AnsweredBy(t, site, "client-home", to, "server", "server-away")
	revive()
	labtest.AnsweredBy(t, site, "client-home", to, "server", "server-home")
	facts := labtest.Observed(t, site, sidecars, model.FactPeer, model.FactWireProtocol)
	if got := facts["endpoints of server from cluster-home"]; got != "P0 home 1, P1 away 1 by gateway" {
		t.Errorf("the live endpoints are %q", got)
	}
	facts = labtest.Observed(t, site, gateways)
	if facts["gateways in use"] != "1" {
		t.Errorf("%s gateways were used, want that of the other region", facts["gateways in use"])
	}
	unknownName(t, site)
	if err := remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := labtest.State(t, site)
	for _, node := range []string{"home-0", "home-1", "away-0", "away-1"} {
		if strings.Join(before[node], "\n") != strings.Join(after[node], "\n") {
			t.Errorf("node %s was %v and is %v", node, before[node], after[node])
		}
	}
}

// firstAndLater shows what the first request through a gateway costs.
func firstAndLater(t *testing.T, site model.Site, rtt time.Duration) {
	t.Helper()
	to := netip.AddrPortFrom(labtest.Pod(t, site, "remote-away").Addr(), 8080)
	ask := func() time.Duration {
		begin := time.Now()
		if who, err := labtest.Ask(t, site, "client-home", to, "remote"); err != nil || who != "remote-away" {
			t.Errorf("%q answered, %v", who, err)
		}
		return time.Since(begin)
	}
	first, later := ask(), time.Hour
	for range 10 {
		later = min(later, ask())
	}
	t.Logf("round trip %s: the first request took %s (%.1f), the fastest later one %s (%.1f)",
		rtt, first, first.Seconds()/rtt.Seconds(), later, later.Seconds()/rtt.Seconds())
	const exact = 95 // percent
	if first < 3*rtt*exact/100 || later < rtt*exact/100 || later >= first {
		t.Error("not 3 round trips and then 1")
	}
}

// unknownName checks that a gateway passes on only what asks for a service.
func unknownName(t *testing.T, site model.Site) {
	t.Helper()
	places, err := proxy.Locate(site)
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.AddrPortFrom(places.Clusters[0].Gateway, proxy.Istio.GatewayPort())
	labtest.In(t, site, "home-1", func() error {
		conn, err := net.DialTimeout("tcp4", addr.String(), 5*time.Second)
		if err != nil {
			return err
		}
		defer conn.Close() //nolint:errcheck // only read
		if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return err
		}
		secure := tls.Client(conn, &tls.Config{ServerName: "nobody.example", InsecureSkipVerify: true})
		if err := secure.HandshakeContext(t.Context()); err == nil {
			t.Error("a name that is no service's was answered")
		}
		return nil
	})
}
