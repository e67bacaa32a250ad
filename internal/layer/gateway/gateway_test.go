package gateway

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/proxy"
	"github.com/windtunnel/windtunnel/internal/sys"
)

func TestMain(m *testing.M) {
	labtest.Main(m, labtest.Commands{labtest.CommandServe: labtest.Serve})
}

// program finds Envoy, or skips the test.
func program(tb testing.TB) func(string) (string, error) {
	tb.Helper()
	path, err := proxy.Find("")
	if err != nil {
		path, err = proxy.Find(filepath.Join("..", "..", "..", proxy.Installed))
	}
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil && sys.Required("envoy") {
		tb.Fatalf("$WINDTUNNEL_REQUIRE says that there must be an Envoy: %v", err)
	}
	if err != nil {
		tb.Skip(err)
	}
	return func(string) (string, error) { return path, nil }
}

func TestParse(t *testing.T) {
	t.Parallel()
	for raw, problem := range map[string]string{
		"":                                    "",
		`{"profile": "kuma", "cpu": 1}`:       "",
		`{"profile": "nsm"}`:                  `profile is "nsm"; it can be istio or kuma`,
		`{"concurrency": 0, "profile": "x"}`:  "concurrency is 0",
		`{"port": 15443}`:                     `unknown field "port"`,
		`{"profile": "istio", "cpu": -0.001}`: "cpu is -0.001",
	} {
		c, err := parse(json.RawMessage(raw))
		switch {
		case problem == "" && (err != nil || c.Concurrency != 2):
			t.Errorf("%s: %+v, %v", raw, c, err)
		case problem != "" && (err == nil || !strings.Contains(err.Error(), problem)):
			t.Errorf("%s: error %v, want it to say %q", raw, err, problem)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"profile": "kuma", "concurrency": 2}`)
	f.Fuzz(func(t *testing.T, raw string) {
		if c, err := parse(json.RawMessage(raw)); err == nil && (c.Concurrency < 1 || c.Profile.Check() != nil) {
			t.Errorf("%q was accepted: %+v", raw, c)
		}
	})
}

func TestPassed(t *testing.T) {
	t.Parallel()
	const raw = "cluster.outbound_.80_._.server.default.svc.cluster.local.upstream_cx_total: 3\n" +
		"cluster.outbound_.80_._.db.default.svc.cluster.local.upstream_cx_total: 4\ntcp.gateway.downstream_cx_total: 9\n"
	if got := passed([]byte(raw)); got != 7 {
		t.Errorf("%d connections went on, want 7", got)
	}
}
