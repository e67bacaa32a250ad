package model

import (
	"fmt"
	"net/netip"
	"time"
)

// Topology is where pods are: regions > clusters > nodes > pods, the services
// in front of them, and the links between them. A plain value.
type Topology struct {
	Regions  []Region  `json:"regions"`
	Services []Service `json:"services"`
	Links    []Link    `json:"links,omitempty"`
	// MTU of the underlay between nodes, in bytes. 0: the target's default.
	MTU int `json:"mtu,omitempty"`
}

// Region is a place; links between regions have a delay.
type Region struct {
	Name     string    `json:"name"`
	Clusters []Cluster `json:"clusters"`
}

// Cluster is one Kubernetes cluster, or on the lab what stands for one.
type Cluster struct {
	Name  string `json:"name"`
	Nodes []Node `json:"nodes"`
	// Network is where pods reach each other by their own addresses. Clusters
	// with the same one are flat; between different ones only nodes reach each
	// other, and pods reach nodes with their own node's address.
	Network string `json:"network,omitempty"`
}

// Node is a machine of a cluster.
type Node struct {
	Name string    `json:"name"`
	Pods []PodSpec `json:"pods"`
}

// PodSpec is a pod that is wanted on a node. Role says what it is for:
// "client" or "server".
type PodSpec struct {
	Name string `json:"name"`
	Role string `json:"role"`
}

// Service is a name for a set of pods. VIP is zero in a blueprint; a Site
// fills it in.
type Service struct {
	Name       string     `json:"name"`
	Port       uint16     `json:"port"`        // on the VIP
	TargetPort uint16     `json:"target_port"` // on the pods
	Pods       []string   `json:"pods"`
	VIP        netip.Addr `json:"vip,omitzero"`
	// Host is the name by which clients ask at the VIP, where it is not Name:
	// meshes route by it.
	Host string `json:"host,omitempty"`
}

// Link is what the path between two places is like: nodes, clusters or
// regions, by name. Each direction has these settings for itself.
type Link struct {
	A      string        `json:"a"`
	B      string        `json:"b"`
	Delay  time.Duration `json:"delay_ns,omitempty"`  // one way
	Jitter time.Duration `json:"jitter_ns,omitempty"` // the delay is evenly spread over delay +- jitter
	// Reorder lets jitter reorder packets; else they keep their order.
	Reorder   bool    `json:"reorder,omitempty"`
	Loss      float64 `json:"loss,omitempty"`      // share of packets, 0 to 1
	Duplicate float64 `json:"duplicate,omitempty"` // share of packets that arrive twice
	// ReorderShare is the share of packets that are not delayed, and so come
	// before those in front of them.
	ReorderShare float64 `json:"reorder_share,omitempty"`
	Rate         uint64  `json:"rate_bps,omitempty"` // bits per second
	MTU          int     `json:"mtu,omitempty"`      // bytes; 0: that of the underlay
	// Source says where the figures come from, if they are of a table.
	Source string `json:"source,omitempty"`
}

// Emulated says whether anything of the link's packets has to be changed.
func (l Link) Emulated() bool {
	return l.Delay != 0 || l.Jitter != 0 || l.Loss != 0 || l.Duplicate != 0 || l.ReorderShare != 0 || l.Rate != 0
}

// Place is where a node is.
type Place struct {
	Node, Cluster, Region string
	Network               string
}

// Places returns where the nodes are, in the order of Nodes.
func (t Topology) Places() []Place {
	var all []Place
	for _, r := range t.Regions {
		for _, c := range r.Clusters {
			for _, n := range c.Nodes {
				all = append(all, Place{n.Name, c.Name, r.Name, c.Network})
			}
		}
	}
	return all
}

// LinkOf returns the index of the link that holds for what goes from one node
// to another; -1: none. Of several the most specific holds: one that names
// nodes before one that names clusters before one that names regions; of
// equally specific ones the first.
func (t Topology) LinkOf(from, to Place) int {
	best, most := -1, -1
	for i, l := range t.Links {
		specific := max(from.in(l.A)+to.in(l.B), from.in(l.B)+to.in(l.A))
		if specific > most {
			best, most = i, specific
		}
	}
	return best
}

// Forward says whether what goes from one node to another goes from the link's
// end A to its end B.
func (t Topology) Forward(link int, from, to Place) bool {
	l := t.Links[link]
	return from.in(l.A)+to.in(l.B) >= from.in(l.B)+to.in(l.A)
}

// in says how specifically a name is the place's: 2 as its node, 1 as its
// cluster, 0 as its region; far below 0: not at all.
func (p Place) in(name string) int {
	const node, cluster, region, elsewhere = 2, 1, 0, -100
	switch name {
	case p.Node:
		return node
	case p.Cluster:
		return cluster
	case p.Region:
		return region
	}
	return elsewhere
}

// Nodes returns the nodes of all clusters in order.
func (t Topology) Nodes() []Node {
	var nodes []Node
	for _, r := range t.Regions {
		for _, c := range r.Clusters {
			nodes = append(nodes, c.Nodes...)
		}
	}
	return nodes
}

// NodeOf returns the name of the node that holds the pod.
func (t Topology) NodeOf(pod string) (string, error) {
	for _, n := range t.Nodes() {
		for _, p := range n.Pods {
			if p.Name == pod {
				return n.Name, nil
			}
		}
	}
	return "", fmt.Errorf("the topology has no pod %q", pod)
}
