package mcs

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/model"
)

func TestPlugins(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, config, want string }{
		{"endpointslices", "", ""},
		{"mcs", "{}", ""},
		{"mcs", `{"by": "service"}`, "unknown field"},
		{"gke-mcs", "", ""},
		{"gke-mcs", `{"by": "ingress"}`, ""},
		{"gke-mcs", `{"by": "magic"}`, `by is "magic"; it can be service or ingress`},
	} {
		for _, p := range Plugins() {
			if p.Name != tt.name {
				continue
			}
			l, err := p.New(json.RawMessage(tt.config))
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%s %s: %v, want %q", tt.name, tt.config, err, tt.want)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			onTheLab(t, tt.name, l)
		}
	}
}

func onTheLab(t *testing.T, name string, l model.Layer) {
	t.Helper()
	made, ok := l.(Layer)
	if !ok {
		t.Fatalf("%T", l)
	}
	_, deployed := l.Deploy(t.Context(), struct{ model.Site }{})
	_, observed := made.Observe(t.Context(), struct{ model.Site }{})
	for _, err := range []error{deployed, observed, made.Check(t.Context()), made.CheckTarget(model.TargetLab)} {
		if !errors.Is(err, model.ErrUnsupported) || !strings.Contains(err.Error(), "the layer "+name+" on the target lab") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := made.CheckTarget(model.TargetKube); err != nil {
		t.Error(err)
	}
	vip := model.Service{Port: 80, VIP: netip.MustParseAddr("10.0.0.1")}
	if got := made.Front(vip)[0].String(); got != "10.0.0.1:80" {
		t.Errorf("front %s", got)
	}
}
