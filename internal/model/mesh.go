package model

import (
	"context"
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
)

// Mesh is a layer that real clusters have, rather than one that this program
// makes on a site: how it is installed, what must be seen on pods for it to take
// them, what says that it is ready, and where it tells what it does. Layers know
// no client and the target no meshes; this is what passes between them.
type Mesh struct {
	Name      string // of the layer
	Mode      string // in words, e.g. "sidecar"
	Namespace string // of its control plane
	// Charts are what Helm installs before the first trial, in order, and removes
	// after the last, last first. None: the mesh is used as found.
	Charts []Chart
	// Switch is on the run's own namespace while the mesh takes its pods. Join is
	// on the pods themselves, Avoid on those of trials without the mesh.
	Switch, Join, Avoid Marks
	// Service is on Services that clients use through the mesh.
	Service Marks
	// PodSecurity is the strictest level at which a namespace lets the mesh into
	// its pods: "restricted" or "privileged".
	PodSecurity string
	// Token says that pods must have their service account's token.
	Token bool
	// AppProtocols are values of a Service port's appProtocol by protocol of a
	// load: what the mesh is told instead of guessing.
	AppProtocols map[string]string
	// Workloads must be available: by the mesh's own probes, which are theirs.
	Workloads []Workload
	// Container is the proxy in every pod of the mesh; empty: it has none there.
	Container string
	// Annotation is what a pod of the mesh must have got, e.g. by a node's agent.
	Annotation [2]string
	// Counters are where the proxy of a pod says what it did.
	Counters *Counters
	// Dumps are addresses in a pod, by the name of the file that keeps what they say.
	Dumps map[string]string
	// Configs are the ConfigMaps in Namespace that hold its live configuration.
	Configs []string
}

// Marks are labels and annotations of an object.
type Marks struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Chart is a release of a Helm chart.
type Chart struct {
	Release   string         `json:"release"`
	Name      string         `json:"name"`
	Source    string         `json:"source"` // repository (https://...), registry (oci://...), or a local path of the chart
	Version   string         `json:"version,omitempty"`
	Namespace string         `json:"namespace"`
	Values    map[string]any `json:"values,omitempty"`
	// Make makes values at installation that must be new each time, as keys.
	Make func() (map[string]any, error) `json:"-"`
}

// Workload is a Deployment or a DaemonSet.
type Workload struct {
	Kind, Name string
	Optional   bool // as where it may be left out
}

// Counters are those of a proxy, in Prometheus's text format.
type Counters struct {
	URL string // in the pod
	// Metrics count requests or connections. Those count that have the labels
	// Client in pods that send load, and Server in those that answer, but none of
	// the labels Except. A value that ends with * is the beginning of one.
	Metrics                []string
	Client, Server, Except map[string]string
	// Secure is a label, and its value of what came by mutual TLS.
	Secure [2]string
	// Handshakes and Anonymous are metrics that tell it where no label does: TLS
	// handshakes with the labels Server, and those without a client's certificate.
	Handshakes, Anonymous string
	// Peer is the label with the client's identity.
	Peer string
	// Else are the counters, at the same address, of proxies that have none of
	// Metrics.
	Else *Counters
}

// Meshed is a layer that is a Mesh.
type Meshed interface {
	Mesh() Mesh
}

// Meshes are those of a stack.
func Meshes(stack []Layer) []Mesh {
	var all []Mesh
	for _, l := range stack {
		if m, ok := l.(Meshed); ok {
			all = append(all, m.Mesh())
		}
	}
	return all
}

// Surroundings are what a site is made for, beyond its topology.
type Surroundings struct {
	Meshes   []Mesh // that take its pods
	Protocol string // of the load
}

// AppProtocol is what a Service's port is said to carry; empty: nothing is said.
func (s Surroundings) AppProtocol() string {
	for _, m := range slices.Backward(s.Meshes) {
		if p := m.AppProtocols[s.Protocol]; p != "" {
			return p
		}
	}
	return ""
}

// MeshTarget is a target whose sites can be in meshes. Pods join as they are
// made, so it must know of them before.
type MeshTarget interface {
	Target
	ProvisionIn(ctx context.Context, t Topology, around Surroundings) (Site, error)
}

// MeshSite is a site of real clusters, whose pods can be in meshes.
type MeshSite interface {
	// Joined says what shows that the mesh is ready and has taken the pods, or
	// why not.
	Joined(ctx context.Context, m Mesh) (Ledger, error)
	// Counted is what the pods' proxies say that they did.
	Counted(ctx context.Context, m Mesh) (Ledger, error)
	// Dump is the mesh's live configuration, by file name, and what could not be
	// read. It holds no secrets.
	Dump(ctx context.Context, m Mesh) (map[string][]byte, error)
}

// Manifest is an object of Kubernetes as data.
type Manifest map[string]any

// Object makes a manifest; the target adds its metadata's namespace and owner.
func Object(apiVersion, kind, name string, rest Manifest) Manifest {
	m := Manifest{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}}
	maps.Copy(m, rest)
	return m
}

// Marked adds labels and annotations to a manifest made by Object.
func (m Manifest) Marked(marks Marks) Manifest {
	metadata, ok := m["metadata"].(map[string]any)
	if !ok {
		return m
	}
	for key, values := range map[string]map[string]string{"labels": marks.Labels, "annotations": marks.Annotations} {
		if len(values) == 0 {
			continue
		}
		all := map[string]any{}
		for k, v := range values {
			all[k] = v
		}
		metadata[key] = all
	}
	return m
}

// JSON is the manifest as text, with its keys in order.
func (m Manifest) JSON() ([]byte, error) { return json.MarshalIndent(m, "", "  ") }

// Scope is what manifests for one cluster must name.
type Scope struct {
	Cluster   string // of the topology
	Namespace string // the same in all clusters of a run, unless contexts share a cluster
	// Clients says that pods there send load.
	Clients bool
	// Pods are the addresses of the service's pods there; Selector finds them.
	Pods     []netip.Addr
	Selector map[string]string
	// Object is the name of the service's objects, in all clusters.
	Object string
	// AppProtocol is what the service's port is said to carry.
	AppProtocol string
}

// ManifestSite is a site of real clusters that takes objects as data. What is
// applied belongs to the run, and goes with the site at the latest.
type ManifestSite interface {
	// Scopes are those of a service, in the order of the topology's clusters. An
	// error says that clusters of the topology are none of their own.
	Scopes(service string) ([]Scope, error)
	// Apply makes an object, or makes it so; undo removes it.
	Apply(ctx context.Context, cluster string, m Manifest) (undo func(context.Context) error, err error)
	// Read waits until an object is there and good says so, and returns it.
	Read(ctx context.Context, cluster string, m Manifest, good func(Manifest) bool) (Manifest, error)
	// Address says at which address clients reach a service from now on, and by
	// which name, if that is another than before.
	Address(service, host string, addr netip.Addr)
}
