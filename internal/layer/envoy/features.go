package envoy

import (
	"context"
	"errors"
	"fmt"

	"github.com/windtunnel/windtunnel/internal/model"
)

var (
	_ model.Router  = (*Layer)(nil)
	_ model.Rotator = (*Layer)(nil)
	_ model.Meter   = (*Layer)(nil)
)

// Routable makes the next Deploy take listeners, clusters and certificates from
// files that can be replaced.
func (l *Layer) Routable() { l.live.on = true }

// steered are all sidecars.
func (l *Layer) steered() (all []steered) {
	for _, sc := range l.mesh.sidecars {
		all = append(all, steered{&sc.Envoy, func() ([]byte, error) { return l.mesh.bootstrap(sc) }, map[string]string{"cert": sc.role}})
	}
	return all
}

// Apply gives all sidecars the rules, and starts an ingress if there is to be one.
func (l *Layer) Apply(ctx context.Context, s model.Site, r model.Rules) (func(context.Context) error, error) {
	if err := l.takes(r); err != nil {
		return nil, err
	}
	undo := func(ctx context.Context) error {
		l.live.rules = model.Rules{}
		return errors.Join(l.closeDoor(ctx), l.live.push(ctx, l.mesh, l.steered(), fileListeners, fileClusters))
	}
	l.live.rules = r
	err := l.live.push(ctx, l.mesh, l.steered(), fileClusters, fileListeners) // clusters before what sends to them
	if err == nil && r.Ingress != nil {
		err = l.openDoor(ctx, s, *r.Ingress)
	}
	if err != nil {
		return nil, errors.Join(err, undo(context.WithoutCancel(ctx)))
	}
	return undo, nil
}

// rulesRefused says which rules proxies cannot follow.
func rulesRefused(missing string) error {
	return &model.UnsupportedError{What: "following rules", Missing: missing}
}

// takes says whether the sidecars can follow such rules.
func (l *Layer) takes(r model.Rules) error {
	if !l.live.on || l.mesh == nil {
		return rulesRefused("the sidecars' configuration is static")
	}
	s, err := l.mesh.service(r.Service)
	if err != nil {
		return err
	}
	if len(l.config.Ingress) > 0 {
		return rulesRefused("clients have no sidecars to follow them, and the ingress takes none")
	}
	if (l7(r) || len(r.Allow)+len(r.Deny) > 0) && !s.http {
		return rulesRefused("the sidecars proxy " + s.Name + " at L4, and do not see its requests")
	}
	return nil
}

// l7 says whether rules are about requests, not connections.
func l7(r model.Rules) bool {
	return len(r.Routes) > 0 || r.Ingress != nil || r.Log || r.Spans.IsValid()
}

func (m *mesh) service(name string) (service, error) {
	for _, s := range m.services {
		if s.Name == name {
			return s, nil
		}
	}
	return service{}, fmt.Errorf("the mesh has no service %q", name)
}

// Rotate gives every sidecar a new key and certificate, of the same identity.
func (l *Layer) Rotate(ctx context.Context, _ model.Site) error {
	if !l.live.on || l.mesh == nil || l.config.MTLS == Disabled {
		return &model.UnsupportedError{What: "rotating certificates", Missing: "the sidecars have none that can be replaced"}
	}
	return l.live.rotate(ctx, l.mesh, l.steered())
}

// Requests are those that clients' sidecars have counted.
func (l *Layer) Requests(ctx context.Context, _ model.Site, service string) (map[int]uint64, error) {
	return countRequests(ctx, l.steered(), service)
}
