package anycast

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	labtest.Layer(t, labtest.LayerSuite{
		New: func(t *testing.T) model.Layer { t.Helper(); return layer(t, `{"concurrency": 1}`) },
	})
}

// The same address leads every client to its own region's edge and server; when
// that dies, requests go to the other region, and come back after it lives.
func TestNearestHealthy(t *testing.T) {
	t.Parallel()
	site := labtest.Site(t, labtest.TwoRegions(2*time.Millisecond, false))
	labtest.StartServers(t, site)
	before := labtest.State(t, site)
	l := layer(t, `{"concurrency": 1, "services": ["server"], "health_check": {"interval": "500ms", "timeout": "400ms"}}`)
	remove, err := l.Deploy(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	svc, err := site.Service("server")
	if err != nil {
		t.Fatal(err)
	}
	to := l.Front(svc)[0]
	for client, local := range map[string]string{"client-home": "server-home", "client-away": "server-away"} {
		labtest.AnsweredBy(t, site, client, to, "server", local)
		const n = 30
		if got := labtest.Responders(t, site, client, to, "server", n); got[local] != n {
			t.Errorf("%s was answered by %v, not only by %s", client, got, local)
		}
		if got := viaOf(t, site, client, to); got != via {
			t.Errorf("the answer to %s came %q, want %q", client, got, via)
		}
	}
	if got := l.Front(model.Service{Name: "remote"}); got != nil {
		t.Errorf("a service that was not asked for has the address %v", got)
	}
	killed := time.Now()
	revive := labtest.Kill(t, site, "server-home")
	const n = 100
	during := labtest.Responders(t, site, "client-home", to, "server", n)
	t.Logf("in %s after the kill: %v", time.Since(killed), during)
	if during["server-home"] > 0 || during["server-away"] < n/2 {
		t.Errorf("after the kill %v answered", during)
	}
	labtest.AnsweredBy(t, site, "client-home", to, "server", "server-away")
	revive()
	back := time.Now()
	labtest.AnsweredBy(t, site, "client-home", to, "server", "server-home")
	t.Logf("ten answers of the own region %s after the heal", time.Since(back))
	facts := labtest.Observed(t, site, l)
	if got := facts["endpoints of server from the edge of away"]; got != "P0 away 1, P1 home 1" {
		t.Errorf("the live endpoints are %q", got)
	}
	if facts["edges in use"] != "2" {
		t.Errorf("%s edges were used, want both", facts["edges in use"])
	}
	if err := remove(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, labtest.State(t, site)); diff != "" {
		t.Errorf("something is left (-before +after):\n%s", diff)
	}
}

// viaOf asks once and returns the marks of the proxies that the answer passed.
func viaOf(t *testing.T, site model.Site, client string, to netip.AddrPort) (via string) {
	t.Helper()
	labtest.In(t, site, client, func() error {
		const patience = 10 * time.Second
		conn, err := (&net.Dialer{Timeout: patience}).DialContext(t.Context(), "tcp4", to.String())
		if err != nil {
			return err
		}
		defer conn.Close() //nolint:errcheck // only read
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server/", http.NoBody)
		if err != nil {
			return err
		}
		if err = errors.Join(conn.SetDeadline(time.Now().Add(patience)), req.Write(conn)); err != nil {
			return err
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), req)
		if err != nil {
			return err
		}
		via = resp.Header.Get("Via")
		return resp.Body.Close()
	})
	return via
}

// Pods of another network cannot be sent to, and names that are wrong are told.
func TestRefused(t *testing.T) {
	t.Parallel()
	site := labtest.Site(t, labtest.TwoRegions(0, true))
	if _, err := layer(t, "").Deploy(t.Context(), site); !errors.Is(err, model.ErrUnsupported) {
		t.Errorf("different networks: %v", err)
	}
	flat := labtest.Site(t, labtest.TwoRegions(0, false))
	if _, err := layer(t, `{"services": ["x"]}`).Deploy(t.Context(), flat); err == nil || !strings.Contains(err.Error(), `"x"`) {
		t.Errorf("an unknown service: %v", err)
	}
}

// Connections to a far region take a round trip to end. Removal waits for that:
// the site, which is closed right after, could not go before they have ended.
func TestFarConnectionsEnd(t *testing.T) {
	t.Parallel()
	site := labtest.Site(t, labtest.TwoRegions(80*time.Millisecond, false))
	labtest.StartServers(t, site)
	l := layer(t, `{"concurrency": 1}`)
	remove, err := l.Deploy(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	svc, err := site.Service("remote")
	if err != nil {
		t.Fatal(err)
	}
	labtest.AnsweredBy(t, site, "client-home", l.Front(svc)[0], "remote", "remote-away")
	if err := remove(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}
