package gateway

import (
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/layer/envoy"
	"github.com/windtunnel/windtunnel/internal/model"
)

// In Kuma's profile clients ask addresses of 240.0.0.0/4, zones are reached
// through their ingress, and what is at L7 is what was declared.
func TestKuma(t *testing.T) {
	t.Parallel()
	find := program(t)
	site := labtest.Site(t, labtest.TwoRegions(2*time.Millisecond, true))
	labtest.StartServers(t, site)
	labtest.Deploy(t, site, configured(t, Plugin(find), `{"profile": "kuma", "concurrency": 1}`))
	for protocol, want := range map[string]string{"http": "L7, HTTP", "tcp": "L4, TCP"} {
		sidecars := configured(t, envoy.Plugin(find), `{"profile": "kuma", "concurrency": 1, "protocol": "`+protocol+`"}`)
		remove, err := sidecars.Deploy(t.Context(), site)
		if err != nil {
			t.Fatal(err)
		}
		front, ok := sidecars.(model.Fronter)
		if !ok {
			t.Fatal("Kuma gives services no address")
		}
		svc, err := site.Service("server")
		if err != nil {
			t.Fatal(err)
		}
		to := front.Front(svc)
		if len(to) != 1 || to[0].String() != "240.0.0.1:80" {
			t.Fatalf("the service's address is %v", to)
		}
		labtest.Eventually(t, func() error {
			_, err := labtest.Ask(t, site, "client-home", to[0], "server")
			return err
		})
		const n = 40
		if got := labtest.Responders(t, site, "client-home", to[0], "server", n); min(got["server-home"], got["server-away"]) < n/4 {
			t.Errorf("%s: of %d requests %v, not about half each", protocol, n, got)
		}
		facts := labtest.Observed(t, site, sidecars, model.FactPeer, model.FactWireProtocol)
		for key, value := range map[string]string{
			model.FactLevel: want, model.FactMTLS: "TLSv1.3", "endpoints of server from cluster-home": "P0 away 1 by gateway, P0 home 1",
		} {
			if facts[key] != value {
				t.Errorf("%s: %s is %q, want %q", protocol, key, facts[key], value)
			}
		}
		if err := remove(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
