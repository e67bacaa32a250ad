package haproxy

import (
	"encoding/json"
	"errors"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/proxy"
	"github.com/windtunnel/windtunnel/internal/sys"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) {
	labtest.Main(m, labtest.Commands{labtest.CommandServe: labtest.Serve})
}

// layer is configured with the HAProxy that there is; without one the test is
// skipped.
func layer(tb testing.TB, raw string) model.Layer {
	tb.Helper()
	if _, err := Find(""); err != nil && sys.Required(Name) {
		tb.Fatalf("$WINDTUNNEL_REQUIRE says that there must be a HAProxy: %v", err)
	} else if err != nil {
		tb.Skip(err)
	}
	l, err := Plugin(Find).New(json.RawMessage(raw))
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func TestParse(t *testing.T) {
	t.Parallel()
	for raw, problem := range map[string]string{
		"": "",
		`{"sidecars": "server", "retries": 0, "health_check": {"path": "/healthz", "interval": "500ms"}, "tcp": ["redis"]}`: "",
		`{"mtls": "strict"}`:                           "",
		`{"mtls": "strict", "sidecars": "client"}`:     "mtls is between two sidecars",
		`{"mtls": "permissive"}`:                       `mtls is "permissive"; it can be strict or disabled`,
		`{"sidecars": "none"}`:                         `sidecars is "none"`,
		`{"load_balancing": "source"}`:                 `load_balancing is "source"`,
		`{"retries": -1}`:                              "retries is -1; it can be 0 to 100",
		`{"health_check": {"interval": "soon"}}`:       `health_check.interval is "soon"`,
		`{"health_check": {"fall": 0}}`:                "health_check.fall is 0; it can be 1 to 100",
		`{"health_check": {"path": "/x\n  server x"}}`: "health_check.path is",
		`{"health_check": {"path": "x"}}`:              "it must begin with a slash",
		`{"health_check": {"rise": 101, "fall": 101}}`: "health_check.rise is 101",
		`{"concurrency": 0}`:                           "concurrency is 0",
		`{"threads": 2}`:                               `unknown field "threads"`,
	} {
		c, err := parse(json.RawMessage(raw))
		switch {
		case problem == "" && (err != nil || c.Health.Fall != 3 || c.Concurrency != 2):
			t.Errorf("%s: %+v, %v", raw, c, err)
		case problem != "" && (err == nil || !strings.Contains(err.Error(), problem)):
			t.Errorf("%s: error %v, want it to say %q", raw, err, problem)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"sidecars": "server", "health_check": {"path": "/healthz", "interval": "500ms"}}`)
	f.Fuzz(func(t *testing.T, raw string) {
		c, err := parse(json.RawMessage(raw))
		if err == nil && (c.algorithm() == "" || c.Retries < 0 || strings.ContainsAny(c.Health.Path, " \n\"#")) {
			t.Errorf("%q was accepted: %+v", raw, c)
		}
	})
}

func TestNoProgram(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "haproxy")
	_, err := Find(missing)
	if !errors.Is(err, model.ErrUnsupported) || !strings.Contains(err.Error(), "apt-get install haproxy") || !strings.Contains(err.Error(), missing) {
		t.Errorf("error %v must say what is missing and how to get it", err)
	}
}

// fixed is a pod that is no more than its name and address.
type fixed struct {
	model.Pod
	name, addr string
}

func (f fixed) Name() string     { return f.name }
func (f fixed) Addr() netip.Addr { return netip.MustParseAddr(f.addr) }

// What a server's sidecar is told, of an HTTP service and one at L4.
func TestFile(t *testing.T) {
	t.Parallel()
	c, err := parse(json.RawMessage(`{"mtls": "strict", "load_balancing": "least-connections", "health_check": {"path": "/healthz", "interval": "500ms"}}`))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := proxy.NewCA(caName, caName)
	if err != nil {
		t.Fatal(err)
	}
	web := service{proxy.Service{
		Service:   model.Service{Name: "web", Port: 80, TargetPort: 8080, Pods: []string{"web-0", "web-1"}},
		Endpoints: []model.Pod{fixed{name: "web-0", addr: "10.128.4.2"}, fixed{name: "web-1", addr: "10.128.4.3"}},
	}, true}
	redis := service{proxy.Service{
		Service:   model.Service{Name: "redis", Port: 6379, TargetPort: 6379, Pods: []string{"redis-0"}},
		Endpoints: []model.Pod{fixed{name: "redis-0", addr: "10.128.4.4"}},
	}, false}
	l := &Layer{config: c, ca: ca, services: []service{web, redis}}
	got := l.file(&sidecar{own: []service{web, redis}})
	golden := filepath.Join("testdata", "both.cfg")
	if *update {
		if err = os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The sample is what HAProxy 2.6 has said of a sidecar after traffic.
func TestParseStat(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("testdata", "stat.csv"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseStat(raw)
	if err != nil {
		t.Fatal(err)
	}
	want := counters{requests: 189, out: 189, up: 1, checked: 1}
	if got != want {
		t.Errorf("read %+v, want %+v", got, want)
	}
	if _, err := parseStat(nil); err == nil {
		t.Error("no table at all was read")
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("# pxname,svname,req_tot,stot,wretr,status,mode\nout:server,FRONTEND,3,1,,OPEN,http,\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if c, err := parseStat(raw); err == nil && c.up > c.checked {
			t.Errorf("%q: %+v", raw, c)
		}
	})
}

func TestField(t *testing.T) {
	t.Parallel()
	info := []byte("Name: HAProxy\nVersion: 2.6.12-1+deb12u4\nCumSslConns: 7\n")
	if v, n, none := field(info, "Version"), field(info, "CumSslConns"), field(info, "Cum"); v != "2.6.12-1+deb12u4" || n != "7" || none != "" {
		t.Errorf("read %q, %q and %q", v, n, none)
	}
}
