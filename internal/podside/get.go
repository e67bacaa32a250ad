package podside

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// maxGot bounds what Get copies: a proxy's configuration is some megabytes.
const maxGot = 32 << 20

// Get copies what a server of this pod's own loopback says: a proxy's admin
// interface, which nobody outside reaches.
func Get(ctx context.Context, address string, out io.Writer) error {
	const patience = 10 * time.Second
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("reading the address %q: %w", address, err)
	}
	if host, failure := netip.ParseAddr(u.Hostname()); failure != nil || !host.IsLoopback() || u.Scheme != "http" {
		return fmt.Errorf("asking %s: only http://127.0.0.1 is asked", address)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return fmt.Errorf("asking %s: %w", address, err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("asking the proxy: %w", err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("asking %s: %s", address, answer.Status)
	}
	if _, err = io.Copy(out, io.LimitReader(answer.Body, maxGot)); err != nil {
		return fmt.Errorf("asking %s: %w", address, err)
	}
	return nil
}
