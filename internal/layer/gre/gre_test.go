package gre

import (
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
		Form: "GRE", Overhead: 24, Segments: true, DataPath: "tc-bpf", Service: service,
	})
}

// The kernel's own devices, where this kernel has them.
func TestKernelDevice(t *testing.T) {
	t.Parallel()
	labtest.NeedDevice(t, "gre")
	labtest.NetworkLayer(t, labtest.NetworkSuite{
		Plugin: Plugin(), Config: map[string]any{"data_path": "kernel"},
		Form: "GRE", Overhead: 24, Segments: true, DataPath: "kernel device (gre)", Service: service,
	})
}
