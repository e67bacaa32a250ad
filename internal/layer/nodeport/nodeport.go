// Package nodeport is a Kubernetes Service of type NodePort: a port of a node's
// own address, which hosts outside the clusters can reach.
package nodeport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys/nft"
)

// Name is the layer's name in studies.
const Name = "nodeport"

const (
	table     = "windtunnel-nodeport"
	firstPort = 30080 // in Kubernetes' usual range, 30000 to 32767
)

// Config is the layer's configuration in a study.
type Config struct {
	Services []string `json:"services" jsonschema:"required,minItems=1" jsonschema_description:"The services that have a port on the node; the others keep their addresses."`
	Via      string   `json:"via" jsonschema:"required" jsonschema_description:"The node whose address clients use. If the pods are on another node, packets cross the network between the two."`
}

// Layer translates the ports of one node.
type Layer struct {
	Config
	addr netip.Addr // of the node, once deployed
}

var (
	_ model.Layer    = (*Layer)(nil)
	_ model.Fronter  = (*Layer)(nil)
	_ model.Observer = (*Layer)(nil)
)

// Plugin is the catalog entry.
func Plugin() model.Plugin[model.Layer] {
	return model.Plugin[model.Layer]{
		Name: Name, Summary: "a NodePort: nftables DNAT on a node's own address, for hosts outside the clusters", Config: Config{},
		New: func(raw json.RawMessage) (model.Layer, error) {
			l := &Layer{}
			err := model.ReadConfig(raw, &l.Config)
			if err == nil && len(l.Services) == 0 {
				err = &model.ConfigError{Key: "services", Text: "is empty: name the services that get a port"}
			}
			if l.Via == "" {
				err = errors.Join(err, &model.ConfigError{Key: "via", Text: "is empty: name the node whose address clients use"})
			}
			return l, err
		},
	}
}

// Front is the node's address with the service's port; none for services that
// have no such port.
func (l *Layer) Front(svc model.Service) []netip.AddrPort {
	i := slices.Index(l.Services, svc.Name)
	if i < 0 {
		return nil
	}
	return []netip.AddrPort{netip.AddrPortFrom(l.addr, port(i))}
}

func port(i int) uint16 { return uint16(firstPort + i) } //nolint:gosec // as many as a study names

// Deploy puts the rules on the node.
func (l *Layer) Deploy(_ context.Context, s model.Site) (func(context.Context) error, error) {
	wired, ok := s.(model.WiredSite)
	if !ok {
		return nil, &model.UnsupportedError{What: "the layer " + Name, Missing: "this target's nodes have no network namespace to put rules in", Hint: "use the lab"}
	}
	all := wired.Wiring()
	i := slices.IndexFunc(all, func(w model.Wiring) bool { return w.Node == l.Via })
	if i < 0 {
		return nil, fmt.Errorf("the site has no node %q, which via names", l.Via)
	}
	l.addr = all[i].Addr
	rules, err := l.rules(s, all)
	if err != nil {
		return nil, err
	}
	node, err := wired.Node(l.Via)
	if err != nil {
		return nil, err
	}
	if err := node.InNetwork(func() error { return nft.Apply(rules) }); err != nil {
		return nil, fmt.Errorf("node %s: %w", l.Via, err)
	}
	return func(context.Context) error { return node.InNetwork(func() error { return nft.Delete(table) }) }, nil
}

// rules translate each port, and give what goes on to pods the node's own
// address where it comes from another network's node, so that answers come back
// this way: kube-proxy's externalTrafficPolicy Cluster.
func (l *Layer) rules(s model.Site, all []model.Wiring) (nft.Table, error) {
	t := nft.Table{Name: table}
	var entry, leaving []nft.Rule
	for i, name := range l.Services {
		svc, err := s.Service(name)
		if err != nil {
			return t, err
		}
		var endpoints []string
		for k, podName := range svc.Pods {
			pod, err := s.Pod(podName)
			if err != nil {
				return t, err
			}
			chain := fmt.Sprintf("endpoint-%d-%d", i, k)
			endpoints = append(endpoints, chain)
			to := netip.AddrPortFrom(pod.Addr(), svc.TargetPort)
			t.Chains = append(t.Chains, nft.Chain{Name: chain, Rules: []nft.Rule{{If: nft.Match{TCP: true}, Count: true, Do: nft.DNAT(to), Comment: podName}}})
			for _, w := range all {
				if w.Node != l.Via {
					leaving = append(leaving, nft.Rule{If: nft.Match{TCP: true, Source: host(w.Addr), Destination: host(pod.Addr())}, Do: nft.Masquerade(), Comment: "from " + w.Node})
				}
			}
		}
		match := nft.Match{TCP: true, Destination: host(l.addr), DestinationPort: port(i)}
		entry = append(entry, nft.Rule{If: match, Count: true, Do: nft.Random(endpoints...), Comment: "service " + svc.Name})
	}
	t.Chains = append(t.Chains,
		nft.Chain{Name: "prerouting", Hook: nft.HookPrerouting, Rules: entry},
		nft.Chain{Name: "postrouting", Hook: nft.HookPostrouting, Rules: leaving})
	return t, nil
}

func host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// Claims are none: that the port answers is what the ready gate shows.
func (*Layer) Claims() []model.Claim { return nil }

// Observe reads the live rules back, with how many connections were translated.
func (l *Layer) Observe(_ context.Context, s model.Site) (model.Ledger, error) {
	wired, ok := s.(model.WiredSite)
	if !ok {
		return nil, fmt.Errorf("%s is not deployed", Name)
	}
	node, err := wired.Node(l.Via)
	if err != nil {
		return nil, err
	}
	var given uint64
	err = node.InNetwork(func() error {
		live, failure := nft.Read(table)
		for _, c := range live.Chains {
			if c.Name != "prerouting" {
				continue
			}
			for _, r := range c.Rules {
				given += r.Connections
			}
		}
		return failure
	})
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", l.Via, err)
	}
	through := "no: the load did not come this way"
	if given > 0 {
		through = "yes, at L4"
	}
	return model.Ledger{
		{Layer: Name, Key: "node port", Value: fmt.Sprintf("%s, on %s", netip.AddrPortFrom(l.addr, firstPort), l.Via), Source: model.SourceConfig},
		{Layer: Name, Key: model.FactTranslated, Value: through, Source: model.SourceCounters},
	}, nil
}
