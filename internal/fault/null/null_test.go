package null_test

import (
	"encoding/json"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fault/null"
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
		"null": {`{}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			labtest.Fault(t, labtest.FaultSuite{
				New: func(t *testing.T) model.Fault {
					t.Helper()
					f, err := null.Plugin().New(json.RawMessage(tt.config))
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
	for _, config := range []string{`{"pods": ["a"]}`, `[]`} {
		if _, err := null.Plugin().New(json.RawMessage(config)); err == nil {
			t.Errorf("%s is taken", config)
		}
	}
}
