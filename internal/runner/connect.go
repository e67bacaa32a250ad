package runner

import (
	"context"
	"net/netip"
	"slices"

	"github.com/windtunnel/windtunnel/internal/model"
)

// entry keeps the servers of the service that is under load; the others are
// behind them.
func entry(e *model.Endpoints, t model.Topology, service string) {
	i := slices.IndexFunc(t.Services, func(s model.Service) bool { return s.Name == service })
	if i < 0 {
		return
	}
	e.Service = service
	e.Backends = slices.DeleteFunc(e.Backends, func(b model.Backend) bool { return !slices.Contains(t.Services[i].Pods, b.Pod) })
}

// front are the addresses that the topmost layer which has any for a service
// gives it in place of its pods' own; none: no layer does.
func (t *trial) front(svc model.Service) []netip.AddrPort {
	for _, l := range slices.Backward(t.layers) {
		if f, ok := l.(model.Fronter); ok {
			if at := f.Front(svc); len(at) > 0 {
				return at
			}
		}
	}
	return nil
}

// connect tells an app of several services where they reach each other.
func (t *trial) connect(ctx context.Context) error {
	app, ok := t.App.(model.Connector)
	if !ok {
		return nil
	}
	at := map[string][]netip.AddrPort{}
	for _, blueprint := range t.Plan.Study.Topology.Services {
		svc, err := t.site.Service(blueprint.Name)
		if err != nil {
			return err
		}
		if at[blueprint.Name] = t.front(svc); len(at[blueprint.Name]) > 0 {
			continue
		}
		for _, name := range blueprint.Pods {
			pod, err := t.site.Pod(name)
			if err != nil {
				return err
			}
			at[blueprint.Name] = append(at[blueprint.Name], netip.AddrPortFrom(pod.Addr(), svc.TargetPort))
		}
	}
	return app.Connect(ctx, t.site, func(service string) []netip.AddrPort { return at[service] })
}
