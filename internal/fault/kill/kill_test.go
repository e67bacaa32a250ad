package kill_test

import (
	"encoding/json"
	"errors"
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

// Real clusters have crashes only.
func TestOnKube(t *testing.T) {
	t.Parallel()
	for config, works := range map[string]bool{
		`{"pods": ["a"]}`:                        true,
		`{"regions": ["a"], "power": false}`:     true,
		`{"regions": ["a"]}`:                     false,
		`{"pods": ["a"], "power": true}`:         false,
		`{"components": ["sidecar"]}`:            false,
		`{"components": ["app"], "pods": ["a"]}`: false,
	} {
		f, err := kill.New(json.RawMessage(config))
		if err != nil {
			t.Fatal(err)
		}
		on, ok := f.(model.Portable)
		if !ok {
			t.Fatalf("%T is not for other targets", f)
		}
		if err := on.CheckTarget(model.TargetKube); (err == nil) != works || !works && !errors.Is(err, model.ErrUnsupported) {
			t.Errorf("%s: %v", config, err)
		}
		if err := on.CheckTarget(model.TargetLab); err != nil {
			t.Errorf("%s on the lab: %v", config, err)
		}
	}
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
