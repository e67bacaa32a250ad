package envoy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"github.com/windtunnel/windtunnel/internal/breakdown"
	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
)

// ask sends requests on one connection, the first and every second of which is
// traced, with its number from 1 on.
func ask(t *testing.T, c net.Conn, requests int) {
	t.Helper()
	in := bufio.NewReader(c)
	for i := range requests {
		id := fmt.Sprintf("%s%016x", model.TracedPrefix, i+1)
		if i%2 > 0 {
			id = fmt.Sprintf("somebody-else-%d", i)
		}
		if _, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: server\r\nx-request-id: %s\r\n\r\n", id); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("status %s, %v", resp.Status, err)
		}
		_ = resp.Body.Close() // read to its end
	}
}

// Sidecars record traced requests and no others, and what they say of one and
// the same request fits together.
func TestSpans(t *testing.T) {
	t.Parallel()
	site := labtest.Site(t, labtest.Topology(1))
	l := layer(t, Strict)
	l.Trace()
	tells(t, site)
	labtest.Deploy(t, site, l)
	svc, err := site.Service("server")
	if err != nil {
		t.Fatal(err)
	}
	const traced = 3
	ask(t, dial(t, site, netip.AddrPortFrom(svc.VIP, svc.Port), 0), 2*traced)
	const second = 1_000_000_000
	var took model.Traced
	for i := range uint64(traced) {
		took.Number, took.Service, took.App = append(took.Number, 2*i+1), append(took.Service, 1000*second), append(took.App, model.NoTime)
	}
	var spans []model.Span
	labtest.Eventually(t, func() error {
		if spans, err = l.Spans(t.Context()); err == nil && len(spans) < 2*traced {
			err = fmt.Errorf("%d spans: %+v", len(spans), spans)
		}
		return err
	})
	if len(spans) != 2*traced {
		t.Errorf("%d spans of %d traced requests: %+v", len(spans), traced, spans)
	}
	b := breakdown.Of(&took, spans, "client-0", "network")
	if len(b.Total) != traced || len(b.Parts) != 5 {
		t.Fatalf("%d requests were broken down, into %+v", len(b.Total), b.Parts)
	}
	for _, p := range b.Parts {
		for _, ns := range p.Took {
			if ns <= 0 {
				t.Errorf("%s took %d ns: %+v", p.Name, ns, spans)
			}
		}
	}
}
