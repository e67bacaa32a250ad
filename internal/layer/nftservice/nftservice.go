// Package nftservice is a Kubernetes Service as kube-proxy's nftables mode
// makes it: a virtual address, translated on every node to one of the pods'
// addresses, chosen at random for each connection.
package nftservice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys/nft"
)

// Name is the layer's name in studies.
const Name = "nft-service"

const table = "windtunnel-services"

// Config is the layer's configuration in a study.
type Config struct {
	// Endpoints are those that a node sends to.
	Endpoints string `json:"endpoints,omitempty" jsonschema:"enum=all,enum=cluster,enum=node,default=all" jsonschema_description:"all: pods of all clusters, as if services were merged. cluster: those of the node's own cluster, as kube-proxy knows no others; where there are none, connections fail. node: those of the node itself; on nodes without any nothing is translated, and routes decide (externalTrafficPolicy: Local)."`
}

// The endpoints that a node sends to.
const (
	endpointsAll     = "all"
	endpointsCluster = "cluster"
	endpointsNode    = "node"
)

// Layer translates the virtual addresses of all services on all nodes.
type Layer struct {
	// own says of what a node knows the endpoints, and no others: "cluster", "node";
	// "": of everything.
	own string
}

var (
	_ model.Layer    = Layer{}
	_ model.Fronter  = Layer{}
	_ model.Observer = Layer{}
	_ model.Portable = Layer{}
	_ model.Drainer  = Layer{}
)

// Plugin is the catalog entry.
func Plugin() model.Plugin[model.Layer] {
	return model.Plugin[model.Layer]{
		Name:    Name,
		Summary: "a ClusterIP: nftables DNAT over the endpoints, as kube-proxy does it",
		Config:  Config{},
		New: func(config json.RawMessage) (model.Layer, error) {
			c := Config{Endpoints: endpointsAll}
			if err := model.ReadConfig(config, &c); err != nil {
				return nil, err
			}
			switch c.Endpoints {
			case endpointsAll:
				return Layer{}, nil
			case endpointsCluster, endpointsNode:
				return Layer{own: c.Endpoints}, nil
			}
			return nil, &model.ConfigError{Key: "endpoints", Text: fmt.Sprintf("is %q; it can be all, cluster or node", c.Endpoints)}
		},
	}
}

// CheckTarget is nil: on the lab the layer is rules on the nodes, on Kubernetes
// the cluster's own Service.
func (Layer) CheckTarget(string) error { return nil }

// Front returns the service's virtual address.
func (Layer) Front(svc model.Service) []netip.AddrPort {
	return []netip.AddrPort{netip.AddrPortFrom(svc.VIP, svc.Port)}
}

// Deploy puts the rules on every node; where a site can make services by
// itself, it does.
func (l Layer) Deploy(ctx context.Context, s model.Site) (func(context.Context) error, error) {
	if own, ok := s.(model.ServiceSite); ok {
		return own.Expose(ctx)
	}
	nodes, err := nodes(s)
	if err != nil {
		return nil, err
	}
	remove := func(done []model.Namespace) error {
		var errs []error
		for _, n := range done {
			errs = append(errs, n.InNetwork(func() error { return nft.Delete(table) }))
		}
		return errors.Join(errs...)
	}
	for i, n := range nodes {
		if err := l.put(s, n, nil); err != nil {
			return nil, errors.Join(err, remove(nodes[:i]))
		}
	}
	return func(context.Context) error { return remove(nodes) }, nil
}

// Drain replaces the rules on every node by ones without the pods. Connections
// that exist keep their translation.
func (l Layer) Drain(ctx context.Context, s model.Site, pods []string) (endpoints int, undrain func(context.Context) error, err error) {
	if _, ok := s.(model.ServiceSite); ok {
		return 0, nil, &model.UnsupportedError{What: "draining the layer " + Name, Missing: "the cluster's own Service holds the endpoints"}
	}
	for _, svc := range s.Topology().Services {
		for _, p := range svc.Pods {
			if slices.Contains(pods, p) {
				endpoints++
			}
		}
	}
	put := func(out []string) error {
		nodes, err := nodes(s)
		errs := []error{err}
		for _, n := range nodes {
			errs = append(errs, l.put(s, n, out))
		}
		return errors.Join(errs...)
	}
	undrain = func(context.Context) error { return put(nil) }
	if err := put(pods); err != nil {
		return 0, nil, errors.Join(err, undrain(context.WithoutCancel(ctx)))
	}
	return endpoints, undrain, nil
}

// put makes the rules of a node; pods that are out are no endpoints.
func (l Layer) put(s model.Site, n model.Namespace, out []string) error {
	var foreign []string
	if l.own != "" {
		foreign = elsewhere(s.Topology(), n.Name(), l.own == endpointsNode)
	}
	rules, err := rules(s, append(foreign, out...), l.own != "")
	if err == nil {
		err = n.InNetwork(func() error { return nft.Apply(rules) })
	}
	if err != nil {
		return fmt.Errorf("node %s: %w", n.Name(), err)
	}
	return nil
}

// elsewhere are the pods of other clusters than the node's; with alone those of
// other nodes, too.
func elsewhere(t model.Topology, node string, alone bool) []string {
	var pods []string
	for _, r := range t.Regions {
		for _, c := range r.Clusters {
			own := !alone && slices.ContainsFunc(c.Nodes, func(n model.Node) bool { return n.Name == node })
			for _, n := range c.Nodes {
				if own || n.Name == node {
					continue
				}
				for _, p := range n.Pods {
					pods = append(pods, p.Name)
				}
			}
		}
	}
	return pods
}

func nodes(s model.Site) ([]model.Namespace, error) {
	ns, ok := s.(model.NodeSite)
	if !ok {
		return nil, &model.UnsupportedError{What: "the layer " + Name, Missing: "this target's nodes have no network namespace to put rules in"}
	}
	var all []model.Namespace
	for _, n := range s.Topology().Nodes() {
		node, err := ns.Node(n.Name)
		if err != nil {
			return nil, err
		}
		all = append(all, node)
	}
	return all, nil
}

// rules is the whole table: a chain an endpoint, one that chooses among them
// for each service, and the two hooks. Pods that are out are no endpoints.
// A service may have none left where empty is allowed: it is then not translated.
func rules(s model.Site, out []string, empty bool) (nft.Table, error) {
	t := nft.Table{Name: table}
	var entry []nft.Rule
	for i, blueprint := range s.Topology().Services {
		svc, err := s.Service(blueprint.Name)
		if err != nil {
			return t, err
		}
		var endpoints []string
		for k, name := range svc.Pods {
			if slices.Contains(out, name) {
				continue
			}
			pod, err := s.Pod(name)
			if err != nil {
				return t, err
			}
			chain := fmt.Sprintf("endpoint-%d-%d", i, k)
			endpoints = append(endpoints, chain)
			to := netip.AddrPortFrom(pod.Addr(), svc.TargetPort)
			t.Chains = append(t.Chains, nft.Chain{Name: chain, Rules: []nft.Rule{{If: nft.Match{TCP: true}, Count: true, Do: nft.DNAT(to), Comment: name}}})
		}
		if len(endpoints) == 0 && empty {
			continue
		}
		if len(endpoints) == 0 {
			return t, fmt.Errorf("service %s has no pods left to go to", svc.Name)
		}
		match := nft.Match{TCP: true, Destination: netip.PrefixFrom(svc.VIP, svc.VIP.BitLen()), DestinationPort: svc.Port}
		entry = append(entry, nft.Rule{If: match, Count: true, Do: nft.Random(endpoints...), Comment: "service " + svc.Name})
	}
	t.Chains = append(t.Chains,
		nft.Chain{Name: "prerouting", Hook: nft.HookPrerouting, Rules: entry},
		nft.Chain{Name: "output", Hook: nft.HookOutput, Rules: entry},
	)
	return t, nil
}

// Claims are none: that the address answers at all is what the ready gate
// shows, and a sidecar above this layer may rightly take its traffic away.
func (Layer) Claims() []model.Claim { return nil }

// Observe reads the live rules of all nodes back, with how many connections
// each endpoint was given.
func (l Layer) Observe(ctx context.Context, s model.Site) (model.Ledger, error) {
	if own, ok := s.(model.ServiceSite); ok {
		return own.Exposed(ctx, Name)
	}
	nodes, err := nodes(s)
	if err != nil {
		return nil, err
	}
	given := map[string]uint64{}
	for _, n := range nodes {
		if err := n.InNetwork(func() error { return count(given) }); err != nil {
			return nil, fmt.Errorf("node %s: %w", n.Name(), err)
		}
	}
	var total uint64
	for _, n := range given {
		total += n
	}
	through := "none: a layer above takes the traffic first"
	if total > 0 {
		through = "yes, at L4"
	}
	over := "random over"
	if l.own != "" {
		over = "random over the own " + l.own + "'s of"
	}
	return model.Ledger{
		{Layer: Name, Key: model.FactBalancing, Value: fmt.Sprintf("nftables DNAT, %s %d endpoints", over, len(given)), Source: model.SourceConfig},
		{Layer: Name, Key: model.FactTranslated, Value: through, Source: model.SourceCounters},
	}, nil
}

// count adds what each endpoint was given by the rules of the calling thread's
// namespace.
func count(given map[string]uint64) error {
	live, err := nft.Read(table)
	if err != nil {
		return err
	}
	for _, c := range live.Chains {
		if !strings.HasPrefix(c.Name, "endpoint-") {
			continue
		}
		for _, r := range c.Rules {
			given[r.Comment] += r.Connections
		}
	}
	return nil
}
