package kill_test

import (
	"encoding/json"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fault/kill"
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
		"crash": {`{"pods": ["server-1"]}`, []string{"server-1"}},
		"power": {`{"nodes": ["node-1"]}`, []string{"server-0", "server-1"}},
		// What the suite's servers run is the component app.
		"component": {`{"pods": ["server-0"], "components": ["app"]}`, []string{"server-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			labtest.Fault(t, labtest.FaultSuite{
				New: func(t *testing.T) model.Fault {
					t.Helper()
					f, err := kill.Plugin().New(json.RawMessage(tt.config))
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
	for _, config := range []string{`{}`, `{"pod": "a"}`, `{"pods": "a"}`, `{"components": ["x"]}`, `{"components": ["generator"]}`, `{"components": ["gateway"], "power": true}`} {
		if _, err := kill.Plugin().New(json.RawMessage(config)); err == nil {
			t.Errorf("%s is taken", config)
		}
	}
}
