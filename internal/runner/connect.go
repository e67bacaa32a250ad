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

// fronter is the topmost layer that gives services other addresses than their
// pods' own; nil: none does.
func (t *trial) fronter() model.Fronter {
	for _, l := range slices.Backward(t.layers) {
		if f, ok := l.(model.Fronter); ok {
			return f
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
		if f := t.fronter(); f != nil {
			at[blueprint.Name] = f.Front(svc)
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
