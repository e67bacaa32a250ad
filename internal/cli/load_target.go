package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// target is what a URL names.
type target struct {
	scheme    string
	protocol  string // of the catalog
	tls       bool
	host      string // to resolve
	port      uint16
	authority string // host that requests carry
	path      string // with query; empty if the URL has none
}

func parseTarget(text string, http2 bool) (target, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return target{}, fmt.Errorf("%q is no URL: %w", text, err)
	}
	t := target{scheme: u.Scheme, host: u.Hostname(), authority: u.Host, path: u.RequestURI()}
	port := u.Port()
	switch u.Scheme {
	case "http", "https":
		t.protocol, t.tls = "http1", u.Scheme == "https"
		if http2 {
			t.protocol = "http2"
		}
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
		}
	default:
		return t, fmt.Errorf("%q: scheme %q is not one of http, https", text, u.Scheme)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return t, fmt.Errorf("%q: port %q is not from 1 to 65535", text, port)
	}
	t.port = uint16(n)
	return t, nil
}

func (f *loadFlags) config(t target, _ *problems) json.RawMessage {
	c := map[string]any{"path": t.path}
	if f.method != "" {
		c["method"] = f.method
	}
	return rawJSON(c)
}

// resolve finds the target's addresses and refuses those that are not ours.
func (a *app) resolve(ctx context.Context, t target, own bool) ([]netip.AddrPort, error) {
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", t.host)
	if err != nil {
		return nil, wrong(fmt.Errorf("resolving %s: %w", t.host, err))
	}
	var all []netip.AddrPort
	for _, addr := range addrs {
		addr = addr.Unmap()
		if !own && !addr.IsLoopback() && !addr.IsPrivate() && !addr.IsLinkLocalUnicast() {
			return nil, wrong(fmt.Errorf("%s is at %s, which is neither private, loopback nor link-local: load only what is yours (--i-own-this-target)", t.host, addr))
		}
		all = append(all, netip.AddrPortFrom(addr, t.port))
	}
	return all, nil
}
