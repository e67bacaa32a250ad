package kill_test

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/fault/kill"
	"github.com/windtunnel/windtunnel/internal/labtest"
)

func TestMain(m *testing.M) {
	labtest.Main(m, labtest.Commands{labtest.CommandServe: labtest.Serve})
}

func TestConformance(t *testing.T) {
	t.Parallel()
	labtest.Fault(t, labtest.FaultSuite{
		Plugin: kill.Plugin(),
		Cases: map[string]labtest.FaultCase{
			"crash": {Config: `{"pods": ["server-1"]}`, Unreachable: []string{"server-1"}},
			"power": {Config: `{"nodes": ["node-1"]}`, Unreachable: []string{"server-0", "server-1"}},
			// What the suite's servers run is the component app.
			"component": {Config: `{"pods": ["server-0"], "components": ["app"]}`, Unreachable: []string{"server-0"}},
		},
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	labtest.Configs(t, kill.Plugin(), map[string]string{
		`{}`:                            "names nothing",
		`{"pod": "a"}`:                  "unknown field",
		`{"pods": "a"}`:                 "reading",
		`{"components": ["x"]}`:         "components",
		`{"components": ["generator"]}`: "components",
		`{"components": ["gateway"], "power": true}`: "power cuts whole pods off",
	})
}
