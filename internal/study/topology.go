package study

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
)

// roleServer is the role of pods that answer; those that ask are clients.
const roleServer = "server"

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
		t = b.preset(c, replicas)
	}
	t.MTU = c.MTU
	b.networks(c, t)
	t.Links = append(b.links(c, t), t.Links...)
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
	for _, key := range []struct {
		name  string
		given bool
	}{{"places", c.Places != nil}, {"cloud", c.Cloud != ""}} {
		if key.given {
			b.reject("topology."+key.name, "belongs to the presets two-regions and three-regions")
		}
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
	cluster := model.Cluster{Name: string(c.Name), Network: string(c.Network)}
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
