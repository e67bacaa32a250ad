package labtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Reply is a whole answer.
type Reply struct {
	Status int
	Header http.Header
	Body   string
}

// Get sends one request over a new connection from a pod. Redirects are not
// followed.
func Get(t *testing.T, site model.Site, from, method string, to netip.AddrPort, path, body string) (Reply, error) {
	t.Helper()
	const patience = 10 * time.Second
	return exchange(t, site, from, patience, method, to, path, "", body)
}

// exchange sends one request over a new connection from a pod; host is the Host
// header, "" the address.
func exchange(t *testing.T, site model.Site, from string, patience time.Duration, method string, to netip.AddrPort, path, host, body string) (Reply, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ns := Network(t, site, from)
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
			err = ns.InNetwork(func() (err error) {
				conn, err = (&net.Dialer{}).DialContext(ctx, network, addr)
				return err
			})
			return conn, err
		},
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+to.String()+path, strings.NewReader(body))
	if err != nil {
		return Reply{}, err
	}
	req.Host = host
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return Reply{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return Reply{}, fmt.Errorf("reading the answer of %s: %w", to, err)
	}
	return Reply{resp.StatusCode, resp.Header, string(b)}, nil
}
