package study

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

func withTopology(text string) []byte {
	return []byte(strings.Replace(small, "app:", "topology: "+text+"\napp:", 1))
}

func TestPresets(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ topology, regions, links string }{
		{"{preset: two-nodes}", "region-0/cluster-0/node-0[client] region-0/cluster-0/node-1[server-0 server-1]", ""},
		{"{preset: one-cluster}", "region-0/cluster-0/node-0[client] region-0/cluster-0/node-1[server-0] region-0/cluster-0/node-2[server-1]", ""},
		{
			"{preset: bookinfo}",
			"region-0/cluster-0/node-0[client] region-0/cluster-0/node-1[productpage-0] region-0/cluster-0/node-2[details-0 reviews-0 reviews-1 reviews-2 ratings-0]", "",
		},
		{"{preset: two-clusters}", "region-0/cluster-0/node-0[client] region-0/cluster-0/node-1[server-0] region-0/cluster-1/node-2[server-1]", ""},
		{
			"{preset: two-clusters, networks: separate, links: [{a: cluster-0, b: cluster-1, delay: 1ms}]}",
			"region-0/cluster-0(cluster-0)/node-0[client] region-0/cluster-0(cluster-0)/node-1[server-0] region-0/cluster-1(cluster-1)/node-2[server-1]",
			"cluster-0-cluster-1 1ms",
		},
		{
			"{preset: two-regions}",
			"singapore/cluster-singapore/singapore-0[client] singapore/cluster-singapore/singapore-1[server-0] " +
				"sydney/cluster-sydney/sydney-0[client-sydney] sydney/cluster-sydney/sydney-1[server-1]",
			"singapore-sydney 47.5ms",
		},
		{
			"{preset: two-regions, places: [sydney, singapore], cloud: gcp}",
			"sydney/cluster-sydney/sydney-0[client] sydney/cluster-sydney/sydney-1[server-0] " +
				"singapore/cluster-singapore/singapore-0[client-singapore] singapore/cluster-singapore/singapore-1[server-1]",
			"sydney-singapore 48ms",
		},
	} {
		s, err := Parse("f.yaml", withTopology(test.topology), catalog())
		if err != nil {
			t.Errorf("%s: %v", test.topology, err)
			continue
		}
		if got := shape(s.Topology); got != test.regions {
			t.Errorf("%s:\n%s, want\n%s", test.topology, got, test.regions)
		}
		var links []string
		for _, l := range s.Topology.Links {
			links = append(links, fmt.Sprintf("%s-%s %s", l.A, l.B, l.Delay))
		}
		if got := strings.Join(links, ", "); got != test.links {
			t.Errorf("%s: links %s, want %s", test.topology, got, test.links)
		}
	}
	s, err := Parse("f.yaml", withTopology("{preset: three-regions}"), catalog())
	if err != nil || len(s.Topology.Links) != 3 || len(s.Topology.Regions) != 3 || s.Topology.Links[0].Source == "" {
		t.Errorf("three regions: %+v, %v", s.Topology, err)
	}
}

func shape(t model.Topology) string {
	var all []string
	for i, p := range t.Places() {
		var pods []string
		for _, pod := range t.Nodes()[i].Pods {
			pods = append(pods, pod.Name)
		}
		network := ""
		if p.Network != "" {
			network = "(" + p.Network + ")"
		}
		all = append(all, fmt.Sprintf("%s/%s%s/%s%v", p.Region, p.Cluster, network, p.Node, pods))
	}
	return strings.Join(all, " ")
}

func TestTopologyProblems(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ topology, want string }{
		"places of another preset": {"{preset: two-nodes, places: [sydney]}", "topology.places: belongs to the presets two-regions"},
		"too few places":           {"{preset: two-regions, places: [sydney]}", "two-regions has 2 places, not 1"},
		"unknown place":            {"{preset: two-regions, places: [singapur, sydney]}", `unknown place "singapur"; did you mean "singapore"?`},
		"place twice":              {"{preset: two-regions, places: [sydney, sydney]}", `"sydney" is listed twice`},
		"unknown cloud":            {"{preset: two-regions, cloud: azur}", `topology.cloud: unknown cloud "azur"; did you mean "azure"?`},
		"pair that is not there":   {"{preset: two-regions, places: [tokyo, sydney], cloud: gcp}", "the table has no figures of gcp between all of tokyo, sydney"},
		"link to nowhere":          {"{preset: two-clusters, links: [{a: cluster-0, b: cluster-9}]}", `unknown node, cluster or region "cluster-9"`},
		"reorder without jitter":   {"{preset: two-nodes, links: [{a: node-0, b: node-1, delay: 1ms, reorder: true}]}", "topology.links[0].reorder: needs jitter"},
		"share without delay":      {"{preset: two-nodes, links: [{a: node-0, b: node-1, reorder_share: 1%}]}", "topology.links[0].reorder_share: needs a delay"},
		"all lost":                 {"{preset: two-nodes, links: [{a: node-0, b: node-1, loss: 100%}]}", "topology.links[0].loss: is 100%"},
		"long delay":               {"{preset: two-nodes, links: [{a: node-0, b: node-1, delay: 1m}]}", "topology.links[0].delay: is more than 10s"},
		"wide link":                {"{preset: two-nodes, links: [{a: node-0, b: node-1, mtu: 9000}]}", "topology.links[0].mtu: is more than the underlay's, 1500"},
		"ambiguous": {
			"{regions: [{name: r, clusters: [{name: a, nodes: [{name: a, pods: [{name: s, role: server}]}, {name: b, pods: [{name: client, role: client}]}]}]}], links: [{a: a, b: b}]}",
			`topology.links[0].a: "a" is the name of a cluster and of a node`,
		},
	} {
		text := withTopology(test.topology)
		if name == "ambiguous" {
			text = []byte(strings.Replace(string(text), ", replicas: 2", "", 1))
		}
		_, err := Parse("f.yaml", text, catalog())
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
}

// Every row must be whole and plausible: light in glass goes 200 km in a
// millisecond, and no two places are farther apart than half of the earth.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range RoundTrips() {
		key := r.Cloud + " " + min(r.A, r.B) + " " + max(r.A, r.B)
		if seen[key] || r.A == r.B {
			t.Errorf("%s is there twice", key)
		}
		seen[key] = true
		if r.RTT < 5*time.Millisecond || r.RTT > 400*time.Millisecond || r.Source == "" {
			t.Errorf("%+v", r)
		}
		if _, err := ParseName(r.A + "-1"); err != nil {
			t.Error(err)
		}
	}
	const least = 100
	if len(seen) < least {
		t.Errorf("the table has %d rows", len(seen))
	}
	docs := RoundTripPlaces()
	if len(docs) == 0 || docs[0] != "amsterdam" {
		t.Errorf("places: %v", docs)
	}
}
