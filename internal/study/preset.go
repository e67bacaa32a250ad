package study

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
)

// The presets: topologies with a name. The service server has all servers,
// except for bookinfo's.
const (
	PresetTwoNodes     = "two-nodes"
	PresetOneCluster   = "one-cluster"
	PresetTwoClusters  = "two-clusters"
	PresetTwoRegions   = "two-regions"
	PresetThreeRegions = "three-regions"
	PresetBookinfo     = "bookinfo"
)

// The places of the presets with regions, if the study names none.
func usualPlaces(n int) []string { return []string{"singapore", "sydney", "virginia"}[:n] }

func (b *builder) preset(c TopologyConfig, replicas int) model.Topology {
	if len(c.Services) > 0 {
		b.reject("topology.services", "a preset has services of its own: spell out regions to have others")
	}
	regions := map[string]int{PresetTwoRegions: 2, PresetThreeRegions: 3}[c.Preset]
	if regions > 0 {
		return b.apart(c, regions, replicas)
	}
	if c.Places != nil {
		b.reject("topology.places", "belongs to the presets two-regions and three-regions")
	}
	if c.Cloud != "" {
		b.reject("topology.cloud", "belongs to the presets two-regions and three-regions")
	}
	client := model.Node{Name: "node-0", Pods: []model.PodSpec{{Name: "client", Role: model.RoleClient}}}
	region := func(clusters ...model.Cluster) []model.Region {
		return []model.Region{{Name: "region-0", Clusters: clusters}}
	}
	var t model.Topology
	switch c.Preset {
	case PresetOneCluster:
		s := servers(replicas, 2)
		t.Regions = region(model.Cluster{Name: "cluster-0", Nodes: []model.Node{client, {Name: "node-1", Pods: s[0]}, {Name: "node-2", Pods: s[1]}}})
	case PresetBookinfo:
		if b.given["app.replicas"] == nil {
			replicas = 1
		}
		return bookinfo(client, replicas)
	case PresetTwoClusters:
		s := servers(replicas, 2)
		t.Regions = region(
			model.Cluster{Name: "cluster-0", Nodes: []model.Node{client, {Name: "node-1", Pods: s[0]}}},
			model.Cluster{Name: "cluster-1", Nodes: []model.Node{{Name: "node-2", Pods: s[1]}}},
		)
	default:
		s := servers(replicas, 1)
		t.Regions = region(model.Cluster{Name: "cluster-0", Nodes: []model.Node{client, {Name: "node-1", Pods: s[0]}}})
	}
	t.Services = []model.Service{server(serverNames(replicas))}
	return t
}

// bookinfo has the services of the app bookinfo, that under load first; of
// reviews there are three versions. The pods behind productpage are on a node
// of their own.
func bookinfo(client model.Node, replicas int) model.Topology {
	const port, versions = 9080, 3
	var t model.Topology
	nodes := []model.Node{client, {Name: "node-1"}, {Name: "node-2"}}
	for i, name := range []string{"productpage", "details", "reviews", "ratings"} {
		n := replicas
		if name == "reviews" {
			n *= versions
		}
		svc := model.Service{Name: name, Port: port, TargetPort: port}
		node := &nodes[min(i+1, len(nodes)-1)]
		for k := range n {
			pod := fmt.Sprintf("%s-%d", name, k)
			svc.Pods = append(svc.Pods, pod)
			node.Pods = append(node.Pods, model.PodSpec{Name: pod, Role: roleServer})
		}
		t.Services = append(t.Services, svc)
	}
	t.Regions = []model.Region{{Name: "region-0", Clusters: []model.Cluster{{Name: "cluster-0", Nodes: nodes}}}}
	return t
}

// servers are the pods server-0 to server-(n-1), dealt out in turn.
func servers(n, groups int) [][]model.PodSpec {
	dealt := make([][]model.PodSpec, groups)
	for i, name := range serverNames(n) {
		dealt[i%groups] = append(dealt[i%groups], model.PodSpec{Name: name, Role: roleServer})
	}
	return dealt
}

func serverNames(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("server-%d", i))
	}
	return names
}

// apart has a region in every place: a node with a client (the pod client in
// the first, client-PLACE in the others) and a node with its share of the
// servers. Links between regions have half of the table's round trip.
func (b *builder) apart(c TopologyConfig, regions, replicas int) model.Topology {
	names := c.Places
	if names == nil {
		names = usualPlaces(regions)
	}
	links, err := distances(names, c.Cloud)
	switch {
	case len(names) != regions:
		b.reject("topology.places", fmt.Sprintf("%s has %d places, not %d", c.Preset, regions, len(names)))
		return model.Topology{}
	case err != nil:
		key := "topology.places"
		if c.Places == nil {
			key = "topology.cloud"
		}
		b.reject(key, err.Error())
		return model.Topology{}
	}
	pods := servers(replicas, regions)
	t := model.Topology{Links: links, Services: []model.Service{server(serverNames(replicas))}}
	for i, place := range names {
		client := "client"
		if i > 0 {
			client += "-" + place
		}
		t.Regions = append(t.Regions, model.Region{Name: place, Clusters: []model.Cluster{{Name: "cluster-" + place, Nodes: []model.Node{
			{Name: place + "-0", Pods: []model.PodSpec{{Name: client, Role: model.RoleClient}}},
			{Name: place + "-1", Pods: pods[i]},
		}}}})
	}
	return t
}

// distances are the links between all places, in the table's figures of one
// cloud.
func distances(places []string, cloud string) ([]model.Link, error) {
	table := RoundTrips()
	var clouds, known []string
	for _, r := range table {
		clouds, known = addOnce(clouds, r.Cloud), addOnce(addOnce(known, r.A), r.B)
	}
	first := map[string]bool{}
	for _, p := range places {
		if first[p] {
			return nil, fmt.Errorf("%q is listed twice", p)
		}
		if first[p] = true; !slices.Contains(known, p) {
			return nil, errors.New(unknown("place", p, known))
		}
	}
	if cloud != "" && !slices.Contains(clouds, cloud) {
		return nil, errors.New(unknown("cloud", cloud, clouds))
	}
	for _, candidate := range clouds {
		if cloud != "" && cloud != candidate {
			continue
		}
		if links := joinAll(table, places, candidate); links != nil {
			return links, nil
		}
	}
	if cloud == "" {
		cloud = "one cloud"
	}
	return nil, fmt.Errorf("the table has no figures of %s between all of %s: see windtunnel's docs/studies.md, or spell out regions and links", cloud, strings.Join(places, ", "))
}

// joinAll returns nil where a pair is not in the table.
func joinAll(table []RoundTrip, places []string, cloud string) []model.Link {
	var links []model.Link
	for i, a := range places {
		for _, b := range places[i+1:] {
			found := false
			for _, r := range table {
				if r.Cloud == cloud && (r.A == a && r.B == b || r.A == b && r.B == a) {
					links, found = append(links, model.Link{A: a, B: b, Delay: r.RTT / 2, Source: r.Source}), true //nolint:mnd // one way
					break
				}
			}
			if !found {
				return nil
			}
		}
	}
	return links
}

func addOnce(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
