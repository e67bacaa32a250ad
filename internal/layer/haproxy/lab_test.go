package haproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{
		"both":   `{"concurrency": 1}`,
		"server": `{"concurrency": 1, "sidecars": "server"}`,
		"mtls":   `{"concurrency": 1, "mtls": "strict", "health_check": {"path": "/"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			labtest.Layer(t, labtest.LayerSuite{
				New:       func(t *testing.T) model.Layer { t.Helper(); return layer(t, config) },
				Elsewhere: []string{model.FactPeer, model.FactWireProtocol},
			})
		})
	}
}

// vip is where the client's sidecar takes requests for the service.
func vip(t *testing.T, site model.Site) netip.AddrPort {
	t.Helper()
	svc, err := site.Service("server")
	if err != nil {
		t.Fatal(err)
	}
	return netip.AddrPortFrom(svc.VIP, svc.Port)
}

// tells serves HTTP/1.1 and h2c in a pod; the body is the protocol and who the
// client is said to be.
func tells(t *testing.T, site model.Site, pod string) {
	t.Helper()
	var l net.Listener
	labtest.In(t, site, pod, func() (err error) {
		l, err = net.Listen("tcp4", "0.0.0.0:8080")
		return err
	})
	server := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Grpc-Status")
		_, _ = fmt.Fprintf(w, "%s %s", r.Proto, r.Header.Get("X-Forwarded-Client-Cert"))
		w.Header().Set("Grpc-Status", "0")
	})}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
}

// dial connects from the client.
func dial(ctx context.Context, t *testing.T, site model.Site, to netip.AddrPort) (c net.Conn, err error) {
	t.Helper()
	labtest.In(t, site, "client-0", func() error {
		c, err = (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp4", to.String())
		return nil
	})
	return c, err
}

// get sends a request that pretends to be somebody else.
func get(t *testing.T, transport http.RoundTripper, to netip.AddrPort) (body string, trailer http.Header, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+to.String()+"/", http.NoBody)
	if err != nil {
		return "", nil, err
	}
	req.Header.Set("X-Forwarded-Client-Cert", "URI=spiffe://forged")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return "", nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	raw, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(raw), resp.Trailer, err
}

// What the client speaks is what the app hears, and with mutual TLS the app is
// told who asks, whatever the client says of itself.
func TestProtocols(t *testing.T) {
	t.Parallel()
	const known = "URI=spiffe://windtunnel.local/ns/default/sa/client"
	for config, peer := range map[string]string{`{"concurrency": 1}`: "", `{"concurrency": 1, "mtls": "strict"}`: known} {
		t.Run(config, func(t *testing.T) {
			t.Parallel()
			l := layer(t, config)
			site := labtest.Site(t, labtest.Topology(1))
			tells(t, site, "server-0")
			labtest.Deploy(t, site, l)
			to := vip(t, site)
			connect := func(ctx context.Context) (net.Conn, error) { return dial(ctx, t, site, to) }
			old := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return connect(ctx) }}
			defer old.CloseIdleConnections()
			second := &http2.Transport{AllowHTTP: true, DialTLSContext: func(ctx context.Context, _, _ string, _ *tls.Config) (net.Conn, error) { return connect(ctx) }}
			defer second.CloseIdleConnections()
			for want, transport := range map[string]http.RoundTripper{"HTTP/1.1 ": old, "HTTP/2.0 ": second} {
				labtest.Eventually(t, func() error {
					body, trailer, err := get(t, transport, to)
					if err == nil && (body != want+peer || trailer.Get("Grpc-Status") != "0") {
						err = fmt.Errorf("the app heard %q and the trailer is %v, want %q", body, trailer, want+peer)
					}
					return err
				})
			}
			facts := labtest.Observed(t, site, l, model.FactPeer, model.FactWireProtocol)
			const checks = "endpoints that passed their health checks"
			if facts[checks] != "2 of 2" { // one endpoint, for two sidecars
				t.Errorf("%s: %q", checks, facts[checks])
			}
			refused(t, site, peer != "")
		})
	}
}

// refused checks that plaintext into the pod is refused if and only if mutual
// TLS is strict.
func refused(t *testing.T, site model.Site, want bool) {
	t.Helper()
	to := netip.AddrPortFrom(labtest.Pod(t, site, "server-0").Addr(), 8080)
	past := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, t, site, to) }}
	body, _, err := get(t, past, to)
	if (err != nil) != want || strings.Contains(body, "forged") {
		t.Errorf("plaintext past the client's sidecar: %q, %v; want it refused: %v", body, err, want)
	}
}

// A server that dies is taken out by its health checks, and nobody notices but
// for what was on its way; when it lives, it is brought back.
func TestHealth(t *testing.T) {
	t.Parallel()
	l := layer(t, `{"concurrency": 1, "sidecars": "client", "retries": 2, "health_check": {"path": "/", "interval": "300ms", "fall": 2, "rise": 1}}`)
	site := labtest.TwoNodes(t)
	labtest.StartServers(t, site)
	before := labtest.State(t, site)
	remove, err := l.Deploy(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	to := vip(t, site)
	both := func() error {
		const n = 20
		got := labtest.Responders(t, site, "client-0", to, "server", n)
		if got["server-0"] != n/2 || got["server-1"] != n/2 {
			return fmt.Errorf("%v answered, want both in turn", got)
		}
		return nil
	}
	labtest.Eventually(t, both)
	revive := labtest.Kill(t, site, "server-0")
	labtest.AnsweredBy(t, site, "client-0", to, "server", "server-1")
	revive()
	labtest.Eventually(t, both)
	d, ok := l.(model.Drainer)
	if !ok {
		t.Fatalf("%T cannot drain", l)
	}
	endpoints, undrain, err := d.Drain(t.Context(), site, []string{"server-1"})
	if err != nil || endpoints != 1 {
		t.Fatalf("%d endpoints drained, %v", endpoints, err)
	}
	labtest.AnsweredBy(t, site, "client-0", to, "server", "server-0")
	if err := errors.Join(undrain(t.Context()), undrain(t.Context())); err != nil {
		t.Fatal(err)
	}
	labtest.Eventually(t, both)
	facts := labtest.Observed(t, site, l)
	if !strings.HasPrefix(facts[model.FactRetries], "up to 2; ") {
		t.Errorf("retries are %q", facts[model.FactRetries])
	}
	if err := remove(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, labtest.State(t, site)); diff != "" {
		t.Errorf("something is left (-before +after):\n%s", diff)
	}
}

// A service that is no HTTP is proxied at L4.
func TestTCP(t *testing.T) {
	t.Parallel()
	l := layer(t, `{"concurrency": 1, "tcp": ["server"]}`)
	site := labtest.TwoNodes(t)
	labtest.StartServers(t, site)
	labtest.Deploy(t, site, l)
	to := vip(t, site)
	labtest.Eventually(t, func() error { _, err := labtest.Ask(t, site, "client-0", to, "server"); return err })
	if facts := labtest.Observed(t, site, l); facts[model.FactLevel] != levelTCP {
		t.Errorf("the level is %q", facts[model.FactLevel])
	}
}

// Pods of another network cannot be sent to, and names that are wrong are told.
func TestRefused(t *testing.T) {
	t.Parallel()
	site := labtest.Site(t, labtest.TwoRegions(0, true))
	if _, err := layer(t, "").Deploy(t.Context(), site); !errors.Is(err, model.ErrUnsupported) {
		t.Errorf("different networks: %v", err)
	}
	flat := labtest.Site(t, labtest.TwoRegions(0, false))
	if _, err := layer(t, `{"tcp": ["x"]}`).Deploy(t.Context(), flat); err == nil || !strings.Contains(err.Error(), `"x"`) {
		t.Errorf("an unknown service: %v", err)
	}
}
