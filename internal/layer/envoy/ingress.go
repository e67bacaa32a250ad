package envoy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/proxy"
)

// With an ingress, clients are outside the mesh: their pods have no sidecar. An
// Envoy at the edge takes their requests in plaintext, at L7, and sends them on as
// a member of the mesh, as Istio's ingress gateway does.

// The ingress's ports: of the first service that it lets in, and of its admin
// interface, on the node's loopback.
const (
	portIngress      = 15100
	portIngressAdmin = 15060
)

// ingressLayer is also the address of the services that it lets in.
type ingressLayer struct{ *Layer }

var (
	_ model.Layer    = ingressLayer{}
	_ model.Fronter  = ingressLayer{}
	_ model.Observer = ingressLayer{}
)

// Front is the ingress's address for a service; none for one that it does not
// let in.
func (l ingressLayer) Front(svc model.Service) []netip.AddrPort {
	i := slices.Index(l.config.Ingress, svc.Name)
	if i < 0 || l.edge == nil {
		return nil
	}
	return []netip.AddrPort{netip.AddrPortFrom(l.edge.addr, ingressPort(i))}
}

func ingressPort(i int) uint16 { return portIngress + uint16(i) } //nolint:gosec // checkIngress bounds it

// edge is the ingress: on the node of the first server that it lets in.
type edge struct {
	sidecar

	addr netip.Addr
}

// planEdge finds where the ingress goes.
func (l *Layer) planEdge(s model.Site) error {
	if len(l.config.Ingress) == 0 {
		return nil
	}
	if l.mesh.several() {
		return proxy.Bad("ingress", "needs a topology of one cluster; for several there is the layer anycast")
	}
	svc, err := l.mesh.service(l.config.Ingress[0])
	if err != nil {
		return err
	}
	nodes, ok := s.(model.NodeSite)
	wired, known := s.(model.WiredSite)
	if !ok || !known || len(svc.Pods) == 0 {
		return noEdge()
	}
	name, err := s.Topology().NodeOf(svc.Pods[0])
	if err != nil {
		return err
	}
	node, err := nodes.Node(name)
	if err != nil {
		return err
	}
	where, ok := node.(proxy.Place)
	if !ok {
		return noEdge()
	}
	for _, w := range wired.Wiring() {
		if w.Node == name {
			l.edge = &edge{sidecar{Envoy: proxy.Envoy{Where: where, Admin: portIngressAdmin}, role: roleDoor}, w.Addr}
		}
	}
	return nil
}

func noEdge() error {
	return &model.UnsupportedError{What: "the layer envoy with an ingress", Missing: "this target's nodes have no room for it", Hint: "use the lab"}
}

// openEdge starts the ingress, where there is to be one.
func (l *Layer) openEdge(ctx context.Context, program string) error {
	if l.edge == nil {
		return nil
	}
	files, err := l.edgeFiles()
	if err != nil {
		return err
	}
	err = l.edge.Start(ctx, proxy.Spec{
		Name: roleDoor, Component: model.ComponentGateway, Program: program, Concurrency: l.config.Concurrency, Limits: l.config.Limits(), Files: files,
	})
	if err != nil {
		return fmt.Errorf("starting the ingress: %w", err)
	}
	return nil
}

func (l *Layer) closeEdge(ctx context.Context) error {
	if l.edge == nil {
		return nil
	}
	return l.edge.Stop(ctx)
}

// edgeFiles are the ingress's configuration and credentials.
func (l *Layer) edgeFiles() (map[string][]byte, error) {
	var listeners, clusters list
	for i, name := range l.config.Ingress {
		s, err := l.mesh.service(name)
		if err != nil {
			return nil, err
		}
		// It reaches a service as the sidecars of its cluster do.
		cluster, err := l.mesh.outboundCluster(s, l.mesh.sidecars[0])
		if err != nil {
			return nil, err
		}
		clusters = append(clusters, cluster)
		listeners = append(listeners, object{
			"name": "ingress_" + name, "address": proxy.Address(l.edge.addr.String(), ingressPort(i)), "traffic_direction": "OUTBOUND",
			"filter_chains": list{object{"filters": list{l.mesh.outboundFilter(s, roleDoor)}}},
		})
	}
	config, err := proxy.Encode(object{
		"node":             object{"id": roleDoor, "cluster": "windtunnel"},
		"admin":            object{"address": proxy.Address("127.0.0.1", portIngressAdmin)},
		"static_resources": object{"listeners": listeners, "clusters": clusters},
	})
	if err != nil {
		return nil, err
	}
	cert, key, err := l.mesh.leaf(roleDoor)
	return map[string][]byte{"envoy.json": config, "cert.pem": cert, "key.pem": key, "ca.pem": l.mesh.ca.PEM()}, err
}

// proxies are all sidecars, and the ingress.
func (l *Layer) proxies() []*sidecar {
	if l.edge == nil {
		return l.mesh.sidecars
	}
	return append(slices.Clone(l.mesh.sidecars), &l.edge.sidecar)
}

// name is the pod's, or the ingress's.
func (sc *sidecar) name() string {
	if sc.pod == nil {
		return sc.role
	}
	return sc.pod.Name()
}

// entryRole is who opens the connections that come to servers: the clients, or
// the ingress for them.
func (c Config) entryRole() string {
	if len(c.Ingress) > 0 {
		return roleDoor
	}
	return model.RoleClient
}

// checkIngress finds what an ingress does not go with.
func (c Config) checkIngress() error {
	const most = 100
	var errs []error
	switch {
	case len(c.Ingress) == 0:
		return nil
	case c.Profile != proxy.Istio || c.Mode != Sidecar:
		errs = append(errs, proxy.Bad("ingress", "belongs to the profile istio, in mode: sidecar"))
	case c.Start == AppFirst:
		errs = append(errs, proxy.Bad("ingress", "does not go with start: app-first; clients have no sidecar to wait for"))
	case len(c.Ingress) > most:
		errs = append(errs, proxy.Bad("ingress", "names %d services; it can name %d", len(c.Ingress), most))
	}
	for i, name := range c.Ingress {
		if slices.Contains(c.Ingress[:i], name) {
			errs = append(errs, proxy.Bad("ingress", "names %s twice", name))
		}
		if slices.Contains(c.TCP, name) {
			errs = append(errs, proxy.Bad("ingress", "names %s, which is under tcp; it lets in HTTP only", name))
		}
	}
	return errors.Join(errs...)
}
