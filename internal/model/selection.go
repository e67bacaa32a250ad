package model

import (
	"errors"
	"fmt"
	"slices"
)

// Selection names places of a topology for a fault to act on: all pods of the
// regions, clusters and nodes, but for those of role client, and the pods.
type Selection struct {
	Pods     []string `json:"pods,omitempty" jsonschema_description:"Pods, by name."`
	Nodes    []string `json:"nodes,omitempty" jsonschema_description:"Nodes: all of their pods but clients."`
	Clusters []string `json:"clusters,omitempty" jsonschema_description:"Clusters: all of their pods but clients."`
	Regions  []string `json:"regions,omitempty" jsonschema_description:"Regions: all of their pods but clients."`
}

// Check says, by key, what is wrong with a selection of itself.
func (s Selection) Check() error {
	if len(s.Pods)+len(s.Nodes)+len(s.Clusters)+len(s.Regions) == 0 {
		return errors.New("names nothing: give pods, nodes, clusters or regions")
	}
	return nil
}

// PodsOf are the names of the pods that are selected, in the topology's order.
func (s Selection) PodsOf(t Topology) ([]string, error) {
	var pods []string
	err := s.walk(t, func(n Node, all bool) {
		for _, p := range n.Pods {
			if slices.Contains(s.Pods, p.Name) || all && p.Role != RoleClient {
				pods = append(pods, p.Name)
			}
		}
	})
	if err == nil && len(pods) == 0 {
		err = errors.New("nothing but clients is there")
	}
	return pods, err
}

// NodesOf are the names of the nodes that are selected, or hold a pod that is.
func (s Selection) NodesOf(t Topology) ([]string, error) {
	var nodes []string
	err := s.walk(t, func(n Node, all bool) {
		if all || slices.ContainsFunc(n.Pods, func(p PodSpec) bool { return slices.Contains(s.Pods, p.Name) }) {
			nodes = append(nodes, n.Name)
		}
	})
	return nodes, err
}

// walk visits all nodes and says of which all is selected. Names that the
// topology does not have are an error, all of them at once.
func (s Selection) walk(t Topology, visit func(n Node, all bool)) error {
	known := map[string]bool{}
	for _, r := range t.Regions {
		known["region "+r.Name] = true
		for _, c := range r.Clusters {
			known["cluster "+c.Name] = true
			for _, n := range c.Nodes {
				known["node "+n.Name] = true
				for _, p := range n.Pods {
					known["pod "+p.Name] = true
				}
				visit(n, slices.Contains(s.Regions, r.Name) || slices.Contains(s.Clusters, c.Name) || slices.Contains(s.Nodes, n.Name))
			}
		}
	}
	var errs []error
	for _, named := range []struct {
		kind  string
		names []string
	}{{"pod", s.Pods}, {"node", s.Nodes}, {"cluster", s.Clusters}, {"region", s.Regions}} {
		for _, name := range named.names {
			if !known[named.kind+" "+name] {
				errs = append(errs, fmt.Errorf("the topology has no %s %q", named.kind, name))
			}
		}
	}
	return errors.Join(errs...)
}

// RoleClient is the role of pods that send load.
const RoleClient = "client"
