// Package plan says what a lab consists of: its clusters, their nodes, and
// every address and name, all computed from the lab's name and sizes.
package plan

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
)

// APIPort is where every cluster's API server listens, on its router's address.
const APIPort = 6443

// Lab is one lab.
type Lab struct {
	Name     string
	Clusters []Cluster
}

// Cluster is one Kubernetes cluster. Its control plane runs in the namespace
// of its router, to which its nodes, the WAN and the host are connected.
type Cluster struct {
	Name     string
	Router   netip.Prefix // the router's address among the nodes; the API server's, too
	Subnet   netip.Prefix // the nodes'
	Pods     netip.Prefix
	Services netip.Prefix
	API      netip.Addr // of the Service kubernetes
	DNS      netip.Addr // of the Service kube-dns
	WAN      Link       // near: the WAN; far: the router
	Host     Link       // near: the host; far: the router
	Nodes    []Node
}

// Node is one node of a cluster.
type Node struct {
	Name    string
	Address netip.Prefix
	Pods    netip.Prefix
}

// Link is a point-to-point link's two addresses.
type Link struct{ Near, Far netip.Prefix }

const maxClusters, maxNodes, maxName = 4, 9, 10

// New plans a lab with one cluster a size, called a, b and so on.
func New(name string, sizes []int) (Lab, error) {
	var problems []error
	if !regexp.MustCompile(`^[a-z][a-z0-9]*$`).MatchString(name) || len(name) > maxName {
		problems = append(problems, fmt.Errorf("the lab's name %q: lower-case letters and digits, at most %d, a letter first", name, maxName))
	}
	if len(sizes) < 1 || len(sizes) > maxClusters {
		problems = append(problems, fmt.Errorf("%d clusters: 1 to %d are possible", len(sizes), maxClusters))
	}
	lab := Lab{Name: name}
	for i, size := range sizes {
		if size < 1 || size > maxNodes {
			problems = append(problems, fmt.Errorf("cluster %d with %d nodes: 1 to %d are possible", i+1, size, maxNodes))
			continue
		}
		lab.Clusters = append(lab.Clusters, cluster(byte(i), size))
	}
	return lab, errors.Join(problems...)
}

func cluster(i byte, size int) Cluster {
	name := string('a' + rune(i))
	at := func(a, b, c, d byte, bits int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{a, b, c, d}), bits)
	}
	c := Cluster{
		Name:     name,
		Router:   at(172, 30, i+1, 1, 24),
		Subnet:   at(172, 30, i+1, 0, 24),
		Pods:     at(10, 44+i, 0, 0, 16),
		Services: at(10, 96+i, 0, 0, 16),
		API:      at(10, 96+i, 0, 1, 16).Addr(),
		DNS:      at(10, 96+i, 0, 10, 16).Addr(),
		WAN:      Link{Near: at(172, 30, 100, 4*i+1, 30), Far: at(172, 30, 100, 4*i+2, 30)},
		Host:     Link{Near: at(172, 30, 200, 4*i+1, 30), Far: at(172, 30, 200, 4*i+2, 30)},
	}
	for n := range byte(size) {
		c.Nodes = append(c.Nodes, Node{
			Name:    fmt.Sprintf("%s%d", name, n+1),
			Address: at(172, 30, i+1, 11+n, 24),
			Pods:    at(10, 44+i, n+1, 0, 24),
		})
	}
	return c
}

// Server is the URL of the cluster's API server.
func (c Cluster) Server() string {
	return fmt.Sprintf("https://%s:%d", c.Router.Addr(), APIPort)
}

// Namespace is the name of the network namespace of a place: a cluster's name
// for its router and control plane, a node's name, or WAN.
func (l Lab) Namespace(place string) string { return l.Name + "-" + place }

// WAN is the place between the clusters.
const WAN = "wan"

// Namespaces lists the lab's network namespaces.
func (l Lab) Namespaces() []string {
	all := []string{l.Namespace(WAN)}
	for _, c := range l.Clusters {
		all = append(all, l.Namespace(c.Name))
		for _, n := range c.Nodes {
			all = append(all, l.Namespace(n.Name))
		}
	}
	return all
}

// HostLink is the name of the host's network device towards a cluster.
func (l Lab) HostLink(c Cluster) string { return l.Name + "-" + c.Name }

// Cluster finds a cluster by its name.
func (l Lab) Cluster(name string) (Cluster, error) {
	for _, c := range l.Clusters {
		if c.Name == name {
			return c, nil
		}
	}
	return Cluster{}, fmt.Errorf("no cluster %q in this lab", name)
}
