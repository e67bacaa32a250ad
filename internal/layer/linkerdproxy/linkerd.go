// Package linkerdproxy is Linkerd's data plane: the real linkerd2-proxy as a sidecar
// in every pod, with transparent redirection and mutual TLS. What Linkerd's
// control plane tells proxies, this package tells them itself: who they are,
// where services' endpoints are, and who may come in. It is Linkerd's proxy,
// not Linkerd.
package linkerdproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/oci"
	"github.com/windtunnel/windtunnel/internal/parallel"
	"github.com/windtunnel/windtunnel/internal/proxy"
	"github.com/windtunnel/windtunnel/internal/sys/nft"
)

// Name is the layer's name in studies.
const Name = "linkerd-proxy"

// Plugin is the catalog entry. cache is where programs of images are kept.
func Plugin(cache func() (oci.Cache, error)) model.Plugin[model.Layer] {
	return model.Plugin[model.Layer]{
		Name:    Name,
		Summary: "a sidecar at each end: real linkerd2-proxy, with transparent redirect and mTLS",
		Config:  Config{},
		New: func(raw json.RawMessage) (model.Layer, error) {
			c, err := parse(raw)
			return &Layer{config: c, cache: cache}, err
		},
	}
}

// Layer is one deployment of sidecars.
type Layer struct {
	config   Config
	cache    func() (oci.Cache, error)
	program  oci.Program
	flat     proxy.Flat
	services []service
	sidecars []*sidecar
	ca       *proxy.CA
}

var (
	_ model.Layer    = (*Layer)(nil)
	_ model.Fronter  = (*Layer)(nil)
	_ model.Observer = (*Layer)(nil)
)

// service is a service with its endpoints.
type service struct {
	proxy.Service

	opaque bool // not HTTP
}

// sidecar is the proxy of one pod, and what tells it what to do.
type sidecar struct {
	proxy.Beside

	ports   []uint16 // that services send to
	control *control
	process model.Running
}

// The sidecar's ports, as Linkerd has them, and that of our control plane, on
// the pod's loopback.
const (
	portOutbound = 4140
	portInbound  = 4143
	portTap      = 4190
	portAdmin    = 4191
	portControl  = 14190
	table        = "windtunnel-linkerd"
)

// startTimeout is how long a sidecar may take to be ready.
const startTimeout = 20 * time.Second

// Front is the service's virtual address: sidecars know it.
func (l *Layer) Front(svc model.Service) []netip.AddrPort {
	return []netip.AddrPort{netip.AddrPortFrom(svc.VIP, svc.Port)}
}

// Check says whether there is a linkerd2-proxy to run.
func (l *Layer) Check(ctx context.Context) error {
	_, err := l.config.ProgramFrom(ctx, l.cache, find)
	return err
}

// Deploy starts all sidecars at once, waits until each is ready, which it is when
// it has a certificate, and only then redirects traffic through them.
func (l *Layer) Deploy(ctx context.Context, s model.Site) (func(context.Context) error, error) {
	found, err := l.config.ProgramFrom(ctx, l.cache, find)
	if err != nil {
		return nil, err
	}
	l.program = found
	if err = l.plan(s); err != nil {
		return nil, err
	}
	if l.ca, err = proxy.NewCA(caName, caName); err != nil {
		return nil, err
	}
	err = l.each(func(sc *sidecar) error { return l.start(ctx, sc) })
	for _, sc := range l.sidecars {
		if err == nil {
			err = sc.Where.InNetwork(func() error { return nft.Apply(l.redirect(sc)) })
		}
	}
	if err != nil {
		return nil, errors.Join(err, l.remove(context.WithoutCancel(ctx)))
	}
	return l.remove, nil
}

// plan finds the services and the pods.
func (l *Layer) plan(s model.Site) error {
	var err error
	if l.flat, err = proxy.Flatten(s, Name); err != nil {
		return err
	}
	if err = l.config.suits(s.Topology()); err != nil {
		return err
	}
	for _, svc := range l.flat.Services {
		l.services = append(l.services, service{svc, slices.Contains(l.config.Opaque, svc.Name)})
	}
	for _, p := range l.flat.Pods {
		sc := &sidecar{Beside: p}
		for _, svc := range l.services {
			if slices.Contains(svc.Pods, p.Pod.Name()) && !slices.Contains(sc.ports, svc.TargetPort) {
				sc.ports = append(sc.ports, svc.TargetPort)
			}
		}
		l.sidecars = append(l.sidecars, sc)
	}
	return nil
}

// each does something with all sidecars at once.
func (l *Layer) each(do func(sc *sidecar) error) error {
	return parallel.Each(l.sidecars, func(sc *sidecar) error {
		if err := do(sc); err != nil {
			return fmt.Errorf("the linkerd2-proxy in %s: %w", sc.Pod.Name(), err)
		}
		return nil
	})
}

func (l *Layer) start(ctx context.Context, sc *sidecar) (err error) {
	sc.control = &control{identity: identity(sc.Role), services: l.services, ca: l.ca, policy: l.config.Policy}
	if err = sc.control.listen(ctx, sc.Where); err != nil {
		return err
	}
	files, err := credentials(identity(sc.Role))
	if err != nil {
		return err
	}
	sc.process, err = sc.Where.Start(ctx, model.Process{
		Name: Name, Component: model.ComponentSidecar, Files: files, Limits: l.config.Limits(),
		Command: []string{l.program.Path}, Env: l.environment(sc),
	})
	if err != nil {
		return err
	}
	return sc.await(ctx, sc.process)
}

// await waits until the sidecar is ready: one that a fault has killed may just
// have been started again, as another process.
func (sc *sidecar) await(ctx context.Context, started model.Running) error {
	return proxy.AwaitReady(ctx, "it", started, startTimeout, func(ctx context.Context) error {
		_, err := sc.ask(ctx, "/ready")
		return err
	})
}

// redirect sends what is for services' virtual addresses, and what comes in for
// the pod's ports, to the sidecar.
func (l *Layer) redirect(sc *sidecar) nft.Table {
	always := func(port uint16) func(int) uint16 { return func(int) uint16 { return port } }
	return nft.Table{Name: table, Chains: []nft.Chain{proxy.Outbound(l.flat.Services, always(portOutbound)), proxy.Inbound(sc.ports, always(portInbound))}}
}

// remove takes the redirections away last: without them the kernel would not know
// any more to whom the end of a redirected connection belongs, and wait for it.
func (l *Layer) remove(ctx context.Context) error {
	return errors.Join(
		l.each(func(sc *sidecar) error {
			if sc.process == nil {
				return nil
			}
			return sc.process.Stop(ctx)
		}),
		l.each(func(sc *sidecar) error { return sc.control.close() }),
		l.each(func(sc *sidecar) error { return proxy.AwaitEnds(ctx, sc.Where) }),
		l.each(func(sc *sidecar) error { return sc.Where.InNetwork(func() error { return nft.Delete(table) }) }),
	)
}
