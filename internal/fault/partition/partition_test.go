package partition_test

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/fault/partition"
	"github.com/windtunnel/windtunnel/internal/labtest"
)

func TestMain(m *testing.M) {
	labtest.Main(m, labtest.Commands{labtest.CommandServe: labtest.Serve})
}

func TestConformance(t *testing.T) {
	t.Parallel()
	labtest.Fault(t, labtest.FaultSuite{
		Plugin: partition.Plugin(),
		Cases: map[string]labtest.FaultCase{
			"from all":   {Config: `{"a": {"nodes": ["node-0"]}}`, Unreachable: []string{"server-0", "server-1"}},
			"from nodes": {Config: `{"a": {"nodes": ["node-1"]}, "b": {"nodes": ["node-0"]}}`, Unreachable: []string{"server-0", "server-1"}},
		},
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	labtest.Configs(t, partition.Plugin(), map[string]string{
		`{}`:                     "names nothing",
		`{"a": {}}`:              "names nothing",
		`{"a": {"pods": ["x"]}}`: "unknown field",
	})
}
