package envoy

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestIngressConformance(t *testing.T) {
	t.Parallel()
	program(t)
	labtest.Layer(t, labtest.LayerSuite{
		New: func(t *testing.T) model.Layer {
			t.Helper()
			return ingressLayer{configured(t, `{"concurrency": 1, "ingress": ["server"]}`)}
		},
		Elsewhere: []string{model.FactPeer},
	})
}

// Who is outside the mesh gets in by the ingress only, and the app is told of the
// ingress, whatever the client says it is.
func TestIngress(t *testing.T) {
	t.Parallel()
	program(t)
	site := labtest.Site(t, labtest.Topology(1))
	pod := tells(t, site)
	l := ingressLayer{configured(t, `{"concurrency": 1, "ingress": ["server"]}`)}
	labtest.Deploy(t, site, l)
	svc, err := site.Service("server")
	if err != nil {
		t.Fatal(err)
	}
	front := l.Front(svc)
	if want := netip.MustParseAddrPort("172.18.0.3:15100"); len(front) != 1 || front[0] != want {
		t.Fatalf("the ingress is at %v, want %v", front, want)
	}
	told, err := get(dial(t, site, front[0], 0))
	if err != nil || !strings.HasSuffix(told, "URI=spiffe://windtunnel.local/ns/default/sa/ingress") || strings.Contains(told, "forged") {
		t.Errorf("through the ingress: told %q, %v", told, err)
	}
	if told, err = get(dial(t, site, pod, 0)); err == nil || isTimeout(err) {
		t.Errorf("past the ingress: told %q, %v", told, err)
	}
	facts := labtest.Observed(t, site, l, model.FactPeer)
	for key, want := range map[string]string{
		model.FactLevel: levelHTTP, model.FactProxies: "2", model.FactMTLS: "TLSv1.3",
		factRequests: "ingress to server, told by both ends alike",
	} {
		if facts[key] != want {
			t.Errorf("%s: %q, want %q", key, facts[key], want)
		}
	}
	files, err := l.Artefacts(t.Context(), site)
	if err != nil || !strings.Contains(string(files["ingress.config_dump.json"]), "ingress_server") || len(files) != 2 {
		t.Errorf("%d live configurations, %v", len(files), err)
	}
	if other := l.Front(model.Service{Name: "redis"}); other != nil {
		t.Errorf("a service that is not let in is at %v", other)
	}
}

func TestIngressNeedsOneCluster(t *testing.T) {
	t.Parallel()
	l := ingressLayer{configured(t, `{"ingress": ["server"]}`)}
	var bad *model.ConfigError
	if _, err := l.Deploy(t.Context(), regions("a", "b")); !errors.As(err, &bad) || bad.Key != "ingress" {
		t.Errorf("two clusters: %v", err)
	}
	if _, err := l.Deploy(t.Context(), regions("a")); !errors.Is(err, model.ErrUnsupported) {
		t.Errorf("without nodes: %v", err)
	}
}
