package envoy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/oci"
	"github.com/windtunnel/windtunnel/internal/parallel"
	"github.com/windtunnel/windtunnel/internal/proxy"
	"github.com/windtunnel/windtunnel/internal/sys/nft"
)

// ambient is the layer in ambient mode: no proxy in any pod, but one Envoy on
// each node, which works for all pods there at L4, and Envoys for L7 that are
// asked only where there are waypoints. As Istio's ambient mode does, a node's
// proxy opens its sockets in the pods' own network namespaces: connections come
// from the pods' addresses, and in plaintext they never leave the pod.
type ambient struct {
	config Config
	find   func(explicit string) (string, error)
	// program is what all proxies run.
	program oci.Program

	live   live // for rules
	mesh   *mesh
	onWire bool // whatever the client sends to a service leaves its node
	nodes  []*nodeProxy
	ways   []*waypoint
}

var (
	_ model.Layer    = (*ambient)(nil)
	_ model.Fronter  = (*ambient)(nil)
	_ model.Observer = (*ambient)(nil)
)

// nodeProxy is the Envoy of a node, with the pods that it works for.
type nodeProxy struct {
	proxy.Envoy

	pods []member
}

// member is a pod of the mesh.
type member struct {
	name    string
	role    string
	addr    netip.Addr
	where   model.NamespaceFile
	cluster *proxy.Cluster
}

// The ports, as Istio has them. Those of admin interfaces are on the nodes'
// loopback, beside a gateway's.
const (
	portHBONE         = 15008
	portPlain         = 15006
	portNodeAdmin     = 15030
	portWaypointAdmin = 15040
)

// tableAmbient is the redirection in a pod.
const tableAmbient = "windtunnel-ambient"

// Check says whether there is an Envoy to run.
func (l *ambient) Check(ctx context.Context) error {
	_, err := l.config.Program(ctx, l.find)
	return err
}

// Front is the service's virtual address: the nodes' proxies know it.
func (l *ambient) Front(svc model.Service) []netip.AddrPort {
	return []netip.AddrPort{netip.AddrPortFrom(svc.VIP, svc.Port)}
}

// Deploy starts all proxies at once, waits until each is live, and only then
// redirects the pods' traffic to them.
func (l *ambient) Deploy(ctx context.Context, s model.Site) (func(context.Context) error, error) {
	found, err := l.config.Program(ctx, l.find)
	if err != nil {
		return nil, err
	}
	l.program = found
	if err = l.plan(s); err != nil {
		return nil, err
	}
	l.onWire = proxy.Apart(s.Topology())
	if err = l.start(ctx, found.Path); err != nil {
		return nil, errors.Join(err, l.remove(context.WithoutCancel(ctx)))
	}
	for _, m := range l.members() {
		if err = m.where.InNetwork(func() error { return nft.Apply(redirectToNode()) }); err != nil {
			return nil, errors.Join(fmt.Errorf("redirecting %s: %w", m.name, err), l.remove(context.WithoutCancel(ctx)))
		}
	}
	return l.remove, nil
}

// plan finds the pods, and where proxies go.
func (l *ambient) plan(s model.Site) (err error) {
	if l.mesh, err = newMesh(s, l.config); err != nil {
		return err
	}
	if l.mesh.places.Networks() {
		return &model.UnsupportedError{
			What: "the layer envoy in ambient mode", Missing: "the clusters have different networks, and HBONE through gateways is not made here",
			Hint: "give all clusters the same network, or use mode: sidecar with the layer gateway",
		}
	}
	nodes, ok := s.(model.NodeSite)
	if !ok {
		return noNodes()
	}
	for _, n := range s.Topology().Nodes() {
		if len(n.Pods) == 0 {
			continue
		}
		if err = l.planNode(s, nodes, n); err != nil {
			return err
		}
	}
	if l.config.Waypoint {
		l.ways, err = l.planWaypoints(s)
	}
	return err
}

// planNode finds a node's pods.
func (l *ambient) planNode(s model.Site, nodes model.NodeSite, n model.Node) error {
	node, err := nodes.Node(n.Name)
	if err != nil {
		return err
	}
	where, ok := node.(proxy.Place)
	if !ok {
		return noNodes()
	}
	np := &nodeProxy{Envoy: proxy.Envoy{Where: where, Admin: portNodeAdmin}}
	for _, p := range n.Pods {
		pod, err := s.Pod(p.Name)
		if err != nil {
			return err
		}
		file, ok := pod.(model.NamespaceFile)
		if !ok {
			return noNodes()
		}
		np.pods = append(np.pods, member{p.Name, p.Role, pod.Addr(), file, l.mesh.places.Of(p.Name)})
	}
	l.nodes = append(l.nodes, np)
	return nil
}

func noNodes() error {
	return &model.UnsupportedError{
		What: "the layer envoy in ambient mode", Missing: "this target's nodes have no room for a proxy that enters the pods' networks", Hint: "use the lab",
	}
}

// start starts all proxies.
func (l *ambient) start(ctx context.Context, program string) error {
	spec := func(name string, component model.Component, files map[string][]byte) proxy.Spec {
		return proxy.Spec{Name: name, Component: component, Program: program, Concurrency: l.config.Concurrency, Limits: l.config.Limits(), Files: files}
	}
	return errors.Join(
		parallel.Each(l.ways, func(w *waypoint) error {
			files, err := l.waypointFiles(w)
			if err != nil {
				return err
			}
			return l.run(ctx, &w.Envoy, spec("waypoint", model.ComponentGateway, files))
		}),
		parallel.Each(l.nodes, func(n *nodeProxy) error {
			files, err := l.nodeFiles(n)
			if err != nil {
				return err
			}
			return l.run(ctx, &n.Envoy, spec("node-proxy", model.ComponentNetwork, files))
		}),
	)
}

// members are the pods of all nodes.
func (l *ambient) members() []member {
	var all []member
	for _, n := range l.nodes {
		all = append(all, n.pods...)
	}
	return all
}

// redirectToNode sends all TCP of a pod through the sockets that the node's
// proxy has in the pod: what leaves, what comes as HBONE, and all else that comes.
func redirectToNode() nft.Table {
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	return nft.Table{Name: tableAmbient, Chains: []nft.Chain{
		{Name: "outbound", Hook: nft.HookOutput, Rules: []nft.Rule{
			{If: nft.Match{Mark: mark}, Do: nft.Accept(), Comment: "the node proxy's own"},
			{If: nft.Match{Destination: loopback}, Do: nft.Accept(), Comment: "loopback"},
			{If: nft.Match{TCP: true}, Count: true, Do: nft.Redirect(portOutbound), Comment: "to the node's proxy"},
		}},
		{Name: "inbound", Hook: nft.HookPrerouting, Rules: []nft.Rule{
			{If: nft.Match{In: "lo"}, Do: nft.Accept(), Comment: "loopback"},
			{If: nft.Match{TCP: true, DestinationPort: portHBONE}, Count: true, Do: nft.Accept(), Comment: "HBONE"},
			{If: nft.Match{TCP: true}, Count: true, Do: nft.Redirect(portPlain), Comment: "plaintext"},
		}},
	}}
}

// remove ends the proxies, waits for what their connections leave behind in the
// pods, and takes the redirections away last, for the reason that sidecars have.
func (l *ambient) remove(ctx context.Context) error {
	return errors.Join(
		parallel.Each(l.nodes, func(n *nodeProxy) error { return n.Stop(ctx) }),
		parallel.Each(l.ways, func(w *waypoint) error { return w.Stop(ctx) }),
		parallel.Each(l.members(), func(m member) error {
			return errors.Join(proxy.AwaitEnds(ctx, m.where), m.where.InNetwork(func() error { return nft.Delete(tableAmbient) }))
		}),
	)
}

// nodeFiles are a node proxy's configuration, and credentials for each role of
// its pods: a proxy of a node speaks for each of them in turn.
func (l *ambient) nodeFiles(n *nodeProxy) (map[string][]byte, error) {
	config, err := l.nodeBootstrap(n)
	if err != nil {
		return nil, err
	}
	var roles []string
	for _, m := range n.pods {
		if !slices.Contains(roles, m.role) {
			roles = append(roles, m.role)
		}
	}
	return l.credentials(map[string][]byte{"envoy.json": config}, roles...)
}

// credentials adds to files a certificate and a key for each role.
func (l *ambient) credentials(files map[string][]byte, roles ...string) (map[string][]byte, error) {
	files["ca.pem"] = l.mesh.ca.PEM()
	for _, role := range roles {
		cert, key, err := l.mesh.leaf(role)
		if err != nil {
			return nil, err
		}
		files["cert-"+role+".pem"], files["key-"+role+".pem"] = cert, key
	}
	return files, nil
}
