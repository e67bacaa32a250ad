package null_test

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/fault/null"
	"github.com/windtunnel/windtunnel/internal/labtest"
)

func TestMain(m *testing.M) {
	labtest.Main(m, labtest.Commands{labtest.CommandServe: labtest.Serve})
}

func TestConformance(t *testing.T) {
	t.Parallel()
	labtest.Fault(t, labtest.FaultSuite{
		Plugin: null.Plugin(),
		Cases: map[string]labtest.FaultCase{
			"null": {Config: `{}`},
		},
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	labtest.Configs(t, null.Plugin(), map[string]string{
		`{"pods": ["a"]}`: "unknown field",
		`[]`:              "reading",
	})
}
