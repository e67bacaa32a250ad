package nft_test

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/windtunnel/windtunnel/internal/sys/nft"
)

// inNetwork runs f on a thread in a network namespace of its own whose
// loopback is up and holds all of 10.0.0.0/8. The thread ends with the test.
func inNetwork(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	done := make(chan error)
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread dies
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		lo, err := netlink.LinkByName("lo")
		if err == nil {
			err = netlink.LinkSetUp(lo)
		}
		if err == nil {
			err = netlink.AddrAdd(lo, &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(10, 0, 0, 1), Mask: net.CIDRMask(8, 32)}})
		}
		if err != nil {
			t.Errorf("setting up loopback: %v", err)
			return
		}
		f(t)
	}()
	switch err := <-done; {
	case errors.Is(err, unix.EPERM):
		t.Skip("needs CAP_SYS_ADMIN; run in `unshare -Urn`")
	case err != nil:
		t.Fatalf("unshare: %v", err)
	}
}

// serve answers every connection with text. It listens on the calling thread.
func serve(t *testing.T, addr, text string) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp4", addr)
	if err != nil {
		t.Errorf("listen: %v", err)
		return netip.AddrPort{}
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(text))
			_ = c.Close()
		}
	}()
	return netip.MustParseAddrPort(l.Addr().String())
}

// ask connects, with a packet mark if it is not 0, and returns what it is told.
func ask(addr string, mark int) string {
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if ctl := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, mark)
		}); ctl != nil {
			return ctl
		}
		return err
	}}
	c, err := d.Dial("tcp4", addr)
	if err != nil {
		return "error: " + err.Error()
	}
	defer func() { _ = c.Close() }()
	buf := make([]byte, 64)
	n, _ := c.Read(buf)
	return string(buf[:n])
}

func serviceTable(vip, a, b netip.AddrPort) nft.Table {
	service := nft.Rule{Do: nft.Dispatch(nft.Route{To: vip, Chain: "service"})}
	return nft.Table{Name: "windtunnel-test", Chains: []nft.Chain{
		{Name: "output", Hook: nft.HookOutput, Rules: []nft.Rule{service}},
		{Name: "service", Rules: []nft.Rule{{Do: nft.Random("a", "b"), Count: true, Comment: "service"}}},
		{Name: "a", Rules: []nft.Rule{{If: nft.Match{TCP: true}, Count: true, Do: nft.DNAT(a), Comment: "endpoint a"}}},
		{Name: "b", Rules: []nft.Rule{{If: nft.Match{TCP: true}, Count: true, Do: nft.DNAT(b), Comment: "endpoint b"}}},
	}}
}

func TestServiceIsBalancedAndCounted(t *testing.T) {
	t.Parallel()
	inNetwork(t, func(t *testing.T) {
		t.Helper()
		a, b := serve(t, "10.0.0.2:0", "a"), serve(t, "10.0.0.3:0", "b")
		vip := netip.MustParseAddrPort("10.96.0.10:80")
		table := serviceTable(vip, a, b)
		for range 2 { // the second replaces the first
			if err := nft.Apply(table); err != nil {
				t.Error(err)
				return
			}
		}
		const n = 100
		got := map[string]uint64{}
		for range n {
			got[ask(vip.String(), 0)]++
		}
		if got["a"]+got["b"] != n || got["a"] == 0 || got["b"] == 0 {
			t.Errorf("answers: %v", got)
		}
		want := nft.LiveTable{Name: table.Name, Chains: []nft.LiveChain{
			{Name: "output", Rules: []nft.LiveRule{{}}},
			{Name: "service", Rules: []nft.LiveRule{{Comment: "service", Counted: true, Connections: n, Random: 2}}},
			{Name: "a", Rules: []nft.LiveRule{{Comment: "endpoint a", Counted: true, Connections: got["a"], DNAT: a}}},
			{Name: "b", Rules: []nft.LiveRule{{Comment: "endpoint b", Counted: true, Connections: got["b"], DNAT: b}}},
		}}
		live, err := nft.Read(table.Name)
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, live, cmp.Comparer(func(x, y netip.AddrPort) bool { return x == y })); diff != "" {
			t.Errorf("live table (-want +got):\n%s", diff)
		}
		for range 2 {
			if err := nft.Delete(table.Name); err != nil {
				t.Error(err)
			}
		}
		if names, err := nft.Tables(); err != nil || len(names) != 0 {
			t.Errorf("after Delete: tables %v, error %v", names, err)
		}
	})
}

func TestRedirectHonoursExemptions(t *testing.T) {
	t.Parallel()
	inNetwork(t, func(t *testing.T) {
		t.Helper()
		app, proxy := serve(t, "10.0.0.2:0", "app"), serve(t, "0.0.0.0:0", "proxy")
		exempt := func(m nft.Match) nft.Rule { return nft.Rule{If: m, Do: nft.Accept()} }
		err := nft.Apply(nft.Table{Name: "redirect", Chains: []nft.Chain{{
			Name: "output", Hook: nft.HookOutput, Rules: []nft.Rule{
				exempt(nft.Match{Mark: 1337}),
				exempt(nft.Match{Out: "lo", Destination: netip.MustParsePrefix("127.0.0.0/8")}),
				exempt(nft.Match{Out: "eth0"}),
				exempt(nft.Match{Source: netip.MustParsePrefix("192.0.2.1/32")}),
				{If: nft.Match{TCP: true}, Count: true, Do: nft.Redirect(proxy.Port()), Comment: "to proxy"},
			},
		}}})
		if err != nil {
			t.Error(err)
			return
		}
		local := serve(t, "127.0.0.1:0", "local")
		for _, c := range []struct {
			name, addr, want string
			mark             int
		}{
			{name: "plain", addr: app.String(), want: "proxy"},
			{name: "marked", addr: app.String(), want: "app", mark: 1337},
			{name: "other mark", addr: app.String(), want: "proxy", mark: 1},
			{name: "loopback", addr: local.String(), want: "local"},
		} {
			if got := ask(c.addr, c.mark); got != c.want {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
		}
		live, err := nft.Read("redirect")
		if err != nil {
			t.Error(err)
			return
		}
		last := live.Chains[0].Rules[4]
		if last.Redirect != proxy.Port() || last.Connections != 2 {
			t.Errorf("live rule: %+v", last)
		}
	})
}

func TestApplyChangesNothingOnError(t *testing.T) {
	t.Parallel()
	port := func(c string) nft.Rule { return nft.Rule{Do: nft.Goto(c)} }
	for _, c := range []struct {
		name, want string
		rule       nft.Rule
	}{
		{name: "unknown chain", want: `no chain "nowhere"`, rule: port("nowhere")},
		{name: "port without TCP", want: "needs Match.TCP", rule: nft.Rule{Do: nft.Redirect(1)}},
		{name: "no choice", want: "among no chains", rule: nft.Rule{Do: nft.Random()}},
		{
			name: "IPv6", want: "not an IPv4 address",
			rule: nft.Rule{If: nft.Match{TCP: true}, Do: nft.DNAT(netip.MustParseAddrPort("[::1]:1"))},
		},
		{
			name: "IPv6 service", want: "not an IPv4 address",
			rule: nft.Rule{Do: nft.Dispatch(nft.Route{To: netip.MustParseAddrPort("[::1]:1"), Chain: "c"})},
		},
		{name: "comment", want: "longer than", rule: nft.Rule{Comment: strings.Repeat("x", 121)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := nft.Apply(nft.Table{Name: "t", Chains: []nft.Chain{{Name: "c", Rules: []nft.Rule{c.rule}}}})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want it to say %q", err, c.want)
			}
		})
	}
}
