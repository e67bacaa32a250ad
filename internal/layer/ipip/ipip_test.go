package ipip

import (
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/layer/nftservice"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestMain(m *testing.M) { labtest.Main(m, nil) }

func service(*testing.T) model.Layer { return nftservice.Layer{} }

func TestConformance(t *testing.T) {
	t.Parallel()
	labtest.NetworkLayer(t, labtest.NetworkSuite{
		Plugin: Plugin(), Config: map[string]any{"data_path": "tc-bpf"},
		Form: "IPIP", Overhead: 20, Segments: true, DataPath: "tc-bpf", Service: service,
	})
}

// The kernel's own devices, where this kernel has them.
func TestKernelDevice(t *testing.T) {
	t.Parallel()
	labtest.NeedDevice(t, "ipip")
	labtest.NetworkLayer(t, labtest.NetworkSuite{
		Plugin: Plugin(), Config: map[string]any{"data_path": "kernel"},
		Form: "IPIP", Overhead: 20, Segments: true, DataPath: "kernel device (ipip)", Service: service,
	})
}

// With crossSubnet, only what leaves the region is encapsulated.
func TestCrossSubnet(t *testing.T) {
	t.Parallel()
	for form, regions := range map[string]bool{model.NoEncapsulation: false, "IPIP": true} {
		suite := labtest.NetworkSuite{
			Plugin: Plugin(), Config: map[string]any{"data_path": "tc-bpf", "crossSubnet": true}, Regions: regions,
			Form: form, Overhead: overhead, Segments: true, DataPath: "tc-bpf", Service: service,
		}
		suite.Plain = !regions
		labtest.NetworkLayer(t, suite)
	}
}

// Routes by BGP say the tunnel's MTU, too.
func TestBGP(t *testing.T) {
	t.Parallel()
	labtest.NeedProgram(t, "bird")
	labtest.NetworkLayer(t, labtest.NetworkSuite{
		Plugin: Plugin(), Config: map[string]any{"data_path": "tc-bpf", "routes": "bgp", "bfd": "2s"},
		Form: "IPIP", Overhead: overhead, Segments: true, DataPath: "tc-bpf", Service: service,
	})
	if _, err := Plugin().New([]byte(`{"data_path": "kernel", "routes": "bgp"}`)); err == nil || !strings.Contains(err.Error(), "BIRD") {
		t.Errorf("with kernel devices: %v", err)
	}
}
