package policy

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/layer/macvlan"
	"github.com/windtunnel/windtunnel/internal/layer/vxlan"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestMain(m *testing.M) { labtest.Main(m, nil) }

func plugin(t *testing.T, p model.Plugin[model.Layer], config string) model.Layer {
	t.Helper()
	l, err := p.New(json.RawMessage(config))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestConfig(t *testing.T) {
	t.Parallel()
	labtest.Configs(t, Plugin(), map[string]string{
		"":                             "",
		`{"rules": 1000}`:              "",
		`{"rules": 1001}`:              "rules is 1001",
		`{"rules": -1}`:                "rules is -1",
		`{"each": "byte"}`:             `each is "byte"`,
		`{"default": "maybe"}`:         `default is "maybe"`,
		`{"allow": [{"who": 1}]}`:      "who",
		`{"rules": 2000, "each": "x"}`: "each",
	})
}

// Many rules and a default of deny let through what is allowed.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, each := range []string{perConnection, perPacket} {
		labtest.Layer(t, labtest.LayerSuite{
			New: func(t *testing.T) model.Layer {
				t.Helper()
				return plugin(t, Plugin(), `{"rules": 200, "default": "deny", "allow": [{"from": "client", "to": "server"}], "each": "`+each+`"}`)
			},
			Below: func(t *testing.T) []model.Layer {
				t.Helper()
				return []model.Layer{plugin(t, vxlan.Plugin(), "")}
			},
		})
	}
}

// What is denied does not arrive, and is counted.
func TestDenied(t *testing.T) {
	t.Parallel()
	site := labtest.TwoNodes(t)
	l := plugin(t, Plugin(), `{"deny": [{"from": "client-0", "to": "server-1"}]}`)
	remove, err := l.Deploy(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(pod string) error {
		_, failure := labtest.Ask(t, site, "client-0", netip.AddrPortFrom(labtest.Pod(t, site, pod).Addr(), 8080), "")
		return failure
	}
	if err = ask("server-0"); err == nil || !strings.Contains(err.Error(), "refused") { // nobody listens, but it arrives
		t.Errorf("server-0: %v", err)
	}
	if err = ask("server-1"); err == nil || strings.Contains(err.Error(), "refused") {
		t.Errorf("server-1: %v", err)
	}
	o, ok := l.(model.Observer)
	if !ok {
		t.Fatalf("%T observes nothing", l)
	}
	ledger, err := o.Observe(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	counted := ledger[len(ledger)-1].Value
	if !strings.HasPrefix(counted, "1 allowed, ") || strings.HasSuffix(counted, " 0 denied") {
		t.Errorf("counted: %s", counted)
	}
	if err := remove(t.Context()); err != nil {
		t.Error(err)
	}
	if err := ask("server-1"); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("after removal: %v", err)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	site := labtest.TwoNodes(t)
	if _, err := plugin(t, Plugin(), `{"deny": [{"from": "nobody"}]}`).Deploy(t.Context(), site); err == nil || !strings.Contains(err.Error(), `"nobody"`) {
		t.Errorf("a pod that does not exist: %v", err)
	}
	if _, err := plugin(t, macvlan.Plugin(), "").Deploy(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	if _, err := plugin(t, Plugin(), "").Deploy(t.Context(), site); !errors.Is(err, model.ErrUnsupported) {
		t.Errorf("on macvlan: %v", err)
	}
}
