package anycast

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/proxy"
	"github.com/windtunnel/windtunnel/internal/sys"
)

func TestMain(m *testing.M) {
	labtest.Main(m, labtest.Commands{labtest.CommandServe: labtest.Serve})
}

// layer is configured with the Envoy that there is; without one the test is
// skipped.
func layer(tb testing.TB, raw string) *Layer {
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
	made, err := Plugin(func(string) (string, error) { return path, nil }).New(json.RawMessage(raw))
	if err != nil {
		tb.Fatal(err)
	}
	l, ok := made.(*Layer)
	if !ok {
		tb.Fatalf("the catalog makes a %T", made)
	}
	return l
}

func TestParse(t *testing.T) {
	t.Parallel()
	for raw, problem := range map[string]string{
		"": "",
		`{"services": ["a"], "health_check": {"interval": "500ms", "path": "/healthz"}}`: "",
		`{"health_check": {"interval": "never"}}`:                                        `health_check.interval is "never"`,
		`{"health_check": {"timeout": "-1s", "path": "x"}}`:                              `health_check.path is "x"`,
		`{"health_check": {"unhealthy_threshold": 0}}`:                                   "health_check.unhealthy_threshold is 0; it can be 1 to 100",
		`{"health_check": {"healthy_threshold": 101}}`:                                   "health_check.healthy_threshold is 101",
		`{"health_check": {"port": 1}}`:                                                  `unknown field "port"`,
		`{"concurrency": 0}`:                                                             "concurrency is 0",
	} {
		c, err := parse(json.RawMessage(raw))
		switch {
		case problem == "" && (err != nil || c.Health.Unhealthy != 2 || c.Concurrency != 2):
			t.Errorf("%s: %+v, %v", raw, c, err)
		case problem != "" && (err == nil || !strings.Contains(err.Error(), problem)):
			t.Errorf("%s: error %v, want it to say %q", raw, err, problem)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"services": ["a"], "health_check": {"interval": "500ms"}}`)
	f.Fuzz(func(t *testing.T, raw string) {
		c, err := parse(json.RawMessage(raw))
		if _, interval := c.Health.Interval.Value(); err == nil && (c.Concurrency < 1 || c.Health.Healthy < 1 || interval != nil) {
			t.Errorf("%q was accepted: %+v", raw, c)
		}
	})
}

func TestCounted(t *testing.T) {
	t.Parallel()
	requests, retried := counted([]byte("http.edge_server.downstream_rq_total: 5\nhttp.admin.downstream_rq_total: 7\n" +
		"cluster.backend|server.upstream_rq_retry: 2\ncluster.backend|server.upstream_rq_total: 9\n"))
	if requests != 5 || retried != 2 {
		t.Errorf("%d requests and %d retries, want 5 and 2", requests, retried)
	}
}

func TestChecksIn(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"configs": [{}, {"static_clusters": [{"cluster": {"health_checks": [{"interval": "0.500s", "unhealthy_threshold": 2, "healthy_threshold": 1,
			"http_health_check": {"path": "/"}}]}}]}]}`: "GET / every 500ms, 2 failures in a row take out, 1 successes bring back",
		`{"configs": []}`: "none",
	} {
		if got, err := checksIn([]byte(raw)); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", raw, got, err, want)
		}
	}
	if _, err := checksIn([]byte("x")); err == nil {
		t.Error("what is no JSON was read")
	}
}

func FuzzChecksIn(f *testing.F) {
	f.Add([]byte(`{"configs": [{"static_clusters": [{"cluster": {"health_checks": [{"interval": "1s"}]}}]}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if got, err := checksIn(raw); (err == nil) == (got == "") {
			t.Errorf("%q and %v", got, err)
		}
	})
}

var _ model.Fronter = (*Layer)(nil)
