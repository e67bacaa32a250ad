// Package envoy is a service mesh's data plane: a real Envoy as a sidecar in
// every pod of the client and of the services, with transparent redirection
// and mutual TLS, configured as Istio or Kuma configures its sidecars. It is
// Envoy, not Istio nor Kuma: there is no control plane.
package envoy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/oci"
	"github.com/windtunnel/windtunnel/internal/parallel"
	"github.com/windtunnel/windtunnel/internal/proxy"
	"github.com/windtunnel/windtunnel/internal/sys/nft"
)

// Name is the layer's name in studies.
const Name = "envoy"

// Plugin is the catalog entry. find looks for the Envoy program.
func Plugin(find func(explicit string) (string, error)) model.Plugin[model.Layer] {
	return model.Plugin[model.Layer]{
		Name:    Name,
		Summary: "a sidecar at each end: real Envoy, configured as Istio or Kuma does, with transparent redirect and mTLS",
		Config:  Config{},
		New: func(raw json.RawMessage) (model.Layer, error) {
			c, err := parse(raw)
			if c.Mode == Ambient {
				return &ambient{config: c, find: find}, err
			}
			l := &Layer{config: c, find: find}
			if c.Profile == proxy.Kuma {
				return kumaLayer{l}, err
			}
			if len(c.Ingress) > 0 {
				return ingressLayer{l}, err
			}
			return l, err
		},
	}
}

// Layer is one deployment of sidecars.
type Layer struct {
	config Config
	find   func(explicit string) (string, error)
	// program is what sidecars run.
	program oci.Program
	mesh    *mesh
	live    live         // for rules
	traced  bool         // the sidecars log traced requests
	onWire  bool         // whatever the client sends to a service leaves its node
	edge    *edge        // nil unless there is an ingress
	window  *startWindow // nil unless apps are first
}

var (
	_ model.Layer    = (*Layer)(nil)
	_ model.Observer = (*Layer)(nil)
)

// sidecar is an Envoy in one pod.
type sidecar struct {
	proxy.Envoy

	pod  model.Pod
	role string
}

// The sidecar's ports and mark, as Istio has them.
const (
	portAdmin    = 15000
	portOutbound = 15001
	portInbound  = 15006
	mark         = 1337 // on Envoy's own packets, so that they are not redirected again
	table        = "windtunnel-sidecar"
)

// Check says whether there is an Envoy to run.
func (l *Layer) Check(ctx context.Context) error {
	_, err := l.config.Program(ctx, l.find)
	return err
}

// Deploy starts all sidecars at once, waits until each is live, and only then
// redirects traffic through them; where apps are first, it redirects first.
func (l *Layer) Deploy(ctx context.Context, s model.Site) (func(context.Context) error, error) {
	found, err := l.config.Program(ctx, l.find)
	if err != nil {
		return nil, err
	}
	l.program = found
	if l.mesh, err = newMesh(s, l.config); err != nil {
		return nil, err
	}
	l.mesh.traced = l.traced
	if err := errors.Join(l.mesh.seeGateways(ctx), l.planEdge(s)); err != nil {
		return nil, err
	}
	l.onWire = proxy.Apart(s.Topology())
	if err := l.bringUp(ctx, found.Path); err != nil {
		return nil, errors.Join(err, l.remove(context.WithoutCancel(ctx)))
	}
	return l.remove, nil
}

func (l *Layer) bringUp(ctx context.Context, program string) error {
	start := func() error { return l.each(func(sc *sidecar) error { return l.start(ctx, sc, program) }) }
	if l.config.Start != AppFirst {
		if err := errors.Join(start(), l.openEdge(ctx, program)); err != nil {
			return err
		}
		return l.redirect()
	}
	if err := l.redirect(); err != nil {
		return err
	}
	window, end := l.mesh.watchStart(ctx)
	defer end()
	l.window = window
	return start()
}

func (l *Layer) redirect() error {
	for _, sc := range l.mesh.sidecars {
		if err := sc.Where.InNetwork(func() error { return nft.Apply(redirect()) }); err != nil {
			return fmt.Errorf("redirecting %s: %w", sc.pod.Name(), err)
		}
	}
	return nil
}

// each does something with all sidecars at once.
func (l *Layer) each(do func(sc *sidecar) error) error { return parallel.Each(l.mesh.sidecars, do) }

func (l *Layer) start(ctx context.Context, sc *sidecar, program string) error {
	files, err := l.mesh.files(sc)
	if err != nil {
		return err
	}
	spec, err := l.live.changeable(proxy.Spec{
		Name: Name, Component: model.ComponentSidecar, Program: program, Concurrency: l.config.Concurrency, Limits: l.config.Limits(), Files: files,
		Args: l.flags(),
	})
	if err != nil {
		return err
	}
	return sc.Start(ctx, spec)
}

// redirect sends all TCP of a pod through its sidecar, except Envoy's own and
// what stays on loopback.
func redirect() nft.Table {
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	return nft.Table{Name: table, Chains: []nft.Chain{
		{Name: "outbound", Hook: nft.HookOutput, Rules: []nft.Rule{
			{If: nft.Match{Mark: mark}, Do: nft.Accept(), Comment: "Envoy's own"},
			{If: nft.Match{Destination: loopback}, Do: nft.Accept(), Comment: "loopback"},
			{If: nft.Match{TCP: true}, Count: true, Do: nft.Redirect(portOutbound), Comment: "to virtualOutbound"},
		}},
		{Name: "inbound", Hook: nft.HookPrerouting, Rules: []nft.Rule{
			{If: nft.Match{In: "lo"}, Do: nft.Accept(), Comment: "loopback"},
			{If: nft.Match{TCP: true}, Count: true, Do: nft.Redirect(portInbound), Comment: "to virtualInbound"},
		}},
	}}
}

// remove takes the redirections away last: without them the kernel would not know
// any more to whom the end of a redirected connection belongs, and wait for it.
func (l *Layer) remove(ctx context.Context) error {
	return errors.Join(
		l.closeEdge(ctx),
		l.each(func(sc *sidecar) error { return sc.Stop(ctx) }),
		l.each(func(sc *sidecar) error { return sc.Where.InNetwork(func() error { return nft.Delete(table) }) }),
	)
}
