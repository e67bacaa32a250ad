package runner

import (
	"net/netip"
	"testing"

	"github.com/windtunnel/windtunnel/internal/model"
)

// A tool's own server can only stand where the load goes to one pod itself.
func TestDirect(t *testing.T) {
	t.Parallel()
	pod, other := netip.MustParseAddrPort("10.128.4.2:8080"), netip.MustParseAddrPort("10.96.0.10:80")
	for _, test := range []struct {
		targets []netip.AddrPort
		want    string
	}{
		{[]netip.AddrPort{pod}, "server-0"},
		{[]netip.AddrPort{other}, ""},
		{[]netip.AddrPort{pod, other}, ""},
	} {
		m := &measuring{trial: &trial{targets: test.targets}}
		m.out.Endpoints.Backends = []model.Backend{{Pod: "server-0", Addr: pod}}
		if got := m.direct(); got != test.want {
			t.Errorf("%v: %q, want %q", test.targets, got, test.want)
		}
	}
}
