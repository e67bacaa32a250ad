package envoy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/app/echo"
	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/layer/envoy"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestMain(m *testing.M) {
	labtest.Main(m, labtest.Commands{"echo": func(args []string) int {
		// echo --listen ADDR --identity ID, as the app starts it
		if err := echo.Serve(context.Background(), echo.Options{Listen: args[1], Identity: args[3]}); err != nil {
			return 1
		}
		return 0
	}})
}

// find looks where `make envoy` puts it, from this folder.
func find(explicit string) (string, error) {
	if path, err := envoy.Find(explicit); err == nil || explicit != "" {
		return path, err
	}
	return envoy.Find("../../../.tools/envoy/envoy/_bin/envoy")
}

func newLayer(t *testing.T, config string) model.Layer {
	t.Helper()
	l, err := envoy.Plugin(find).New([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// get asks for / from inside the client's pod, with a mark on the socket, and
// returns who the server was told that the client is.
func get(t *testing.T, site model.Site, to netip.AddrPort, mark int) (peer string, err error) {
	t.Helper()
	labtest.In(t, site, "client-0", func() error {
		d := net.Dialer{Timeout: 2 * time.Second, Control: func(_, _ string, c syscall.RawConn) error {
			return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_MARK, mark) })
		}}
		var conn net.Conn
		if conn, err = d.DialContext(t.Context(), "tcp4", to.String()); err != nil {
			return nil
		}
		defer conn.Close() //nolint:errcheck // only read
		_ = conn.SetDeadline(time.Now().Add(3 * time.Second))
		_, _ = fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: server\r\nConnection: close\r\n\r\n")
		var resp *http.Response
		if resp, err = http.ReadResponse(bufio.NewReader(conn), nil); err != nil {
			return nil
		}
		peer = resp.Header.Get("x-windtunnel-peer")
		return resp.Body.Close()
	})
	return peer, err
}

// Sidecars prove who the client is, refuse plaintext, observe what they claim
// and leave nothing behind; twice, on one site.
func TestStrict(t *testing.T) { //nolint:paralleltest // one lab
	site := labtest.TwoNodes(t)
	if _, err := find(""); err != nil {
		t.Fatal(err)
	}
	endpoints, err := echo.App{}.Deploy(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	server := endpoints.Backends[0].Addr
	before := labtest.State(t, site)
	for range 2 {
		l := newLayer(t, `{"mtls": "strict"}`)
		remove, err := l.Deploy(t.Context(), site)
		if err != nil {
			t.Fatal(err)
		}
		told, err := get(t, site, server, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(told, "spiffe://windtunnel.local/ns/default/sa/client") {
			t.Errorf("the app was told that the client is %q", told)
		}
		if _, err := get(t, site, server, 1337); err == nil {
			t.Error("plaintext past the client's sidecar was answered")
		}
		observed(t, l, site)
		if err := remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		if told, err := get(t, site, server, 0); err != nil || told != "" {
			t.Errorf("after the removal: %q, %v", told, err)
		}
		if after := labtest.State(t, site); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("residue: before %v\nafter %v", before, after)
		}
	}
}

// observed checks claims against what Observe saw; who the client proved to be
// is seen in the app's answers.
func observed(t *testing.T, l model.Layer, site model.Site) {
	t.Helper()
	o, ok := l.(model.Observer)
	if !ok {
		t.Fatal("the layer does not observe")
	}
	ledger, err := o.Observe(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range o.Claims() {
		seen := slices.ContainsFunc(ledger, func(f model.Fact) bool { return f.Key == c.Key && f.Value == c.Value })
		if !seen && c.Key != model.FactPeer {
			t.Errorf("claimed and not observed: %+v; observed %+v", c, ledger)
		}
	}
	sidecars, ok := l.(*envoy.Layer)
	if !ok {
		t.Fatal("not the layer")
	}
	files, err := sidecars.Artefacts(t.Context(), site)
	if err != nil || len(files) != 3 {
		t.Fatalf("%d live configurations, %v", len(files), err)
	}
	for name, data := range files {
		if strings.Contains(string(data), "PRIVATE KEY") {
			t.Errorf("%s holds a private key", name)
		}
	}
}

func TestDisabledIsPlaintext(t *testing.T) { //nolint:paralleltest // one lab
	site := labtest.TwoNodes(t)
	endpoints, err := echo.App{}.Deploy(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	l := newLayer(t, `{"mtls": "disabled"}`)
	remove, err := l.Deploy(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	told, err := get(t, site, endpoints.Backends[0].Addr, 0)
	if err != nil || told != "" {
		t.Errorf("%q, %v", told, err)
	}
	observed(t, l, site)
	if err := remove(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestConfigurationProblemsAllAtOnce(t *testing.T) {
	t.Parallel()
	_, err := envoy.Plugin(find).New([]byte(`{"mtls": "maybe", "concurrency": -1, "cpu": -2}`))
	for _, want := range []string{"mtls", "concurrency", "cpu"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

func TestMissingEnvoy(t *testing.T) {
	t.Parallel()
	_, err := envoy.Find("/nonexistent")
	if !errors.Is(err, model.ErrUnsupported) || !strings.Contains(err.Error(), "make envoy") {
		t.Errorf("got %v", err)
	}
}
