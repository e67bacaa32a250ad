package vxlan

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
		Plugin: Plugin(), Form: "VXLAN, VNI 1, port 8472", Overhead: 50, Segments: true, DataPath: "kernel device (vxlan)", Service: service,
	})
}
