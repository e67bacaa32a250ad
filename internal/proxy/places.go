package proxy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Places are a site's clusters, how far they are from each other, and which
// pods are in which.
type Places struct {
	Clusters []*Cluster
	of       map[string]*Cluster // by pod
	addrs    map[string]netip.Addr
}

// Cluster is one of a site's.
type Cluster struct {
	Name, Region, Network string
	Nodes                 []string
	// Gateway is the address of the node where the cluster's gateway is: its
	// first. Zero on a target that does not tell nodes' addresses.
	Gateway netip.Addr
	far     map[string]time.Duration // to the others, by name
}

// Locate finds a site's places.
func Locate(s model.Site) (*Places, error) {
	t := s.Topology()
	p := &Places{of: map[string]*Cluster{}, addrs: map[string]netip.Addr{}}
	nodes := map[string]netip.Addr{}
	if wired, ok := s.(model.WiredSite); ok {
		for _, w := range wired.Wiring() {
			nodes[w.Node] = w.Addr
		}
	}
	for _, r := range t.Regions {
		for _, c := range r.Clusters {
			one := &Cluster{Name: c.Name, Region: r.Name, Network: c.Network, far: map[string]time.Duration{}}
			if len(c.Nodes) > 0 {
				one.Gateway = nodes[c.Nodes[0].Name]
			}
			if err := p.settle(s, one, c); err != nil {
				return nil, err
			}
			p.Clusters = append(p.Clusters, one)
		}
	}
	p.measure(t)
	return p, nil
}

// settle finds a cluster's nodes and pods.
func (p *Places) settle(s model.Site, one *Cluster, c model.Cluster) error {
	for _, n := range c.Nodes {
		one.Nodes = append(one.Nodes, n.Name)
		for _, spec := range n.Pods {
			pod, err := s.Pod(spec.Name)
			if err != nil {
				return err
			}
			p.of[spec.Name], p.addrs[spec.Name] = one, pod.Addr()
		}
	}
	return nil
}

// measure takes how far clusters are apart from the delays that the topology
// asks for: the shortest of their nodes'. Whatever is in another region is at
// least a nanosecond away.
func (p *Places) measure(t model.Topology) {
	named := map[string]*Cluster{}
	for _, c := range p.Clusters {
		named[c.Name] = c
	}
	places := t.Places()
	for _, from := range places {
		for _, to := range places {
			if from.Region == to.Region {
				continue
			}
			delay := time.Nanosecond
			if link := t.LinkOf(from, to); link >= 0 {
				delay += t.Links[link].Delay
			}
			far := named[from.Cluster].far
			if known, ok := far[to.Cluster]; !ok || delay < known {
				far[to.Cluster] = delay
			}
		}
	}
}

// Of is the cluster of a pod.
func (p *Places) Of(pod string) *Cluster { return p.of[pod] }

// Networks says whether there are clusters that do not reach each other's pods.
func (p *Places) Networks() bool {
	return slices.ContainsFunc(p.Clusters, func(c *Cluster) bool { return c.Network != p.Clusters[0].Network })
}

// Group is a service's endpoints in one cluster, as seen from another.
type Group struct {
	Region, Cluster string
	Priority        int // 0 is used first
	Endpoints       []Endpoint
	// ThroughGateway says that the endpoint is the cluster's gateway, which stands
	// for all pods there.
	ThroughGateway bool
}

// Endpoint is an address that requests go to, for as many pods as it weighs.
type Endpoint struct {
	Addr   netip.Addr
	Port   uint16
	Weight int
}

// View says how a service's endpoints are merged for clients of one cluster.
type View struct {
	From *Cluster
	// Nearest gives those of the own region the highest priority, then regions by
	// Failover and by delay; else all have the same.
	Nearest bool
	// Failover is the region that comes right after a region, if any is to.
	Failover map[string]string
	// Local leaves out all clusters but the own.
	Local bool
	// Gateway is the port of gateways, and Beyond says whether endpoints of a
	// cluster are reached through its gateway.
	Gateway uint16
	Beyond  func(from, to *Cluster) bool
}

// Endpoints merges a service's endpoints over the clusters.
func (p *Places) Endpoints(svc model.Service, v View) ([]Group, error) {
	var groups []Group
	var far []time.Duration
	for _, c := range p.Clusters {
		if v.Local && c != v.From {
			continue
		}
		g, err := p.group(svc, c, v)
		if err != nil {
			return nil, err
		}
		if len(g.Endpoints) > 0 {
			groups, far = append(groups, g), append(far, v.distance(c))
		}
	}
	if !v.Nearest {
		return groups, nil
	}
	// Envoy wants priorities without gaps.
	ranks := slices.Compact(slices.Sorted(slices.Values(far)))
	for i := range groups {
		groups[i].Priority = slices.Index(ranks, far[i])
	}
	slices.SortStableFunc(groups, func(a, b Group) int { return a.Priority - b.Priority })
	return groups, nil
}

// distance orders the clusters: the own region's, those to fail over to, others.
func (v View) distance(c *Cluster) time.Duration {
	switch {
	case c.Region == v.From.Region:
		return -1
	case v.Failover[v.From.Region] == c.Region:
		return 0
	}
	return v.From.far[c.Name]
}

func (p *Places) group(svc model.Service, c *Cluster, v View) (Group, error) {
	g := Group{Region: c.Region, Cluster: c.Name}
	for _, pod := range svc.Pods {
		if p.of[pod] == c {
			g.Endpoints = append(g.Endpoints, Endpoint{Addr: p.addrs[pod], Port: svc.TargetPort, Weight: 1})
		}
	}
	if len(g.Endpoints) == 0 || c == v.From || v.Beyond == nil || !v.Beyond(v.From, c) {
		return g, nil
	}
	if !c.Gateway.IsValid() {
		return g, &model.UnsupportedError{What: "a gateway for cluster " + c.Name, Missing: "this target does not tell its nodes' addresses", Hint: "use the lab"}
	}
	g.ThroughGateway = true
	g.Endpoints = []Endpoint{{Addr: c.Gateway, Port: v.Gateway, Weight: len(g.Endpoints)}}
	return g, nil
}

// Row is one endpoint in the order in which endpoints are used, as planned or
// as a live Envoy has it.
type Row struct {
	Priority int
	Region   string
	Gateway  bool
}

// Rows are those of groups.
func Rows(groups []Group) []Row {
	var rows []Row
	for _, g := range groups {
		for range g.Endpoints {
			rows = append(rows, Row{g.Priority, g.Region, g.ThroughGateway})
		}
	}
	return rows
}

// Describe is the rows in one line, e.g. "P0 sydney 2, P1 singapore 1 by
// gateway".
func Describe(rows []Row) string {
	count := map[Row]int{}
	var kinds []Row
	for _, r := range rows {
		if count[r]++; count[r] == 1 {
			kinds = append(kinds, r)
		}
	}
	slices.SortFunc(kinds, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), strings.Compare(a.Region, b.Region))
	})
	var parts []string
	for _, k := range kinds {
		part := fmt.Sprintf("P%d %s %d", k.Priority, k.Region, count[k])
		if k.Gateway {
			part += " by gateway"
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// Place is the node where the cluster's gateway is.
func (c *Cluster) Place(s model.Site, what string) (Place, error) {
	nodes, ok := s.(model.NodeSite)
	if !ok || len(c.Nodes) == 0 || !c.Gateway.IsValid() {
		return nil, &model.UnsupportedError{What: what, Missing: "cluster " + c.Name + " has no node here on which a gateway could run", Hint: "use the lab"}
	}
	node, err := nodes.Node(c.Nodes[0])
	if err != nil {
		return nil, err
	}
	where, ok := node.(Place)
	if !ok {
		return nil, &model.UnsupportedError{What: what, Missing: "this target's nodes have no room for processes", Hint: "use the lab"}
	}
	return where, nil
}

// Apart says whether no client shares a node with a service's pod: what pods of
// one node send each other is never on the wire.
func Apart(t model.Topology) bool {
	for _, n := range t.Nodes() {
		role := func(client bool) bool {
			return slices.ContainsFunc(n.Pods, func(p model.PodSpec) bool { return (p.Role == model.RoleClient) == client })
		}
		if role(true) && role(false) {
			return false
		}
	}
	return true
}
