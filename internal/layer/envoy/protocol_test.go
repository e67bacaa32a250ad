package envoy

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/windtunnel/windtunnel/internal/labtest"
)

// What a client speaks is what the app hears: gRPC needs HTTP/2 on all of its
// way, trailers included, which Envoy leaves out of HTTP/1.1.
func TestProtocolIsKept(t *testing.T) {
	t.Parallel()
	program(t)
	for name, raw := range map[string]string{
		"strict": `{"concurrency": 1}`, "disabled": `{"concurrency": 1, "mtls": "disabled"}`,
		"ambient": `{"concurrency": 1, "mode": "ambient"}`, "waypoint": `{"concurrency": 1, "mode": "ambient", "waypoint": true}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := labtest.Site(t, labtest.Topology(1))
			var l net.Listener
			labtest.In(t, site, "server-0", func() (err error) {
				l, err = net.Listen("tcp4", "0.0.0.0:8080")
				return err
			})
			server := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Trailer", "Grpc-Status")
				_, _ = io.WriteString(w, r.Proto)
				w.Header().Set("Grpc-Status", "0")
			})}
			server.Protocols.SetHTTP1(true)
			server.Protocols.SetUnencryptedHTTP2(true)
			go func() { _ = server.Serve(l) }()
			t.Cleanup(func() { _ = server.Close() })
			to := netip.AddrPortFrom(labtest.Pod(t, site, "server-0").Addr(), 8080)
			if strings.Contains(raw, "ambient") {
				svc, err := site.Service("server")
				if err != nil {
					t.Fatal(err)
				}
				around := ambientLayer(t, raw)
				labtest.Deploy(t, site, around)
				to = around.Front(svc)[0]
			} else {
				labtest.Deploy(t, site, configured(t, raw))
			}
			connect := func(ctx context.Context) (c net.Conn, err error) {
				labtest.In(t, site, "client-0", func() error {
					c, err = (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp4", to.String())
					return nil
				})
				return c, err
			}
			one := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return connect(ctx) }}
			defer one.CloseIdleConnections()
			two := &http2.Transport{AllowHTTP: true, DialTLSContext: func(ctx context.Context, _, _ string, _ *tls.Config) (net.Conn, error) { return connect(ctx) }}
			defer two.CloseIdleConnections()
			for want, transport := range map[string]http.RoundTripper{"HTTP/1.1": one, "HTTP/2.0": two} {
				labtest.Eventually(t, func() error { return heard(t.Context(), transport, to, want) })
			}
		})
	}
}

func heard(ctx context.Context, client http.RoundTripper, at netip.AddrPort, want string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at.String()+"/", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(resp.Body)
	if err == nil && (string(body) != want || want == "HTTP/2.0" && resp.Trailer.Get("Grpc-Status") != "0") {
		err = fmt.Errorf("the app heard %q and the trailer is %v, want %s", body, resp.Trailer, want)
	}
	return err
}
