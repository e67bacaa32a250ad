package generator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/command"
)

// target is what a URL names.
type target struct {
	url       string
	scheme    string
	protocol  string // of the catalog
	tls       bool
	host      string // to resolve
	port      uint16
	authority string // host that requests carry
	path      string // with query; empty if the URL has none
}

// scheme is what a URL's scheme stands for.
type scheme struct {
	protocol string
	tls      bool
	port     string // if the URL has none; empty: it must have one
}

func schemes() map[string]scheme {
	return map[string]scheme{
		"http": {"http1", false, "80"}, "https": {"http1", true, "443"},
		"grpc": {"grpc", false, ""}, "grpcs": {"grpc", true, "443"},
		"tcp": {"tcp", false, ""}, "tcps": {"tcp", true, ""},
		"udp": {"udp", false, ""}, "icmp": {"icmp", false, "0"},
	}
}

// parseTarget reads a URL; without a scheme it is HTTP.
func parseTarget(text string, http2 bool) (target, error) {
	full := text
	if rest, ok := strings.CutPrefix(text, "icmp:"); ok && !strings.HasPrefix(rest, "//") {
		full = "icmp://" + rest
	} else if !strings.Contains(text, "://") {
		full = "http://" + text
	}
	u, err := url.Parse(full)
	if err != nil {
		return target{}, fmt.Errorf("%q is no URL: %w", text, errors.Unwrap(err))
	}
	s, ok := schemes()[u.Scheme]
	if !ok {
		return target{}, fmt.Errorf("%q: scheme %q is not one of %s", text, u.Scheme, strings.Join(slices.Sorted(maps.Keys(schemes())), ", "))
	}
	t := target{url: full, scheme: u.Scheme, protocol: s.protocol, tls: s.tls, host: u.Hostname(), authority: u.Host}
	if u.Path != "" || u.RawQuery != "" {
		t.path = u.RequestURI()
	}
	if http2 && t.protocol == "http1" {
		t.protocol = "http2"
	}
	if err = t.check(u); err != nil {
		return t, fmt.Errorf("%q %w", text, err)
	}
	port := u.Port()
	if port == "" {
		port = s.port
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 && t.protocol != "icmp" {
		return t, fmt.Errorf("%q needs a port from 1 to 65535, such as %s://%s:8080", text, t.scheme, t.host)
	}
	t.port = uint16(n)
	return t, nil
}

// check refuses what a load could not honour.
func (t *target) check(u *url.URL) error {
	switch {
	case t.host == "":
		return errors.New("names no host")
	case u.User != nil:
		return errors.New("holds a user's name or password: give them as a header, -H 'Authorization: ...'")
	case t.path != "" && t.path != "/" && !strings.HasPrefix(t.protocol, "http") && t.protocol != "grpc":
		return fmt.Errorf("has a path, which has no meaning with %s", t.scheme)
	}
	return nil
}

// resolve finds the target's addresses, once: what is checked here is what
// connections go to. All of them must be ours to load.
func (a *app) resolve(ctx context.Context, t target, f *loadFlags) ([]netip.AddrPort, error) {
	network := "ip"
	switch {
	case f.v4:
		network = "ip4"
	case f.v6:
		network = "ip6"
	}
	found, err := a.env.Lookup(ctx, network, t.host)
	if err != nil {
		return nil, command.Wrong(unresolved(t.host, err))
	}
	var all []netip.AddrPort
	for _, addr := range found {
		addr = addr.Unmap()
		if !f.own && !near(addr) {
			return nil, command.Wrong(notOurs(t.host, addr))
		}
		if p := netip.AddrPortFrom(addr, t.port); !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil, command.Wrong(fmt.Errorf("%s has no address", t.host))
	}
	return all, nil
}

func unresolved(host string, err error) error {
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return fmt.Errorf("no address is known for %q: look for a slip of the keyboard, or ask with: getent hosts %s", host, host)
	}
	return fmt.Errorf("resolving %q: %w", host, err)
}

func notOurs(host string, addr netip.Addr) error {
	at := addr.String()
	if host != at {
		at = host + " is at " + at + ", which"
	}
	return fmt.Errorf("%s is outside loopback, private and link-local addresses.\n"+
		"A load generator aimed at somebody else's server is an attack. If this one is yours, or its owner agrees, say so: --i-own-this-target", at)
}

// near says whether an address is of loopback, private (RFC 1918, RFC 4193, RFC
// 6598) or link-local use. The unspecified address is this host.
func near(a netip.Addr) bool {
	shared := netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64}), 10)
	return a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsUnspecified() || shared.Contains(a)
}

// families are the addresses by family, in the resolver's order: a name such as
// localhost has both, and what serves one may not serve the other.
func families(all []netip.AddrPort) [][]netip.AddrPort {
	var first, second []netip.AddrPort
	for _, a := range all {
		if a.Addr().Is4() == all[0].Addr().Is4() {
			first = append(first, a)
		} else {
			second = append(second, a)
		}
	}
	if second == nil {
		return [][]netip.AddrPort{first}
	}
	return [][]netip.AddrPort{first, second}
}
