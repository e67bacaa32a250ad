package partition_test

import (
	"encoding/json"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fault/partition"
	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestMain(m *testing.M) {
	labtest.Main(m, labtest.Commands{labtest.CommandServe: labtest.Serve})
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		config      string
		unreachable []string
	}{
		"from all":   {`{"a": {"nodes": ["node-0"]}}`, []string{"server-0", "server-1"}},
		"from nodes": {`{"a": {"nodes": ["node-1"]}, "b": {"nodes": ["node-0"]}}`, []string{"server-0", "server-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			labtest.Fault(t, labtest.FaultSuite{
				New: func(t *testing.T) model.Fault {
					t.Helper()
					f, err := partition.Plugin().New(json.RawMessage(tt.config))
					if err != nil {
						t.Fatal(err)
					}
					return f
				},
				Unreachable: tt.unreachable,
			})
		})
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, config := range []string{`{}`, `{"a": {}}`, `{"a": {"pods": ["x"]}}`} {
		if _, err := partition.Plugin().New(json.RawMessage(config)); err == nil {
			t.Errorf("%s is taken", config)
		}
	}
}
