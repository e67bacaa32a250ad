package nftservice_test

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/layer/nftservice"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestMain(m *testing.M) { labtest.Main(m, nil) }

func TestConformance(t *testing.T) { //nolint:paralleltest // one lab
	labtest.Layer(t, labtest.LayerSuite{New: func(*testing.T) model.Layer { return nftservice.Layer{} }})
}

func TestNoConfiguration(t *testing.T) {
	t.Parallel()
	if _, err := nftservice.Plugin().New([]byte(`{"x": 1}`)); err == nil {
		t.Error("a configuration was accepted")
	}
}
