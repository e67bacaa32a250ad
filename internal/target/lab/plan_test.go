package lab

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestAddressPlan(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ what, got, want string }{
		{"first node", fabricAddr(0).String(), "172.18.0.2"},
		{"last node", fabricAddr(maxNodes - 1).String(), "172.18.3.233"},
		{"first range", podCIDR(0).String(), "10.128.0.0/22"},
		{"second range", podCIDR(1).String(), "10.128.4.0/22"},
		{"gateway", gateway(podCIDR(1)).String(), "10.128.4.1"},
		{"first pod", podAddr(podCIDR(1), 0).String(), "10.128.4.2"},
		{"last pod", podAddr(podCIDR(0), maxPodsPerNode-1).String(), "10.128.3.233"},
		{"first service", vip(0).String(), "10.96.0.10"},
		{"300th service", vip(299).String(), "10.96.1.53"},
	} {
		if test.got != test.want {
			t.Errorf("%s: %s, want %s", test.what, test.got, test.want)
		}
	}
	if p := podCIDR(maxNodes - 1); !netip.MustParsePrefix("10.128.0.0/9").Overlaps(p) || !p.Contains(podAddr(p, maxPodsPerNode-1)) {
		t.Errorf("the last range, %s, is outside the plan", p)
	}
	if last := vip(maxServices - 1); !netip.MustParsePrefix("10.96.0.0/16").Contains(last) {
		t.Errorf("the last service, %s, is outside the plan", last)
	}
}

func TestStateDir(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		uid           int
		runtime, want string
	}{
		{0, "/run/user/0", "/run/windtunnel"},
		{1000, "/run/user/1000", "/run/user/1000/windtunnel"},
		{1000, "", "/windtunnel-1000"},
	} {
		if got := StateDir(test.uid, test.runtime); !strings.HasSuffix(got, test.want) {
			t.Errorf("user %d: %s", test.uid, got)
		}
	}
}

func TestSplitCPUs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ all, generator, others []int }{
		{[]int{0}, []int{0}, []int{0}},
		{[]int{0, 1}, []int{1}, []int{0}},
		{[]int{2, 3, 7}, []int{7}, []int{2, 3}},
	} {
		generator, others := splitCPUs(test.all)
		if !slices.Equal(generator, test.generator) || !slices.Equal(others, test.others) {
			t.Errorf("%v: %v and %v", test.all, generator, others)
		}
	}
}
