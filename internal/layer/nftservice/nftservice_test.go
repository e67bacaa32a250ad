package nftservice

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys/nft"
)

func TestMain(m *testing.M) { labtest.Main(m, nil) }

func TestConfig(t *testing.T) {
	t.Parallel()
	for raw, ok := range map[string]bool{"": true, "{}": true, "null": true, `{"endpoints": "cluster"}`: true, `{"endpoints": "node"}`: true, `{"endpoints": "x"}`: false, `{"mode": "random"}`: false, "1": false} {
		if _, err := Plugin().New(json.RawMessage(raw)); (err == nil) != ok {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

// flat is a site that is no more than its addresses.
type flat struct {
	model.Site
	topology model.Topology
}

type pod struct {
	model.Pod
	addr netip.Addr
}

func (p pod) Addr() netip.Addr          { return p.addr }
func (f flat) Topology() model.Topology { return f.topology }
func (flat) Pod(n string) (p model.Pod, err error) {
	addrs := map[string]string{"a": "10.128.0.2", "b": "10.128.0.3", "c": "10.128.4.2"}
	if addrs[n] == "" {
		return nil, errors.New("no pod " + n)
	}
	return pod{addr: netip.MustParseAddr(addrs[n])}, nil
}

func (f flat) Service(n string) (s model.Service, err error) {
	i := slices.IndexFunc(f.topology.Services, func(s model.Service) bool { return s.Name == n })
	s = f.topology.Services[i]
	s.VIP = netip.AddrFrom4([4]byte{10, 96, 0, byte(1 + i)})
	return s, nil
}

func TestRules(t *testing.T) {
	t.Parallel()
	endpoint := func(chain, pod, to string) nft.Chain {
		return nft.Chain{Name: chain, Rules: []nft.Rule{{If: nft.Match{TCP: true}, Count: true, Do: nft.DNAT(netip.MustParseAddrPort(to)), Comment: pod}}}
	}
	entry := []nft.Rule{
		{If: nft.Match{TCP: true, Destination: netip.MustParsePrefix("10.96.0.1/32"), DestinationPort: 80}, Count: true, Do: nft.Random("endpoint-0-0", "endpoint-0-1"), Comment: "service web"},
		{If: nft.Match{TCP: true, Destination: netip.MustParsePrefix("10.96.0.2/32"), DestinationPort: 443}, Count: true, Do: nft.Random("endpoint-1-0"), Comment: "service api"},
	}
	want := nft.Table{Name: "windtunnel-services", Chains: []nft.Chain{
		endpoint("endpoint-0-0", "a", "10.128.0.2:8080"), endpoint("endpoint-0-1", "b", "10.128.0.3:8080"), endpoint("endpoint-1-0", "c", "10.128.4.2:8443"),
		{Name: "prerouting", Hook: nft.HookPrerouting, Rules: entry},
		{Name: "output", Hook: nft.HookOutput, Rules: entry},
	}}
	web := model.Service{Name: "web", Port: 80, TargetPort: 8080, Pods: []string{"a", "b"}}
	api := model.Service{Name: "api", Port: 443, TargetPort: 8443, Pods: []string{"c"}}
	got, err := rules(flat{topology: model.Topology{Services: []model.Service{web, api}}}, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	equal := cmp.Options{
		cmp.AllowUnexported(nft.Action{}),
		cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	}
	if diff := cmp.Diff(want, got, equal); diff != "" {
		t.Errorf("(-want +got): %s", diff)
	}
	for name, s := range map[string]model.Service{
		"service empty has no pods left": {Name: "empty"},
		"no pod x":                       {Name: "lost", Pods: []string{"x"}},
	} {
		if _, err := rules(flat{topology: model.Topology{Services: []model.Service{s}}}, nil, false); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want %q", err, name)
		}
	}
	if _, err := (Layer{}).Deploy(t.Context(), flat{topology: model.Topology{Services: []model.Service{web}}}); !errors.Is(err, model.ErrUnsupported) {
		t.Errorf("a site without nodes: %v", err)
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	labtest.Layer(t, labtest.LayerSuite{New: func(*testing.T) model.Layer { return Layer{} }, Servers: 3})
}

// Before traffic nothing is translated; that is seen, not assumed.
func TestObserve(t *testing.T) {
	t.Parallel()
	site := labtest.TwoNodes(t)
	remove, err := Layer{}.Deploy(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	observe := func() string {
		ledger, failure := Layer{}.Observe(t.Context(), site)
		if failure != nil {
			t.Fatal(failure)
		}
		var values []string
		for _, f := range ledger {
			values = append(values, f.Value)
		}
		return strings.Join(values, "; ")
	}
	svc, err := site.Service("server")
	if err != nil {
		t.Fatal(err)
	}
	const idle = "nftables DNAT, random over 2 endpoints; none: a layer above takes the traffic first"
	if got := observe(); got != idle {
		t.Errorf("idle: %s", got)
	}
	// Nobody listens, so the pod refuses: the address was translated all the same.
	if _, err := labtest.Ask(t, site, "client-0", Layer{}.Front(svc)[0], ""); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v", err)
	}
	if got := observe(); got != "nftables DNAT, random over 2 endpoints; yes, at L4" {
		t.Errorf("after a connection: %s", got)
	}
	for range 2 { // the second finds nothing to remove
		if err := remove(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
	if _, err := (Layer{}).Observe(t.Context(), site); err == nil {
		t.Error("rules that are gone were observed")
	}
}

// What is drained gets nothing new until it is put back; a service without any
// endpoint is refused.
func TestDrain(t *testing.T) {
	t.Parallel()
	site := labtest.TwoNodes(t)
	remove, err := Layer{}.Deploy(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	endpoints := func() (n int) {
		labtest.In(t, site, "node-0", func() error {
			live, failure := nft.Read(table)
			for _, c := range live.Chains {
				for _, r := range c.Rules {
					if r.DNAT.IsValid() {
						n++
					}
				}
			}
			return failure
		})
		return n
	}
	n, undrain, err := Layer{}.Drain(t.Context(), site, []string{"server-1"})
	if err != nil || n != 1 || endpoints() != 1 {
		t.Fatalf("%d endpoints drained, %d left, %v", n, endpoints(), err)
	}
	for range 2 {
		if err := undrain(t.Context()); err != nil || endpoints() != 2 {
			t.Errorf("%d endpoints after all, %v", endpoints(), err)
		}
	}
	if _, _, err := (Layer{}).Drain(t.Context(), site, []string{"server-0", "server-1"}); err == nil || endpoints() != 2 {
		t.Errorf("nothing left: %d endpoints, %v", endpoints(), err)
	}
	if err := remove(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}
