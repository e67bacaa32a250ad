// Package anycast is a global load balancer at the edge, as GKE's multi-cluster
// ingress over multi-cluster services makes it: each service has one virtual
// address in all regions, which leads to an edge proxy in the client's own
// region; that proxy checks the health of the endpoints of every cluster and
// sends requests to the nearest that is healthy. The edge is a real Envoy; the
// address is announced by routes of the lab's nodes, which stand for BGP.
package anycast

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/oci"
	"github.com/windtunnel/windtunnel/internal/parallel"
	"github.com/windtunnel/windtunnel/internal/proxy"
)

// Name is the layer's name in studies.
const Name = "anycast"

// Config is the layer's configuration in a study.
type Config struct {
	// Services that have an address; none: all.
	Services []string `json:"services,omitempty"`
	// Health is how endpoints are checked.
	Health Health `json:"health_check,omitzero"`

	proxy.Options
}

// Health is how the edge checks endpoints.
type Health struct {
	Path     string         `json:"path,omitempty" jsonschema:"default=/"`
	Interval proxy.Duration `json:"interval,omitempty" jsonschema:"default=2s"`
	// Timeout of one check.
	Timeout proxy.Duration `json:"timeout,omitempty" jsonschema:"default=1s"`
	// Unhealthy and Healthy are how many checks in a row make an endpoint so.
	Unhealthy int `json:"unhealthy_threshold,omitempty" jsonschema:"minimum=1,maximum=100,default=2"`
	Healthy   int `json:"healthy_threshold,omitempty" jsonschema:"minimum=1,maximum=100,default=2"`
}

// UnmarshalJSON fills in the defaults.
func (h *Health) UnmarshalJSON(raw []byte) error {
	type plain Health // without this method
	p := plain(usualHealth())
	if err := model.ReadConfig(raw, &p); err != nil {
		return err
	}
	*h = Health(p)
	return nil
}

func usualHealth() Health {
	return Health{Path: "/", Interval: "2s", Timeout: "1s", Unhealthy: 2, Healthy: 2}
}

func parse(raw json.RawMessage) (Config, error) {
	c := Config{Health: usualHealth(), Options: proxy.DefaultOptions()}
	if err := model.ReadConfig(raw, &c); err != nil {
		return c, err
	}
	const key, most = "health_check.", 100
	h := c.Health
	errs := []error{c.Problems(), proxy.CheckDurations([]string{key + "interval", key + "timeout"}, []proxy.Duration{h.Interval, h.Timeout})}
	if h.Path == "" || h.Path[0] != '/' {
		errs = append(errs, proxy.Bad(key+"path", "is %q; it must begin with a slash", h.Path))
	}
	for _, threshold := range []struct {
		name string
		n    int
	}{{"unhealthy_threshold", h.Unhealthy}, {"healthy_threshold", h.Healthy}} {
		if threshold.n < 1 || threshold.n > most {
			errs = append(errs, proxy.Bad(key+threshold.name, "is %d; it can be 1 to %d", threshold.n, most))
		}
	}
	return c, errors.Join(errs...)
}

// Plugin is the catalog entry. find looks for the Envoy program.
func Plugin(find func(explicit string) (string, error)) model.Plugin[model.Layer] {
	return model.Plugin[model.Layer]{
		Name:    Name,
		Summary: "one address in all regions, and an edge proxy in each that goes to the nearest healthy cluster, as MCI does",
		Config:  Config{},
		New: func(raw json.RawMessage) (model.Layer, error) {
			c, err := parse(raw)
			return &Layer{config: c, find: find}, err
		},
	}
}

// Layer is one deployment of addresses and edges.
type Layer struct {
	config   Config
	find     func(explicit string) (string, error)
	program  oci.Program
	places   *proxy.Places
	services []service
	edges    []*edge
	undo     []func() error
}

var (
	_ model.Layer    = (*Layer)(nil)
	_ model.Fronter  = (*Layer)(nil)
	_ model.Observer = (*Layer)(nil)
)

// service is a service with its address, which is the same everywhere.
type service struct {
	model.Service

	vip netip.Addr
}

// edge is the Envoy of a region, at its first cluster.
type edge struct {
	proxy.Envoy

	at *proxy.Cluster
}

// portAdmin is on the node's loopback, beside a gateway's.
const portAdmin = 15010

// vip is the address of the i-th service, of a range for documentation, which
// is nobody's.
func vip(i int) netip.Addr { return netip.AddrFrom4([4]byte{203, 0, 113, byte(i + 1)}) } //nolint:gosec // at most maxServices

const maxServices = 254

// Front is the service's address; it is the same for clients of all regions.
func (l *Layer) Front(svc model.Service) []netip.AddrPort {
	for _, s := range l.services {
		if s.Name == svc.Name {
			return []netip.AddrPort{netip.AddrPortFrom(s.vip, svc.Port)}
		}
	}
	return nil
}

// Check says whether there is an Envoy to run.
func (l *Layer) Check(ctx context.Context) error {
	_, err := l.config.Program(ctx, l.find)
	return err
}

// Deploy announces the addresses and starts an edge in every region.
func (l *Layer) Deploy(ctx context.Context, s model.Site) (func(context.Context) error, error) {
	found, err := l.config.Program(ctx, l.find)
	if err != nil {
		return nil, err
	}
	l.program = found
	if err = l.plan(s); err != nil {
		return nil, err
	}
	err = l.announce(s)
	if err == nil {
		err = l.each(func(e *edge) error { return l.start(ctx, e, found.Path) })
	}
	if err != nil {
		return nil, errors.Join(err, l.remove(context.WithoutCancel(ctx)))
	}
	return l.remove, nil
}

func (l *Layer) start(ctx context.Context, e *edge, program string) error {
	config, err := l.bootstrap(e)
	if err != nil {
		return err
	}
	return e.Start(ctx, proxy.Spec{
		Name: Name, Component: model.ComponentGateway, Program: program, Concurrency: l.config.Concurrency, Limits: l.config.Limits(),
		Files: map[string][]byte{"envoy.json": config},
	})
}

// plan finds the services, and where edges go.
func (l *Layer) plan(s model.Site) error {
	var err error
	if l.places, err = proxy.Locate(s); err != nil {
		return err
	}
	if l.places.Networks() {
		return &model.UnsupportedError{
			What: "the layer " + Name, Missing: "the clusters have different networks, and an edge sends to pods' own addresses",
			Hint: "give all clusters the same network, as multi-cluster services need, too",
		}
	}
	var errs []error
	for _, name := range l.config.Services {
		if !slices.ContainsFunc(s.Topology().Services, func(svc model.Service) bool { return svc.Name == name }) {
			errs = append(errs, proxy.Bad("services", "names the service %q, which the topology does not have", name))
		}
	}
	for _, blueprint := range s.Topology().Services {
		if len(l.config.Services) > 0 && !slices.Contains(l.config.Services, blueprint.Name) {
			continue
		}
		svc, err := s.Service(blueprint.Name)
		errs = append(errs, err)
		l.services = append(l.services, service{svc, vip(len(l.services))})
	}
	if len(l.services) > maxServices {
		errs = append(errs, proxy.Bad("services", "are %d; there are addresses for %d", len(l.services), maxServices))
	}
	seen := map[string]bool{}
	for _, c := range l.places.Clusters {
		if seen[c.Region] {
			continue
		}
		seen[c.Region] = true
		where, err := c.Place(s, "the layer "+Name)
		errs = append(errs, err)
		l.edges = append(l.edges, &edge{proxy.Envoy{Where: where, Admin: portAdmin}, c})
	}
	return errors.Join(errs...)
}

// each does something with all edges at once.
func (l *Layer) each(do func(e *edge) error) error {
	return parallel.Each(l.edges, func(e *edge) error {
		if err := do(e); err != nil {
			return fmt.Errorf("the edge of region %s: %w", e.at.Region, err)
		}
		return nil
	})
}

// remove ends the edges, and withdraws the addresses in reverse order.
func (l *Layer) remove(ctx context.Context) error {
	errs := []error{l.each(func(e *edge) error { return e.Stop(ctx) })}
	for _, undo := range slices.Backward(l.undo) {
		errs = append(errs, undo())
	}
	l.undo = nil
	return errors.Join(errs...)
}
