package nginx

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

func TestMain(m *testing.M) { labtest.Main(m, nil) }

func TestParse(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		raw     string
		want    Config
		problem string
	}{
		"nothing":       {"", Config{"", 1_000_000_000, 16}, ""},
		"all":           {`{"path": "/n", "keepalive_requests": 1000, "body_bytes": 0}`, Config{"/n", 1000, 0}, ""},
		"no requests":   {`{"keepalive_requests": 0}`, Config{}, "keepalive_requests is 0; it must be at least 1"},
		"negative body": {`{"body_bytes": -1}`, Config{}, "body_bytes is -1; it can be 0 to 1048576"},
		"large body":    {`{"body_bytes": 1048577}`, Config{}, "body_bytes is 1048577"},
		"unknown key":   {`{"workers": 2}`, Config{}, "known keys are path, keepalive_requests, body_bytes"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parse(json.RawMessage(tt.raw))
			if tt.problem != "" {
				if err == nil || !strings.Contains(err.Error(), tt.problem) {
					t.Errorf("error %v, want it to say %q", err, tt.problem)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got): %s", err, diff)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"path": "/n", "keepalive_requests": 1000, "body_bytes": 0}`)
	f.Fuzz(func(t *testing.T, raw string) {
		if c, err := parse(json.RawMessage(raw)); err == nil && (c.KeepaliveRequests < 1 || c.BodyBytes < 0 || c.BodyBytes > maxBody) {
			t.Errorf("%q was accepted: %+v", raw, c)
		}
	})
}

func TestNoProgram(t *testing.T) {
	t.Parallel()
	a := app{Config{Path: filepath.Join(t.TempDir(), "nginx")}}
	err := a.Check(t.Context())
	if !errors.Is(err, model.ErrUnsupported) || !strings.Contains(err.Error(), "apt-get install") {
		t.Errorf("error %v must say how to get it", err)
	}
}

// need skips the test where there is no nginx.
func need(tb testing.TB, a app) string {
	tb.Helper()
	path, err := a.find()
	switch {
	case err == nil:
		return path
	case sys.Required(Name):
		tb.Fatalf("$WINDTUNNEL_REQUIRE says that there must be an nginx: %v", err)
	default:
		tb.Skip(err)
	}
	return ""
}

// nginx itself must find every configuration valid.
func TestConfigurationIsValid(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{"defaults": "", "largest body": `{"body_bytes": 1048576}`, "empty body": `{"body_bytes": 0}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := parse(json.RawMessage(raw))
			if err != nil {
				t.Fatal(err)
			}
			a, dir := app{c}, t.TempDir()
			program := need(t, a)
			p := a.process(program, "server-0", 8080)
			file := filepath.Join(dir, "nginx.conf")
			if err = os.WriteFile(file, []byte(strings.ReplaceAll(string(p.Files["nginx.conf"]), "{dir}", dir)), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), program, "-t", "-q", "-p", dir, "-e", "stderr", "-c", file).CombinedOutput()
			if err != nil || len(out) > 0 {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// Bodies are as long as they were asked to be, whatever nginx's limits are.
func TestBodies(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 3999, 4000, 4001, 8000, maxBody} {
		a := app{Config{KeepaliveRequests: 1, BodyBytes: n}}
		need(t, a)
		site := labtest.Site(t, labtest.Topology(1))
		ends, err := a.Deploy(t.Context(), site)
		if err != nil {
			t.Fatal(err)
		}
		labtest.Eventually(t, func() error {
			_, failure := labtest.Ask(t, site, "client-0", ends.Backends[0].Addr, "")
			return failure
		})
		if got := length(t, site, ends.Backends[0].Addr); got != n {
			t.Errorf("%d bytes, want %d", got, n)
		}
	}
}

// length asks for / and counts the body's bytes.
func length(t *testing.T, site model.Site, at netip.AddrPort) int {
	t.Helper()
	var body []byte
	labtest.In(t, site, "client-0", func() error {
		c, err := net.DialTimeout("tcp4", at.String(), 5*time.Second)
		if err != nil {
			return err
		}
		defer c.Close() //nolint:errcheck // only read
		if err = c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
			return err
		}
		if _, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: server\r\nConnection: close\r\n\r\n"); err != nil {
			return err
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		defer resp.Body.Close() //nolint:errcheck // only read
		body, err = io.ReadAll(resp.Body)
		return err
	})
	return len(body)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	c, err := parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	need(t, app{c})
	labtest.App(t, labtest.AppSuite{New: func(*testing.T) model.App { return app{c} }})
}
