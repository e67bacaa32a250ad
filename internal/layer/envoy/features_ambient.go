package envoy

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/proxy"
)

var (
	_ model.Router  = (*ambient)(nil)
	_ model.Rotator = (*ambient)(nil)
	_ model.Meter   = (*ambient)(nil)
)

// Routable makes the next Deploy take listeners, clusters and certificates from
// files that can be replaced.
func (l *ambient) Routable() { l.live.on = true }

// run starts a proxy, so that it can be changed if need be.
func (l *ambient) run(ctx context.Context, e *proxy.Envoy, s proxy.Spec) error {
	s, err := l.live.changeable(s)
	if err != nil {
		return err
	}
	return e.Start(ctx, s)
}

// steered are the proxies of all nodes, and the waypoints.
func (l *ambient) steered() (all []steered) {
	for _, n := range l.nodes {
		roles := map[string]string{}
		for _, m := range n.pods {
			roles["cert-"+m.role] = m.role
		}
		all = append(all, steered{&n.Envoy, func() ([]byte, error) { return l.nodeBootstrap(n) }, roles})
	}
	for _, w := range l.ways {
		static := func() ([]byte, error) {
			files, err := l.waypointFiles(w)
			return files["envoy.json"], err
		}
		all = append(all, steered{&w.Envoy, static, map[string]string{"cert-" + roleWaypoint: roleWaypoint}})
	}
	return all
}

// Apply gives all proxies the rules: those about connections to the nodes', those
// about requests to waypoints.
func (l *ambient) Apply(ctx context.Context, _ model.Site, r model.Rules) (func(context.Context) error, error) {
	if err := l.takes(r); err != nil {
		return nil, err
	}
	undo := func(ctx context.Context) error {
		l.live.rules = model.Rules{}
		return l.live.push(ctx, l.mesh, l.steered(), fileListeners, fileClusters)
	}
	l.live.rules = r
	if err := l.live.push(ctx, l.mesh, l.steered(), fileClusters, fileListeners); err != nil {
		return nil, errors.Join(err, undo(context.WithoutCancel(ctx)))
	}
	return undo, nil
}

// takes says whether the proxies can follow such rules.
func (l *ambient) takes(r model.Rules) error {
	if !l.live.on || l.mesh == nil {
		return rulesRefused("the proxies' configuration is static")
	}
	s, err := l.mesh.service(r.Service)
	switch {
	case err != nil:
		return err
	case r.Ingress != nil:
		return rulesRefused("there is no ingress into ambient mode")
	case l7(r) && (len(l.ways) == 0 || !s.http):
		return rulesRefused("the nodes' proxies work at L4; only waypoints see requests")
	}
	return nil
}

// Rotate gives every proxy new keys and certificates, of the same identities.
func (l *ambient) Rotate(ctx context.Context, _ model.Site) error {
	if !l.live.on || l.mesh == nil {
		return &model.UnsupportedError{What: "rotating certificates", Missing: "the proxies have none that can be replaced"}
	}
	return l.live.rotate(ctx, l.mesh, l.steered())
}

// Requests are those that waypoints have counted, and the connections that nodes'
// proxies have.
func (l *ambient) Requests(ctx context.Context, _ model.Site, service string) (map[int]uint64, error) {
	return countRequests(ctx, l.steered(), service)
}

// guards says whether a manager of HTTP is where it is decided who may ask a
// service: a sidecar's inbound; in ambient mode where HBONE ends, which is at the
// service's pods, or at the waypoint if there is one.
func (m *mesh) guards(r model.Rules, listener, stat string) bool {
	pod, atPod := strings.CutPrefix(listener, "hbone|")
	switch {
	case listener == "connect_terminate":
		return true
	case atPod:
		return !m.config.Waypoint && slices.ContainsFunc(m.services, func(s service) bool { return s.Name == r.Service && s.has(pod) })
	}
	return stat == "inbound_"+r.Service
}
