package wire

import (
	"crypto/tls"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/layer/ipip"
	"github.com/windtunnel/windtunnel/internal/layer/vxlan"
	"github.com/windtunnel/windtunnel/internal/layer/wireguard"
	"github.com/windtunnel/windtunnel/internal/model"
)

// What is carried in a tunnel is read, and the tunnel named; where packets are
// sealed, what they hold is read before that.
func TestWitnessOfTunnels(t *testing.T) {
	t.Parallel()
	_, answer := handshake(t, tls.VersionTLS13)
	for _, tt := range []struct {
		plugin       model.Plugin[model.Layer]
		config, form string
	}{
		{vxlan.Plugin(), "{}", "VXLAN, VNI 1, port 8472"},
		{ipip.Plugin(), "{}", "IPIP"},
		{wireguard.Plugin(), "{}", "WireGuard, port 51820"},
	} {
		site := labtest.Site(t, labtest.Topology(1))
		layer, err := tt.plugin.New(json.RawMessage(tt.config))
		if err != nil {
			t.Fatal(err)
		}
		remove, err := layer.Deploy(t.Context(), site)
		if err != nil {
			t.Fatal(err)
		}
		stop, err := Witness{}.Watch(t.Context(), site, "client-0")
		if err != nil {
			t.Fatal(err)
		}
		exchange(t, site, "\x16\x03\x01\x02\x00\x01", string(answer))
		got, err := stop()
		if err != nil {
			t.Error(err)
		}
		want := model.Ledger{
			{Layer: Name, Key: model.FactMTU, Value: "1500", Source: model.SourceConfig},
			{Layer: Name, Key: model.FactEncapsulation, Value: tt.form, Source: model.SourceWire},
			{Layer: Name, Key: model.FactWireProtocol, Value: "TLSv1.3", Source: model.SourceWire},
			{Layer: Name, Key: model.FactWirePorts, Value: "8080", Source: model.SourceWire},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.plugin.Name, diff)
		}
		if err := remove(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
