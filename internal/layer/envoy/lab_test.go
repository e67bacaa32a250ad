package envoy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/proxy"
	"github.com/windtunnel/windtunnel/internal/sys"
)

func TestMain(m *testing.M) {
	labtest.Main(m, labtest.Commands{labtest.CommandServe: labtest.Serve})
}

// program finds Envoy, or skips the test.
func program(tb testing.TB) string {
	tb.Helper()
	path, err := proxy.Find("")
	if err != nil {
		path, err = proxy.Find(filepath.Join("..", "..", "..", proxy.Installed))
	}
	if err == nil {
		path, err = filepath.Abs(path)
	}
	switch {
	case err == nil:
		return path
	case sys.Required(Name):
		tb.Fatalf("$WINDTUNNEL_REQUIRE says that there must be an Envoy: %v", err)
	default:
		tb.Skip(err)
	}
	return ""
}

func layer(tb testing.TB, mode MTLS) *Layer {
	tb.Helper()
	return configured(tb, `{"concurrency": 1, "mtls": "`+string(mode)+`"}`)
}

func configured(tb testing.TB, raw string) *Layer {
	tb.Helper()
	path := program(tb)
	c, err := parse(json.RawMessage(raw))
	if err != nil {
		tb.Fatal(err)
	}
	return &Layer{config: c, find: func(string) (string, error) { return path, nil }}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	program(t)
	labtest.Layer(t, labtest.LayerSuite{
		New:       func(t *testing.T) model.Layer { t.Helper(); return layer(t, Strict) },
		Elsewhere: []string{model.FactPeer, model.FactWireProtocol},
	})
}

// tells serves HTTP in the pod server-0; the answer's body is who the client is said to be.
func tells(t *testing.T, site model.Site) netip.AddrPort {
	t.Helper()
	const pod = "server-0"
	var l net.Listener
	labtest.In(t, site, pod, func() (err error) {
		l, err = net.Listen("tcp4", "0.0.0.0:8080")
		return err
	})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "peer: "+r.Header.Get("x-forwarded-client-cert"))
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return netip.AddrPortFrom(labtest.Pod(t, site, pod).Addr(), 8080)
}

// dial connects from the client; with a mark, past the client's sidecar.
func dial(t *testing.T, site model.Site, to netip.AddrPort, with int) net.Conn {
	t.Helper()
	d := net.Dialer{Timeout: 5 * time.Second, Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		control := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, with) })
		return errors.Join(control, err)
	}}
	var c net.Conn
	labtest.In(t, site, "client-0", func() (err error) {
		c, err = d.DialContext(t.Context(), "tcp4", to.String())
		return err
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// get sends a request that pretends to be somebody else, and returns the body.
func get(c net.Conn) (string, error) {
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: server\r\nx-forwarded-client-cert: URI=spiffe://forged\r\nConnection: close\r\n\r\n"); err != nil {
		return "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(body), err
}

func TestModes(t *testing.T) {
	t.Parallel()
	program(t)
	const known, unknown, refused = "spiffe://windtunnel.local/ns/default/sa/client", "peer: ", "refused"
	for mode, want := range map[MTLS]struct{ meshed, past, without string }{
		Strict:     {known, refused, refused},
		Permissive: {known, unknown, refused},
		Disabled:   {unknown, unknown, refused},
	} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			site := labtest.Site(t, labtest.Topology(1))
			to := tells(t, site)
			l := layer(t, mode)
			remove, err := l.Deploy(t.Context(), site)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := remove(context.WithoutCancel(t.Context())); err != nil {
					t.Error(err)
				}
			}()
			plain := dial(t, site, to, mark)
			for _, c := range []struct {
				name, want string
				conn       net.Conn
			}{
				{"through both sidecars", want.meshed, dial(t, site, to, 0)},
				{"plaintext past the client's sidecar", want.past, plain},
				{"TLS without a certificate", want.without, tls.Client(dial(t, site, to, mark), &tls.Config{InsecureSkipVerify: true})},
			} {
				told, err := get(c.conn)
				ok := strings.HasSuffix(told, c.want) && err == nil
				if c.want == refused {
					ok = err != nil && !errors.Is(err, unix.ETIMEDOUT) && !isTimeout(err)
				}
				if c.want == known {
					ok = ok && strings.Contains(told, "URI="+known)
				}
				if !ok || strings.Contains(told, "forged") {
					t.Errorf("%s: told %q, error %v; want %s", c.name, told, err, c.want)
				}
			}
			observed(t, l, site, mode)
		})
	}
}

// Where apps are first, what they ask before their sidecar is there fails: at
// least the first request, which is sent before any sidecar is started.
func TestAppFirst(t *testing.T) {
	t.Parallel()
	site := labtest.Site(t, labtest.Topology(1))
	to := tells(t, site)
	l := configured(t, `{"concurrency": 1, "start": "app-first"}`)
	labtest.Deploy(t, site, l)
	if told, err := get(dial(t, site, to, 0)); err != nil || !strings.HasSuffix(told, "sa/client") {
		t.Errorf("after the start: told %q, %v", told, err)
	}
	facts := labtest.Observed(t, site, l, elsewhere()...)
	var failed, asked, after, refused int
	if _, err := fmt.Sscanf(facts[factWindow], "%d of %d failed, the last after %d ms:", &failed, &asked, &after); err != nil {
		t.Fatalf("%q: %v", facts[factWindow], err)
	}
	if i := strings.Index(facts[factWindow], "refused "); i < 0 || failed > asked {
		t.Errorf("%q: nothing was refused", facts[factWindow])
	} else if _, err := fmt.Sscanf(facts[factWindow][i:], "refused %d", &refused); err != nil || refused < 1 || refused > failed {
		t.Errorf("%q: %d refused, %v", facts[factWindow], refused, err)
	}
}

// What can go wrong has names.
func TestFailures(t *testing.T) {
	t.Parallel()
	for want, tt := range map[string]struct {
		status int
		err    error
	}{
		"":                  {404, nil},
		"503":               {503, nil},
		"refused":           {0, fmt.Errorf("dial: %w", syscall.ECONNREFUSED)},
		"timed out":         {0, fmt.Errorf("read: %w", os.ErrDeadlineExceeded)},
		"connection broken": {0, io.ErrUnexpectedEOF},
	} {
		if got := failure(tt.status, tt.err); got != want {
			t.Errorf("%d, %v: %q, want %q", tt.status, tt.err, got, want)
		}
	}
	if got := (&startWindow{}).String(); !strings.HasPrefix(got, "none: ") {
		t.Errorf("nothing asked: %q", got)
	}
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// observed checks the ledger and the artefacts after traffic.
func observed(t *testing.T, l *Layer, site model.Site, mode MTLS) {
	t.Helper()
	ledger, err := l.Observe(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	want := map[MTLS]string{Strict: "TLSv1.3", Permissive: "TLSv1.3", Disabled: "none"}[mode]
	for key, value := range map[string]string{model.FactMTLS: want, model.FactProxies: "2", model.FactRetries: "up to 2; 0 done", "sidecar worker threads": "1"} {
		if !slices.ContainsFunc(ledger, func(f model.Fact) bool { return f.Layer == Name && f.Key == key && f.Value == value }) {
			t.Errorf("no fact %s = %s in %v", key, value, ledger)
		}
	}
	files, err := l.Artefacts(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range []string{"client-0", "server-0"} {
		dump := files[pod+".config_dump.json"]
		if !bytes.Contains(dump, []byte("virtualOutbound")) || bytes.Contains(dump, []byte("PRIVATE KEY")) {
			t.Errorf("the live configuration of %s (%d bytes) lacks the listener, or holds a key", pod, len(dump))
		}
	}
}

// A sidecar that cannot start leaves nothing behind, and says why.
func TestFailedDeployment(t *testing.T) {
	t.Parallel()
	site := labtest.TwoNodes(t)
	before := labtest.State(t, site)
	l := &Layer{config: Config{Profile: proxy.Istio, MTLS: Strict, Options: proxy.Options{Concurrency: 1}}, find: func(string) (string, error) { return "/bin/false", nil }}
	remove, err := l.Deploy(t.Context(), site)
	if err == nil || remove != nil || !strings.Contains(err.Error(), "ended while starting") {
		t.Errorf("got %v", err)
	}
	if after := labtest.State(t, site); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("before: %v, after: %v", before, after)
	}
}
