package envoy

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestRequests(t *testing.T) {
	t.Parallel()
	const raw = `vhost.inbound_server.route.reporter=destination;source=client;destination=server.upstream_rq_completed: 7
vhost.inbound_server.route.reporter=destination;source=client;destination=server.upstream_rq_2xx: 6
vhost.inbound_server.route.other.upstream_rq_completed: 5
cluster.xds.upstream_rq_completed: 4
`
	got := requests([]byte(raw))
	if diff := cmp.Diff(map[string]uint64{"reporter=destination;source=client;destination=server": 7}, got); diff != "" {
		t.Errorf("(-want +got): %s", diff)
	}
	got["reporter=source;source=client;destination=server"] = 7
	got["reporter=source;source=server;destination=db"] = 3
	got["reporter=destination;source=server;destination=db"] = 2
	got["reporter=waypoint;source=unknown;destination=server"] = 9
	want := []string{"client to server, told by both ends alike", "server to db: the destination tells of 2, the source of 3", "unknown to server, told by the waypoint"}
	if diff := cmp.Diff(want, Config{Telemetry: On}.told(got)); diff != "" {
		t.Errorf("(-want +got): %s", diff)
	}
	if diff := cmp.Diff([]string{"none"}, Config{Telemetry: Off}.told(nil)); diff != "" {
		t.Errorf("off (-want +got): %s", diff)
	}
}

// Both ends count the same requests, by who has proved to send them.
func TestTelemetry(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ raw, want string }{
		"on":       {`{"concurrency": 1}`, "client to server, told by both ends alike"},
		"no proof": {`{"concurrency": 1, "mtls": "disabled"}`, "client to server, told by the source; unknown to server, told by the destination"},
		"off":      {`{"concurrency": 1, "telemetry": "off"}`, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := labtest.Site(t, labtest.Topology(1))
			to := tells(t, site)
			l := configured(t, tt.raw)
			labtest.Deploy(t, site, l)
			for range 2 {
				if _, err := get(dial(t, site, to, 0)); err != nil {
					t.Fatal(err)
				}
			}
			labtest.Eventually(t, func() error { return seen(t, l, site, factRequests, tt.want) })
		})
	}
}

// As GEO's mesh was: servers have locality, databases are as often far as near.
func TestLocalityFor(t *testing.T) {
	t.Parallel()
	program(t)
	site := labtest.Site(t, labtest.TwoRegions(2*time.Millisecond, false))
	labtest.StartServers(t, site)
	l := configured(t, `{"concurrency": 1, "load_balancing": "locality", "locality_for": ["remote"]}`)
	labtest.Deploy(t, site, l)
	to := target(t, site, "server-home")
	labtest.Eventually(t, func() error {
		_, err := labtest.Ask(t, site, "client-home", to, "server")
		return err
	})
	const n = 40
	got := labtest.Responders(t, site, "client-home", to, "server", n)
	if min(got["server-home"], got["server-away"]) < n/5 {
		t.Errorf("of %d requests %v, not about half each", n, got)
	}
	facts := labtest.Observed(t, site, l, elsewhere()...)
	for key, want := range map[string]string{
		"endpoints of server from cluster-home": "P0 away 1, P0 home 1",
		"endpoints of remote from cluster-home": "P0 away 1",
	} {
		if facts[key] != want {
			t.Errorf("%s: %q, want %q", key, facts[key], want)
		}
	}
}

// Locality has Istio's outlier detection; what the study says holds for all.
func TestOutlierOf(t *testing.T) {
	t.Parallel()
	usual, own := usualOutlier(), Outlier{Errors: 2, Interval: "1s", BaseEjectionTime: "2s", MaxEjectionPercent: 10, LocalErrors: 5}
	for name, tt := range map[string]struct {
		raw           string
		server, redis *Outlier
	}{
		"none":           {`{}`, nil, nil},
		"locality":       {`{"load_balancing": "locality"}`, &usual, &usual},
		"for the server": {`{"load_balancing": "locality", "locality_for": ["server"]}`, &usual, nil},
		"said": {
			`{"load_balancing": "locality", "locality_for": ["server"], "outlier_detection": {"consecutive_5xx_errors": 2, "interval": "1s", "base_ejection_time": "2s"}}`,
			&own, &own,
		},
		"Kuma":    {`{"profile": "kuma", "protocol": "http", "load_balancing": "locality"}`, nil, nil},
		"ambient": {`{"mode": "ambient", "load_balancing": "locality"}`, nil, nil},
	} {
		c, err := parse(json.RawMessage(tt.raw))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]*Outlier{tt.server, tt.redis}, []*Outlier{c.outlier("server"), c.outlier("redis")}); diff != "" {
			t.Errorf("%s (-want +got): %s", name, diff)
		}
	}
}

// seen compares all facts of a key with what is wanted.
func seen(t *testing.T, l *Layer, site model.Site, key, want string) error {
	t.Helper()
	ledger, err := l.Observe(t.Context(), site)
	if err != nil {
		return err
	}
	var got string
	for _, f := range ledger {
		if f.Key == key && got != "" {
			got += "; "
		}
		if f.Key == key {
			got += f.Value
		}
	}
	if got != want {
		return fmt.Errorf("%s: %q, want %q", key, got, want)
	}
	return nil
}
