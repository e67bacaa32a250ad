// Package haproxy is a data plane of another family than Envoy's: a real HAProxy
// as a sidecar of the pods that send, of those that are sent to, or of both, with
// transparent redirection and, between two sidecars, mutual TLS if wanted. There
// is no control plane: endpoints are written into its configuration.
package haproxy

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
const Name = "haproxy"

// Plugin is the catalog entry. find looks for the HAProxy program.
func Plugin(find func(explicit string) (string, error)) model.Plugin[model.Layer] {
	return model.Plugin[model.Layer]{
		Name:    Name,
		Summary: "a sidecar at one end or at both: real HAProxy, with transparent redirect, optionally mTLS",
		Config:  Config{},
		New: func(raw json.RawMessage) (model.Layer, error) {
			c, err := parse(raw)
			l := &Layer{config: c, find: find}
			if c.Sidecars != AtServers {
				return fronting{l}, err
			}
			return l, err
		},
	}
}

// Layer is one deployment of sidecars.
type Layer struct {
	config   Config
	find     func(explicit string) (string, error)
	program  oci.Program
	flat     proxy.Flat
	services []service
	sidecars []*sidecar
	ca       *proxy.CA // nil without mutual TLS
}

var (
	_ model.Layer    = (*Layer)(nil)
	_ model.Observer = (*Layer)(nil)
	_ model.Fronter  = fronting{}
	_ model.Drainer  = fronting{}
)

// fronting is a layer whose clients have sidecars: those take what is sent to
// services' virtual addresses, and balance it.
type fronting struct{ *Layer }

// Front is the service's virtual address.
func (fronting) Front(svc model.Service) []netip.AddrPort {
	return []netip.AddrPort{netip.AddrPortFrom(svc.VIP, svc.Port)}
}

// service is a service with its endpoints.
type service struct {
	proxy.Service

	http bool
}

// sidecar is the HAProxy of one pod.
type sidecar struct {
	proxy.Beside

	own     []service // those that the pod is an endpoint of, one a target port
	process model.Running
}

// Where a sidecar listens: for what clients send to the i-th service, for what
// comes in for the i-th port of the pod, and for questions, on loopback.
const (
	portOutbound = 15100
	portInbound  = 15300
	portAdmin    = 15020
	most         = 100 // services, or ports of a pod
	table        = "windtunnel-haproxy"
)

// startTimeout is how long a sidecar may take to answer questions.
const startTimeout = 15 * time.Second

// Check says whether there is a HAProxy to run.
func (l *Layer) Check(ctx context.Context) error {
	_, err := l.config.Program(ctx, l.find)
	return err
}

// Deploy starts all sidecars at once, waits until each answers, and only then
// redirects traffic through them.
func (l *Layer) Deploy(ctx context.Context, s model.Site) (func(context.Context) error, error) {
	found, err := l.config.Program(ctx, l.find)
	if err != nil {
		return nil, err
	}
	l.program = found
	if err = l.plan(s); err != nil {
		return nil, err
	}
	if l.config.MTLS == Strict {
		if l.ca, err = proxy.NewCA(caName, caName); err != nil {
			return nil, err
		}
	}
	err = l.each(func(sc *sidecar) error { return l.start(ctx, sc, found.Path) })
	for _, sc := range l.sidecars {
		if err == nil {
			err = sc.Where.InNetwork(func() error { return nft.Apply(l.redirect(sc)) })
		}
	}
	if err == nil && l.ca != nil {
		// Until now, checks have met apps that speak no TLS.
		err = l.each(func(sc *sidecar) error { return l.set(ctx, sc, nil, "health up") })
	}
	if err != nil {
		return nil, errors.Join(err, l.remove(context.WithoutCancel(ctx)))
	}
	return l.remove, nil
}

// plan finds the services, and the pods that get a sidecar.
func (l *Layer) plan(s model.Site) error {
	var err error
	if l.flat, err = proxy.Flatten(s, Name); err != nil {
		return err
	}
	if err = l.config.suits(s.Topology()); err != nil {
		return err
	}
	for _, svc := range l.flat.Services {
		l.services = append(l.services, service{svc, !slices.Contains(l.config.TCP, svc.Name)})
	}
	for _, p := range l.flat.Pods {
		sc := &sidecar{Beside: p, own: l.of(p.Pod.Name())}
		if l.config.outbound() || len(sc.own) > 0 {
			l.sidecars = append(l.sidecars, sc)
		}
	}
	return nil
}

// of are the services of which a pod is an endpoint, one a target port.
func (l *Layer) of(pod string) (own []service) {
	for _, svc := range l.services {
		known := func(o service) bool { return o.TargetPort == svc.TargetPort }
		if slices.Contains(svc.Pods, pod) && !slices.ContainsFunc(own, known) {
			own = append(own, svc)
		}
	}
	return own
}

// each does something with all sidecars at once.
func (l *Layer) each(do func(sc *sidecar) error) error {
	return parallel.Each(l.sidecars, func(sc *sidecar) error {
		if err := do(sc); err != nil {
			return fmt.Errorf("the HAProxy in %s: %w", sc.Pod.Name(), err)
		}
		return nil
	})
}

func (l *Layer) start(ctx context.Context, sc *sidecar, program string) error {
	files := map[string][]byte{configFile: []byte(l.file(sc))}
	if l.ca != nil {
		cert, key, err := l.ca.Leaf(proxy.Issued{Common: identity(sc.Role), DNS: []string{serverName(sc.Role)}})
		if err != nil {
			return err
		}
		files["own.pem"], files["ca.pem"] = append(cert, key...), l.ca.PEM()
	}
	var err error
	sc.process, err = sc.Where.Start(ctx, model.Process{
		Name: Name, Component: model.ComponentSidecar, Files: files, Limits: l.config.Limits(),
		Command: []string{program, "-db", "-f", "{dir}/" + configFile},
	})
	if err != nil {
		return err
	}
	return sc.await(ctx, sc.process)
}

// await waits until the sidecar answers: one that a fault has killed may just
// have been started again, as another process.
func (sc *sidecar) await(ctx context.Context, started model.Running) error {
	return proxy.AwaitReady(ctx, "it", started, startTimeout, func(ctx context.Context) error {
		_, err := sc.ask(ctx, "show info")
		return err
	})
}

// redirect sends what is for services' virtual addresses, and what comes in for
// the pod's ports, to the sidecar.
func (l *Layer) redirect(sc *sidecar) nft.Table {
	t := nft.Table{Name: table}
	if l.config.outbound() {
		t.Chains = append(t.Chains, proxy.Outbound(l.flat.Services, func(i int) uint16 { return port(portOutbound, i) }))
	}
	if l.config.inbound() {
		ports := make([]uint16, 0, len(sc.own))
		for _, svc := range sc.own {
			ports = append(ports, svc.TargetPort)
		}
		t.Chains = append(t.Chains, proxy.Inbound(ports, func(i int) uint16 { return port(portInbound, i) }))
	}
	return t
}

// port is the i-th of a range of at most most.
func port(first, i int) uint16 { return uint16(first + i) } //nolint:gosec // suits has refused more than most

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
		l.each(func(sc *sidecar) error { return proxy.AwaitEnds(ctx, sc.Where) }),
		l.each(func(sc *sidecar) error { return sc.Where.InNetwork(func() error { return nft.Delete(table) }) }),
	)
}
