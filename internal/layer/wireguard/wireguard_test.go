package wireguard

import (
	"os"
	"testing"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/layer/nftservice"
	"github.com/windtunnel/windtunnel/internal/model"
	wg "github.com/windtunnel/windtunnel/internal/sys/wireguard"
)

func TestMain(m *testing.M) {
	labtest.Main(m, labtest.Commands{Name: func([]string) int {
		if wg.Serve(os.Stdin, os.Stdout) != nil {
			return 1
		}
		return 0
	}})
}

func service(*testing.T) model.Layer { return nftservice.Layer{} }

func TestConformance(t *testing.T) {
	t.Parallel()
	labtest.NetworkLayer(t, labtest.NetworkSuite{
		Plugin: Plugin(), Config: map[string]any{"data_path": userspace}, Form: "WireGuard, port 51820", Sealed: true, Overhead: overhead,
		Segments: true, DataPath: "userspace (wireguard-go over TUN, a process a node)", Service: service,
	})
}

// The kernel's own devices, where this kernel has them.
func TestKernelDevice(t *testing.T) {
	t.Parallel()
	labtest.NeedDevice(t, "wireguard")
	labtest.NetworkLayer(t, labtest.NetworkSuite{
		Plugin: Plugin(), Config: map[string]any{"data_path": "kernel"},
		Form: "WireGuard, port 51820", Sealed: true, Overhead: 60, DataPath: "kernel device (wireguard)", Service: service,
	})
}
