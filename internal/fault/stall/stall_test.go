package stall_test

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/fault/stall"
	"github.com/windtunnel/windtunnel/internal/labtest"
)

func TestMain(m *testing.M) {
	labtest.Main(m, labtest.Commands{labtest.CommandServe: labtest.Serve})
}

func TestConformance(t *testing.T) {
	t.Parallel()
	labtest.Fault(t, labtest.FaultSuite{
		Plugin: stall.Plugin(),
		Cases: map[string]labtest.FaultCase{
			"one":    {Config: `{"pods": ["server-0"]}`, Unreachable: []string{"server-0"}},
			"region": {Config: `{"regions": ["region-0"]}`, Unreachable: []string{"server-0", "server-1"}},
		},
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	labtest.Configs(t, stall.Plugin(), map[string]string{
		`{}`:           "names nothing",
		`{"pod": "a"}`: "unknown field",
	})
}
