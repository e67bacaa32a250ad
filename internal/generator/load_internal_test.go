package generator

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/command"
)

// lookup is a resolver that knows one answer.
func lookup(answer ...string) command.Lookup {
	return func(context.Context, string, string) ([]netip.Addr, error) {
		var all []netip.Addr
		for _, a := range answer {
			all = append(all, netip.MustParseAddr(a))
		}
		return all, nil
	}
}

func TestOnlyNearTargetsAreLoaded(t *testing.T) {
	t.Parallel()
	for answer, near := range map[string]bool{
		"127.0.0.1": true, "::1": true, "10.1.2.3": true, "172.31.0.1": true, "192.168.0.1": true, "100.64.0.1": true, "100.127.255.255": true,
		"169.254.1.1": true, "fe80::1": true, "fd00::1": true, "::ffff:10.0.0.1": true,
		"8.8.8.8": false, "172.32.0.1": false, "100.128.0.1": false, "2001:db8::1": false, "::ffff:8.8.8.8": false, "224.0.0.1": false, "64:ff9b::a00:1": false,
		"10.0.0.1 8.8.8.8": false, // one that is not ours is one too many
	} {
		a := &app{env: command.Env{Lookup: lookup(strings.Fields(answer)...)}}
		_, err := a.resolve(t.Context(), target{host: "name", port: 80}, &loadFlags{})
		if (err == nil) != near {
			t.Errorf("%s: error %v", answer, err)
		}
		all, err := a.resolve(t.Context(), target{host: "name", port: 80}, &loadFlags{own: true})
		if err != nil || len(all) != len(strings.Fields(answer)) {
			t.Errorf("%s, said to be ours: %v, %v", answer, all, err)
		}
	}
}

func TestParseTarget(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"localhost:8080/a?b=c": "http1 localhost 8080 /a?b=c", "http://h": "http1 h 80 ", "https://h/": "http1 h 443 /",
		"grpc://h:1/p.S/M": "grpc h 1 /p.S/M", "icmp:h": "icmp h 0 ", "udp://[::1]:9": "udp ::1 9 ",
		"ftp://h": "", "tcp://h": "", "http://": "", "http://u:p@h/": "", "tcp://h:1/x": "", "http://h:0": "", "http://h:99999": "",
	} {
		got, err := parseTarget(text, false)
		said := strings.Join([]string{got.protocol, got.host, strings.TrimPrefix(netip.AddrPortFrom(netip.IPv4Unspecified(), got.port).String(), "0.0.0.0:"), got.path}, " ")
		if want == "" && err == nil || want != "" && (err != nil || said != want) {
			t.Errorf("%s: %q, %v; want %q", text, said, err, want)
		}
	}
}
