// Package gateway joins clusters of different networks: in each a real Envoy on
// a node, which passes TLS connections on to the cluster's pods by the server
// name that they ask for, and holds no keys. It is configured as Istio's
// east-west gateway or Kuma's zone ingress.
package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/oci"
	"github.com/windtunnel/windtunnel/internal/parallel"
	"github.com/windtunnel/windtunnel/internal/proxy"
)

// Name is the layer's name in studies.
const Name = "gateway"

// Config is the layer's configuration in a study.
type Config struct {
	// Profile is the mesh that is imitated: that of the layer envoy above.
	Profile proxy.Profile `json:"profile,omitempty" jsonschema:"enum=istio,enum=kuma,default=istio"`

	proxy.Options
}

func parse(raw json.RawMessage) (Config, error) {
	c := Config{Profile: proxy.Istio, Options: proxy.DefaultOptions()}
	if err := model.ReadConfig(raw, &c); err != nil {
		return c, err
	}
	return c, errors.Join(c.Profile.Check(), c.Problems())
}

// Plugin is the catalog entry. find looks for the Envoy program.
func Plugin(find func(explicit string) (string, error)) model.Plugin[model.Layer] {
	return model.Plugin[model.Layer]{
		Name:    Name,
		Summary: "a gateway into each cluster for the sidecars of others: real Envoy, TLS passed through by server name",
		Config:  Config{},
		New: func(raw json.RawMessage) (model.Layer, error) {
			c, err := parse(raw)
			return &Layer{config: c, find: find}, err
		},
	}
}

// Layer is one deployment of gateways.
type Layer struct {
	config   Config
	find     func(explicit string) (string, error)
	program  oci.Program
	gateways []*gateway
}

var (
	_ model.Layer    = (*Layer)(nil)
	_ model.Observer = (*Layer)(nil)
)

// gateway is the Envoy of one cluster, with the endpoints there by server name.
type gateway struct {
	proxy.Envoy

	cluster  *proxy.Cluster
	services map[string][]proxy.Group
}

// portAdmin is on the node's loopback.
const portAdmin = 15000

// Check says whether there is an Envoy to run.
func (l *Layer) Check(ctx context.Context) error {
	_, err := l.config.Program(ctx, l.find)
	return err
}

// Deploy starts a gateway on the first node of every cluster.
func (l *Layer) Deploy(ctx context.Context, s model.Site) (func(context.Context) error, error) {
	found, err := l.config.Program(ctx, l.find)
	if err != nil {
		return nil, err
	}
	l.program = found
	if l.gateways, err = l.plan(s); err != nil {
		return nil, err
	}
	if err = l.each(func(g *gateway) error { return l.start(ctx, g, found.Path) }); err != nil {
		return nil, errors.Join(err, l.remove(context.WithoutCancel(ctx)))
	}
	return l.remove, nil
}

func (l *Layer) start(ctx context.Context, g *gateway, program string) error {
	config, err := proxy.Encode(l.bootstrap(g))
	if err != nil {
		return err
	}
	return g.Start(ctx, proxy.Spec{
		Name: Name, Component: model.ComponentGateway, Program: program, Concurrency: l.config.Concurrency, Limits: l.config.Limits(),
		Files: map[string][]byte{"envoy.json": config},
	})
}

// plan finds where gateways go, and what is behind each.
func (l *Layer) plan(s model.Site) ([]*gateway, error) {
	places, err := proxy.Locate(s)
	if err != nil {
		return nil, err
	}
	var all []*gateway
	for _, c := range places.Clusters {
		where, err := c.Place(s, "the layer "+Name)
		if err != nil {
			return nil, err
		}
		g := &gateway{Envoy: proxy.Envoy{Where: where, Admin: portAdmin}, cluster: c, services: map[string][]proxy.Group{}}
		for _, blueprint := range s.Topology().Services {
			svc, err := s.Service(blueprint.Name)
			if err != nil {
				return nil, err
			}
			groups, err := places.Endpoints(svc, proxy.View{From: c, Local: true})
			if err != nil {
				return nil, err
			}
			if len(groups) > 0 {
				g.services[l.config.Profile.ServerName(svc)] = groups
			}
		}
		all = append(all, g)
	}
	return all, nil
}

// bootstrap is a gateway's whole configuration. The filter sni_cluster takes the
// server name for the name of the cluster: Istio's AUTO_PASSTHROUGH. A name that
// is no service's has no cluster, and its connection is closed.
func (l *Layer) bootstrap(g *gateway) proxy.Object {
	var clusters proxy.List
	for _, name := range slices.Sorted(maps.Keys(g.services)) {
		c := proxy.Object{
			"name": name, "type": "STATIC", "lb_policy": "LEAST_REQUEST", "connect_timeout": "10s", "circuit_breakers": proxy.Unlimited(),
			"load_assignment": proxy.Static(name, g.services[name]),
		}
		if l.config.Profile == proxy.Kuma {
			c["lb_policy"] = "ROUND_ROBIN"
		}
		clusters = append(clusters, c)
	}
	return proxy.Object{
		"node":  proxy.Object{"id": Name + "-" + g.cluster.Name, "cluster": "windtunnel"},
		"admin": proxy.Object{"address": proxy.Address("127.0.0.1", portAdmin)},
		"static_resources": proxy.Object{"clusters": clusters, "listeners": proxy.List{proxy.Object{
			"name": listener, "address": proxy.Address(g.cluster.Gateway.String(), l.config.Profile.GatewayPort()),
			"listener_filters": proxy.List{proxy.TLSInspector()},
			"filter_chains": proxy.List{proxy.Object{
				"filter_chain_match": proxy.Object{"transport_protocol": "tls"},
				"filters": proxy.List{
					proxy.Extension("envoy.filters.network.sni_cluster", sniMessage, proxy.Object{}),
					proxy.TCPProxy(Name, "BlackHoleCluster", nil),
				},
			}},
		}}},
	}
}

const (
	listener   = "cross-network-gateway"
	sniMessage = "envoy.extensions.filters.network.sni_cluster.v3.SniCluster"
)

// each does something with all gateways at once.
func (l *Layer) each(do func(g *gateway) error) error {
	return parallel.Each(l.gateways, func(g *gateway) error {
		if err := do(g); err != nil {
			return fmt.Errorf("the gateway of cluster %s: %w", g.cluster.Name, err)
		}
		return nil
	})
}

func (l *Layer) remove(ctx context.Context) error {
	return l.each(func(g *gateway) error { return g.Stop(ctx) })
}

// Claims are what the live gateways must show.
func (l *Layer) Claims() []model.Claim {
	claims := []model.Claim{{Layer: Name, Key: model.FactLevel, Value: level}}
	for _, g := range l.gateways {
		claims = append(claims, model.Claim{Layer: Name, Key: g.fact(), Value: g.behind()})
	}
	return claims
}

const level = "L4, TLS passed through by server name"

// fact is the key of the fact that says what is behind a gateway.
func (g *gateway) fact() string { return "services behind the gateway of " + g.cluster.Name }

func (g *gateway) behind() string {
	n := 0
	for _, groups := range g.services {
		n += len(proxy.Rows(groups))
	}
	return fmt.Sprintf("%d, with %d endpoints", len(g.services), n)
}
