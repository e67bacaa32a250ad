package envoy

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sample/wire"
)

func ambientLayer(tb testing.TB, raw string) *ambient {
	tb.Helper()
	path := program(tb)
	c, err := parse(json.RawMessage(raw))
	if err != nil {
		tb.Fatal(err)
	}
	return &ambient{config: c, find: func(string) (string, error) { return path, nil }}
}

func TestAmbientConformance(t *testing.T) {
	t.Parallel()
	program(t)
	for name, raw := range map[string]string{
		"nodes":    `{"mode": "ambient", "concurrency": 1}`,
		"waypoint": `{"mode": "ambient", "waypoint": true, "concurrency": 1}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			labtest.Layer(t, labtest.LayerSuite{
				New:       func(t *testing.T) model.Layer { t.Helper(); return ambientLayer(t, raw) },
				Elsewhere: []string{model.FactWireProtocol, model.FactWirePorts},
			})
		})
	}
}

// What the node proxies do is read off their counters and the wire: who is let
// in, at which level, over which port, and as whom.
func TestAmbient(t *testing.T) {
	t.Parallel()
	program(t)
	for name, tt := range map[string]struct {
		raw   string
		plain bool // is let in
		want  map[string]string
	}{
		"strict": {`{"mode": "ambient", "concurrency": 1}`, false, map[string]string{
			model.FactLevel: "L4, TCP", model.FactProxies: "2", model.FactRetries: "none: at L4 nothing is",
			model.FactPeer: "spiffe://windtunnel.local/ns/default/sa/client",
		}},
		"permissive": {`{"mode": "ambient", "concurrency": 1, "mtls": "permissive"}`, true, map[string]string{model.FactLevel: "L4, TCP"}},
		"waypoint": {`{"mode": "ambient", "waypoint": true, "concurrency": 1}`, false, map[string]string{
			model.FactLevel: "L7, HTTP", factHTTP: "HTTP/1.1", model.FactProxies: "3", model.FactRetries: "up to 2 by waypoints; 0 done",
			model.FactPeer: "spiffe://windtunnel.local/ns/default/sa/client",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := labtest.Site(t, labtest.Topology(1))
			pod := tells(t, site)
			l := ambientLayer(t, tt.raw)
			labtest.Deploy(t, site, l)
			svc, err := site.Service("server")
			if err != nil {
				t.Fatal(err)
			}
			stop, err := wire.Witness{}.Watch(t.Context(), site, "client-0")
			if err != nil {
				t.Fatal(err)
			}
			told := "peer: URI=spiffe://forged" // at L4 what a client says is not touched
			if l.config.Waypoint {
				told = "peer: "
			}
			for range 3 {
				if got, failure := get(dial(t, site, l.Front(svc)[0], 0)); failure != nil || got != told {
					t.Errorf("through the node's proxies: told %q, %v; want %q", got, failure, told)
				}
			}
			seen, err := stop()
			if err != nil {
				t.Fatal(err)
			}
			onWire := map[string]string{}
			for _, f := range seen {
				onWire[f.Key] = f.Value
			}
			if onWire[model.FactWirePorts] != "15008" || onWire[model.FactWireProtocol] != "TLSv1.3" {
				t.Errorf("on the wire: %v", onWire)
			}
			if told, err := get(dial(t, site, pod, mark)); (err == nil) != tt.plain || isTimeout(err) {
				t.Errorf("plaintext past the client's proxy: told %q, %v", told, err)
			}
			bare := tls.Client(dial(t, site, netip.AddrPortFrom(pod.Addr(), portHBONE), mark), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
			if _, err := get(bare); err == nil || isTimeout(err) || errors.Is(err, unix.ETIMEDOUT) {
				t.Errorf("HBONE without a certificate: %v", err)
			}
			facts := labtest.Observed(t, site, l, model.FactWireProtocol, model.FactWirePorts)
			for key, want := range tt.want {
				if facts[key] != want {
					t.Errorf("%s: %q, want %q", key, facts[key], want)
				}
			}
			ambientArtefacts(t, l, site)
		})
	}
}

func ambientArtefacts(t *testing.T, l *ambient, site model.Site) {
	t.Helper()
	files, err := l.Artefacts(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	for name, dump := range files {
		if !strings.Contains(string(dump), "connect_originate") {
			t.Errorf("%s: %d bytes without what originates HBONE", name, len(dump))
		}
	}
	if len(files) < 2 {
		t.Errorf("the live configurations of %d proxies", len(files))
	}
}

// Over two regions node proxies prefer the own region's endpoints.
func TestAmbientLocality(t *testing.T) {
	t.Parallel()
	program(t)
	site := labtest.Site(t, labtest.TwoRegions(2*time.Millisecond, false))
	labtest.StartServers(t, site)
	l := ambientLayer(t, `{"mode": "ambient", "concurrency": 1, "load_balancing": "locality", "locality_for": ["server"]}`)
	labtest.Deploy(t, site, l)
	svc, err := site.Service("server")
	if err != nil {
		t.Fatal(err)
	}
	for client, local := range map[string]string{"client-home": "server-home", "client-away": "server-away"} {
		labtest.AnsweredBy(t, site, client, l.Front(svc)[0], "server", local)
	}
	facts := labtest.Observed(t, site, l, model.FactWireProtocol, model.FactWirePorts)
	for key, want := range map[string]string{
		"endpoints of server from cluster-home": "P0 home 1, P1 away 1",
		"endpoints of remote from cluster-home": "P0 away 1",
	} {
		if facts[key] != want {
			t.Errorf("%s: %q, want %q", key, facts[key], want)
		}
	}
}

// Where clusters do not reach each other's pods, ambient mode says so; a proxy
// that cannot start leaves nothing behind.
func TestAmbientFails(t *testing.T) {
	t.Parallel()
	far := labtest.Site(t, labtest.TwoRegions(2*time.Millisecond, true))
	if _, err := ambientLayer(t, `{"mode": "ambient"}`).Deploy(t.Context(), far); !errors.Is(err, model.ErrUnsupported) {
		t.Errorf("with networks: %v", err)
	}
	if _, err := ambientLayer(t, `{"mode": "ambient"}`).Deploy(t.Context(), regions("a")); !errors.Is(err, model.ErrUnsupported) {
		t.Errorf("without nodes: %v", err)
	}
	site := labtest.TwoNodes(t)
	before := labtest.State(t, site)
	l := ambientLayer(t, `{"mode": "ambient"}`)
	l.find = func(string) (string, error) { return "/bin/false", nil }
	remove, err := l.Deploy(context.WithoutCancel(t.Context()), site)
	if err == nil || remove != nil || !strings.Contains(err.Error(), "ended while starting") {
		t.Errorf("got %v", err)
	}
	if after := labtest.State(t, site); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("before: %v, after: %v", before, after)
	}
}

// The golden files are what a node's proxy and a waypoint are started with; Envoy
// itself must find them valid.
func TestAmbientBootstrap(t *testing.T) {
	t.Parallel()
	site := labtest.TwoNodes(t)
	l := ambientLayer(t, `{"mode": "ambient", "waypoint": true, "mtls": "permissive"}`)
	if err := l.plan(site); err != nil {
		t.Fatal(err)
	}
	node, err := l.nodeFiles(l.nodes[1])
	if err != nil {
		t.Fatal(err)
	}
	way, err := l.waypointFiles(l.ways[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, files := range map[string]map[string][]byte{"ambient.node": node, "ambient.waypoint": way} {
		config := regexp.MustCompile(`"/proc/[0-9]+/fd/[0-9]+"`).ReplaceAll(files["envoy.json"], []byte(`"a file"`))
		golden(t, name+".json", config)
		validate(t, files)
	}
}
