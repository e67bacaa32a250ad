package study

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// The roles of pods.
const (
	roleClient = "client"
	roleServer = "server"
)

// PresetTwoNodes is one region with one cluster of two nodes: node-0 holds the
// pod client; node-1 holds server-0 to server-(replicas-1), which are behind
// the service server.
const PresetTwoNodes = "two-nodes"

// topology makes the topology; a zero one if something is wrong with it.
func (b *builder) topology(c TopologyConfig, replicas int) model.Topology {
	before := len(b.problems)
	spelled := b.given["topology.regions"] != nil
	if b.unsound("topology") || b.bad["app.replicas"] || b.bad["app"] {
		return model.Topology{}
	}
	var t model.Topology
	switch {
	case spelled && c.Preset != "":
		b.reject("topology.regions", "a preset has regions of its own: give either preset or regions")
	case spelled:
		t = b.spelled(c)
	case c.Preset == "":
		b.reject("topology", "needs preset or regions")
	default:
		t = twoNodes(replicas)
		b.presetOnly(c)
	}
	t.MTU = c.MTU
	t.Links = b.links(c.Links, t)
	if len(b.problems) > before {
		return model.Topology{}
	}
	return t
}

// unsound tells whether anything at or under a path is wrong.
func (b *builder) unsound(path string) bool {
	for p := range b.bad {
		if p == path || strings.HasPrefix(p, path+".") || strings.HasPrefix(p, path+"[") {
			return true
		}
	}
	return false
}

func (b *builder) presetOnly(c TopologyConfig) {
	if len(c.Services) > 0 {
		b.reject("topology.services", "a preset has services of its own: spell out regions to have others")
	}
}

func twoNodes(replicas int) model.Topology {
	var pods []model.PodSpec
	var names []string
	for i := range replicas {
		name := fmt.Sprintf("server-%d", i)
		pods = append(pods, model.PodSpec{Name: name, Role: roleServer})
		names = append(names, name)
	}
	return model.Topology{
		Regions: []model.Region{{Name: "region-0", Clusters: []model.Cluster{{Name: "cluster-0", Nodes: []model.Node{
			{Name: "node-0", Pods: []model.PodSpec{{Name: "client", Role: roleClient}}},
			{Name: "node-1", Pods: pods},
		}}}}},
		Services: []model.Service{server(names)},
	}
}

// server is the service that a topology has if the study names no other.
func server(pods []string) model.Service {
	const port, targetPort = 80, 8080
	return model.Service{Name: "server", Port: port, TargetPort: targetPort, Pods: pods}
}

// spelled copies a topology that is spelled out, and checks its names.
func (b *builder) spelled(c TopologyConfig) model.Topology {
	if b.given["app.replicas"] != nil {
		b.reject("app.replicas", "belongs to a preset; this topology spells out its pods")
	}
	s := speller{builder: b, first: map[string]string{}}
	var t model.Topology
	for i, rc := range c.Regions {
		path := at("topology.regions", i)
		s.name("region", string(rc.Name), path)
		r := model.Region{Name: string(rc.Name)}
		for j, cc := range rc.Clusters {
			r.Clusters = append(r.Clusters, s.cluster(cc, at(path+".clusters", j)))
		}
		t.Regions = append(t.Regions, r)
	}
	if len(s.servers) == 0 {
		b.reject("topology.regions", "has no pod of role server")
	}
	if c.Services == nil {
		t.Services = []model.Service{server(s.servers)}
	}
	for i, sc := range c.Services {
		t.Services = append(t.Services, s.service(sc, at("topology.services", i)))
	}
	return t
}

// speller walks a topology that is spelled out.
type speller struct {
	*builder
	first         map[string]string // "pod client": where it is
	pods, servers []string
}

func (s *speller) name(what, name, path string) {
	key := what + " " + name
	if other, twice := s.first[key]; twice {
		s.reject(path+".name", fmt.Sprintf("%q is already the name of %s", name, other))
		return
	}
	s.first[key] = path
}

func (s *speller) cluster(c ClusterConfig, path string) model.Cluster {
	s.name("cluster", string(c.Name), path)
	cluster := model.Cluster{Name: string(c.Name)}
	for i, nc := range c.Nodes {
		at := at(path+".nodes", i)
		s.name("node", string(nc.Name), at)
		n := model.Node{Name: string(nc.Name)}
		for j, p := range nc.Pods {
			s.name("pod", string(p.Name), fmt.Sprintf("%s.pods[%d]", at, j))
			n.Pods = append(n.Pods, model.PodSpec{Name: string(p.Name), Role: p.Role})
			s.pods = append(s.pods, string(p.Name))
			if p.Role == roleServer {
				s.servers = append(s.servers, string(p.Name))
			}
		}
		cluster.Nodes = append(cluster.Nodes, n)
	}
	return cluster
}

func (s *speller) service(c ServiceConfig, path string) model.Service {
	s.name("service", string(c.Name), path)
	var seen []string
	for i, p := range c.Pods {
		if s.oneOf(at(path+".pods", i), "pod", p, s.pods) && slices.Contains(seen, p) {
			s.reject(at(path+".pods", i), fmt.Sprintf("%q is listed twice", p))
		}
		seen = append(seen, p)
	}
	return model.Service{
		Name: string(c.Name), Port: uint16(c.Port), TargetPort: uint16(c.TargetPort), Pods: c.Pods, //nolint:gosec // 1 to 65535 by the tags
	}
}

func (b *builder) links(cs []LinkConfig, t model.Topology) []model.Link {
	var nodes []string
	for _, n := range t.Nodes() {
		nodes = append(nodes, n.Name)
	}
	if len(nodes) == 0 {
		return nil
	}
	var links []model.Link
	first := map[[2]string]int{}
	for i, c := range cs {
		path := at("topology.links", i)
		pair := [2]string{min(c.A, c.B), max(c.A, c.B)}
		b.oneOf(path+".a", "node", c.A, nodes)
		b.oneOf(path+".b", "node", c.B, nodes)
		if c.A == c.B {
			b.reject(path+".b", fmt.Sprintf("%q is both ends of the link", c.B))
		}
		if j, twice := first[pair]; twice {
			b.reject(path, fmt.Sprintf("joins the same nodes as links[%d]; a link is the same in both directions", j))
		}
		if c.Jitter > c.Delay {
			b.reject(path+".jitter", "is more than the delay")
		}
		first[pair] = i
		links = append(links, model.Link{
			A: c.A, B: c.B, Delay: time.Duration(c.Delay), Jitter: time.Duration(c.Jitter), Loss: float64(c.Loss), Rate: uint64(c.Rate),
		})
	}
	return links
}
