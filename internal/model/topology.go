package model

import (
	"fmt"
	"net/netip"
	"time"
)

// Topology is where pods are: regions > clusters > nodes > pods, the services
// in front of them, and the links between nodes. A plain value.
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
}

// Link is the connection between two nodes, by name. Both directions are alike.
type Link struct {
	A      string        `json:"a"`
	B      string        `json:"b"`
	Delay  time.Duration `json:"delay_ns,omitempty"` // one way
	Jitter time.Duration `json:"jitter_ns,omitempty"`
	Loss   float64       `json:"loss,omitempty"`     // share of packets, 0 to 1
	Rate   uint64        `json:"rate_bps,omitempty"` // bits per second
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
