package labtest_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys/nft"
)

func TestMain(m *testing.M) { labtest.Main(m, labtest.Commands{labtest.CommandServe: labtest.Serve}) }

// vip is a layer of the smallest kind: a VIP in the client's node.
type vip struct{ front netip.AddrPort }

func (v *vip) Deploy(_ context.Context, s model.Site) (remove func(context.Context) error, err error) {
	svc, err := s.Service("server")
	if err != nil {
		return nil, err
	}
	v.front = netip.AddrPortFrom(svc.VIP, svc.Port)
	table := nft.Table{Name: "vip", Chains: []nft.Chain{{Name: "in", Hook: nft.HookPrerouting}}}
	var backends []string
	for _, name := range svc.Pods {
		p, failure := s.Pod(name)
		if failure != nil {
			return nil, failure
		}
		backends = append(backends, name)
		to := netip.AddrPortFrom(p.Addr(), svc.TargetPort)
		table.Chains = append(table.Chains, nft.Chain{Name: name, Rules: []nft.Rule{{If: nft.Match{TCP: true}, Do: nft.DNAT(to)}}})
	}
	table.Chains[0].Rules = []nft.Rule{{If: nft.Match{TCP: true, Destination: netip.PrefixFrom(svc.VIP, 32)}, Do: nft.Random(backends...)}}
	nodes, ok := s.(model.NodeSite)
	if !ok {
		return nil, errors.New("a site without nodes")
	}
	node, err := nodes.Node("node-0")
	if err != nil {
		return nil, err
	}
	remove = func(context.Context) error { return node.InNetwork(func() error { return nft.Delete("vip") }) }
	return remove, node.InNetwork(func() error { return nft.Apply(table) })
}

func (v *vip) Front(model.Service) []netip.AddrPort { return []netip.AddrPort{v.front} }

// nothing is the layer that does nothing.
type nothing struct{}

func (nothing) Deploy(context.Context, model.Site) (remove func(context.Context) error, err error) {
	return func(context.Context) error { return nil }, nil
}

func TestLayerSuite(t *testing.T) {
	t.Parallel()
	for name, layer := range map[string]func() model.Layer{
		"nothing": func() model.Layer { return nothing{} },
		"VIP":     func() model.Layer { return &vip{} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			labtest.Layer(t, labtest.LayerSuite{New: func(*testing.T) model.Layer { return layer() }})
		})
	}
}

// What a layer leaves behind must be seen.
func TestStateShowsResidue(t *testing.T) {
	t.Parallel()
	site := labtest.TwoNodes(t)
	before := labtest.State(t, site)
	if _, err := (&vip{}).Deploy(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	if _, err := labtest.Pod(t, site, "server-1").Start(t.Context(), model.Process{Name: "serve", Component: model.ComponentApp, Command: []string{"{self}", "serve", "x"}}); err != nil {
		t.Fatal(err)
	}
	after := labtest.State(t, site)
	want := map[string]bool{"node-0": true, "server-1": true}
	for name := range before {
		if cmp.Equal(before[name], after[name]) == want[name] {
			t.Errorf("%s: %s", name, cmp.Diff(before[name], after[name]))
		}
	}
}

type app struct{}

func (app) Deploy(ctx context.Context, s model.Site) (model.Endpoints, error) {
	svc, err := s.Service("server")
	if err != nil {
		return model.Endpoints{}, err
	}
	all := model.Endpoints{Service: svc.Name}
	for _, name := range svc.Pods {
		p, err := s.Pod(name)
		if err != nil {
			return all, err
		}
		if _, err := p.Start(ctx, model.Process{Name: "serve", Component: model.ComponentApp, Command: []string{"{self}", "serve", name}}); err != nil {
			return all, err
		}
		all.Backends = append(all.Backends, model.Backend{Pod: name, Identity: name, Addr: netip.AddrPortFrom(p.Addr(), svc.TargetPort)})
	}
	return all, nil
}

func TestAppSuite(t *testing.T) {
	t.Parallel()
	labtest.App(t, labtest.AppSuite{New: func(*testing.T) model.App { return app{} }})
}

// Same-node backends answer through a VIP, too: their answers pass the node.
func TestVIPOfTheSameNode(t *testing.T) {
	t.Parallel()
	topology := labtest.Topology(1)
	nodes := topology.Regions[0].Clusters[0].Nodes
	nodes[0].Pods = append(nodes[0].Pods, nodes[1].Pods...)
	nodes[1].Pods = nil
	site := labtest.Site(t, topology)
	endpoints, err := app{}.Deploy(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	layer := &vip{}
	if _, err := layer.Deploy(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	labtest.Eventually(t, func() error {
		who, err := labtest.Ask(t, site, "client-0", layer.front, "")
		if err == nil && who != endpoints.Backends[0].Identity {
			err = errors.New("answered by " + who)
		}
		return err
	})
}
