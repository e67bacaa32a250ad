package model

import (
	"context"
	"net/netip"
)

// ComponentNetwork is the account of processes that carry packets on a node,
// as a user-space tunnel does.
const ComponentNetwork Component = "network"

// ComponentController is the account of what tells switches what to do.
const ComponentController Component = "controller"

// Keys of the facts of network layers.
const (
	// FactEncapsulation is what the underlay carries pods' packets in. Only the
	// wire tells it.
	FactEncapsulation = "encapsulation"
	// FactDataPath is what moves the packets: a kernel device, a BPF program or
	// a process.
	FactDataPath = "data path"
	// FactOverhead is what encapsulation adds to a packet.
	FactOverhead = "header overhead"
	// FactRoutes is where nodes' routes to other nodes' pods come from.
	FactRoutes = "routes"
)

// NoEncapsulation is the value of FactEncapsulation where pods' packets are on
// the underlay as they are.
const NoEncapsulation = "none"

// WiredSite is a site that can tell how its pods are wired, so that a network
// layer can wire them otherwise. Pods keep their addresses in any case: apps
// and services know them before the stack is deployed.
type WiredSite interface {
	NodeSite
	// Wiring is that of all nodes, in the topology's order, as the site was made.
	Wiring() []Wiring
}

// Wiring is how a node's pods are connected: by veths to a bridge of the node,
// from which the node routes to the other nodes' pods over the underlay.
type Wiring struct {
	Node     string
	Region   string
	Network  string       // of the pods; nodes of different networks have no routes to each other's pods
	Underlay string       // the node's device on the underlay
	Addr     netip.Addr   // of the node on the underlay
	MTU      int          // of the underlay, and of everything in the node
	Bridge   string       // the node's, which its pods are ports of
	Gateway  netip.Addr   // of the pods: the bridge's own address
	Range    netip.Prefix // the node's pods have addresses of
	Pods     []WiredPod
}

// WiredPod is the near end of one pod's veth. The far end is the pod's eth0.
type WiredPod struct {
	Name   string
	Device string // in the node
	Addr   netip.Addr
}

// Starter is a Namespace that has room for processes, as a node of the lab has.
type Starter interface {
	Start(ctx context.Context, p Process) (Running, error)
}
