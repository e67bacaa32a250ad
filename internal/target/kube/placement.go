package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/model"
)

const (
	keyHost = "kubernetes.io/hostname"
	keyZone = "topology.kubernetes.io/zone"
)

// place is where a node of the topology is: in which real cluster, and in which
// of the topology's, as its zone if several share the real one.
type place struct {
	cluster *cluster
	name    string // of the topology's cluster
	zoned   bool
}

// assign gives every node of the topology its cluster: the contexts in order,
// or one context for all, whose zones are then the topology's clusters.
func assign(t model.Topology, contexts []*cluster) (map[string]place, error) {
	var clusters []model.Cluster
	for _, r := range t.Regions {
		clusters = append(clusters, r.Clusters...)
	}
	if len(contexts) != 1 && len(contexts) != len(clusters) {
		return nil, &model.UnsupportedError{
			What:    fmt.Sprintf("a topology of %d clusters on %d contexts", len(clusters), len(contexts)),
			Missing: "a rule for which is which",
			Hint:    "give one context for each cluster of the topology, in order, or one with zones for all",
		}
	}
	places := map[string]place{}
	for i, cl := range clusters {
		p := place{cluster: contexts[0], name: cl.Name, zoned: len(clusters) > 1}
		if len(contexts) > 1 {
			p.cluster, p.zoned = contexts[i], false
		}
		for _, n := range cl.Nodes {
			places[n.Name] = p
		}
	}
	return places, nil
}

// affinity makes the scheduler put a pod where the topology wants it. On a
// node that is known by name that is all; else together with the pods of the
// same node, apart from those of others, and likewise with zones. Only pods of
// the same site count.
func affinity(site map[string]string, node, chosen string, p place) *corev1.Affinity {
	if chosen != "" {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{chosen}},
			}}},
		}}}
	}
	term := func(label string, op metav1.LabelSelectorOperator, value, topologyKey string) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{TopologyKey: topologyKey, LabelSelector: &metav1.LabelSelector{
			MatchLabels:      site,
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: label, Operator: op, Values: []string{value}}},
		}}
	}
	with := []corev1.PodAffinityTerm{term(labelNode, metav1.LabelSelectorOpIn, node, keyHost)}
	without := []corev1.PodAffinityTerm{term(labelNode, metav1.LabelSelectorOpNotIn, node, keyHost)}
	if p.zoned {
		with = append(with, term(labelCluster, metav1.LabelSelectorOpIn, p.name, keyZone))
		without = append(without, term(labelCluster, metav1.LabelSelectorOpNotIn, p.name, keyZone))
	}
	return &corev1.Affinity{
		PodAffinity:     &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: with},
		PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: without},
	}
}

// checkPlacement says where the pods really are, and whether that is as the
// topology wants it: asserted, not hoped for.
func (s *site) checkPlacement(ctx context.Context) error {
	chosen := map[string]string{} // by node of the topology
	of := map[string]string{}     // the other way round, with the context
	zones := map[string]string{}
	for _, n := range s.topology.Nodes() {
		for _, spec := range n.Pods {
			p := s.pods[spec.Name]
			if had := chosen[n.Name]; had != "" && had != p.node {
				return misplaced("pods of node %s are on the nodes %s and %s", n.Name, had, p.node)
			}
			chosen[n.Name] = p.node
		}
		if chosen[n.Name] == "" {
			continue // without pods
		}
		at := s.places[n.Name]
		key := at.cluster.context + "/" + chosen[n.Name]
		if other := of[key]; other != "" {
			return misplaced("the nodes %s and %s of the topology are both on node %s", other, n.Name, chosen[n.Name])
		}
		of[key] = n.Name
		if err := s.checkZone(ctx, n, chosen[n.Name], zones); err != nil {
			return err
		}
	}
	s.target.mu.Lock()
	defer s.target.mu.Unlock()
	maps.Copy(s.target.placement, chosen)
	return nil
}

func misplaced(format string, args ...any) error {
	return &model.TargetError{What: "placing pods", Why: fmt.Sprintf(format, args...), Hint: "name the nodes in target.kube.nodes"}
}

// checkZone checks that the topology's clusters are in zones of their own, where
// they share a real cluster. zones are by cluster of the topology.
func (s *site) checkZone(ctx context.Context, n model.Node, name string, zones map[string]string) error {
	at := s.places[n.Name]
	if !at.zoned {
		return nil
	}
	zone := s.pods[n.Pods[0].Name].zone
	if zone == "" {
		node, err := at.cluster.node(ctx, name)
		if err != nil {
			return &model.UnsupportedError{
				What: "placing the clusters of the topology in zones", Missing: "to read the zone of node " + name + ": " + err.Error(),
				Hint: "allow get on nodes (deploy/rbac-nodes.yaml), or give one context for each cluster of the topology",
			}
		}
		zone = node.Labels[keyZone]
	}
	if zone == "" {
		return &model.UnsupportedError{
			What: "placing the clusters of the topology in zones", Missing: "the node " + name + " has no label " + keyZone,
			Hint: "give one context for each cluster of the topology, or use a cluster with zones",
		}
	}
	if had := zones[at.name]; had != "" && had != zone {
		return misplaced("cluster %s of the topology is in the zones %s and %s", at.name, had, zone)
	}
	for other, z := range zones {
		if z == zone && other != at.name {
			return misplaced("the clusters %s and %s of the topology are both in zone %s", other, at.name, zone)
		}
	}
	zones[at.name] = zone
	return nil
}

// placementFacts say where the pods are.
func (s *site) placementFacts() model.Ledger {
	var l model.Ledger
	for _, n := range s.topology.Nodes() {
		if len(n.Pods) == 0 {
			continue
		}
		var names []string
		for _, p := range n.Pods {
			names = append(names, p.Name)
		}
		first := s.pods[n.Pods[0].Name]
		where := "context " + s.places[n.Name].cluster.context + ", node " + first.node
		if first.zone != "" {
			where += ", zone " + first.zone
		}
		slices.Sort(names)
		l = append(l, model.Fact{Layer: layer, Key: PlacementKey + n.Name, Value: where + ": " + strings.Join(names, ", "), Source: model.SourceConfig})
	}
	return l
}

// PlacementKey begins the keys of facts that say where a node of the topology is.
const PlacementKey = "place of "

// PlacementOf reads the real nodes, by node of the topology, back from a ledger.
func PlacementOf(l model.Ledger) map[string]string {
	placement := map[string]string{}
	for _, f := range l {
		node, ok := strings.CutPrefix(f.Key, PlacementKey)
		if !ok || f.Layer != layer {
			continue
		}
		_, rest, _ := strings.Cut(f.Value, ", node ")
		name, _, _ := strings.Cut(rest, ":")
		name, _, _ = strings.Cut(name, ", zone ")
		placement[node] = name
	}
	return placement
}

// layer is under which the target's facts stand in the ledger.
const layer = "kube"
