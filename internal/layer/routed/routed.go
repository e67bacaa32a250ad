// Package routed is the network without bridges and without encapsulation, as
// Calico makes it: the near end of every pod's veth has a route of its own and
// answers the pod's ARP (proxy ARP); nodes route to each other's pods.
package routed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/network"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// Name is the layer's name in studies.
const Name = "routed"

// Config is the layer's configuration in a study.
type Config struct {
	network.RouteConfig
	MTU network.MTU `json:"mtu,omitempty" jsonschema:"oneof_type=string;integer,default=native"`
	// Announce says what nodes tell the others besides the range of their pods.
	Announce string `json:"announce,omitempty" jsonschema:"enum=pods,enum=services,default=pods" jsonschema_description:"With routes: bgp. services: nodes also announce the virtual addresses of the services that have pods there, as Calico and MetalLB do; give nft-service endpoints: node then."`
}

// What nodes announce.
const (
	pods     = "pods"
	services = "services"
)

// Plugin is the catalog entry.
func Plugin() model.Plugin[model.Layer] {
	return model.Plugin[model.Layer]{
		Name:    Name,
		Summary: "network: a route a pod and proxy ARP instead of a bridge, as Calico without encapsulation",
		Config:  Config{},
		New: func(raw json.RawMessage) (model.Layer, error) {
			c := Config{MTU: network.Native}
			if err := model.ReadConfig(raw, &c); err != nil {
				return nil, err
			}
			if err := c.check(); err != nil {
				return nil, err
			}
			return layer(c), nil
		},
	}
}

func (c Config) check() error {
	errs := []error{c.Check()}
	switch {
	case c.Announce != "" && c.Announce != pods && c.Announce != services:
		errs = append(errs, &model.ConfigError{Key: "announce", Text: fmt.Sprintf("is %q; it can be %s or %s", c.Announce, pods, services)})
	case c.Announce != "" && c.Routes != network.BGP:
		errs = append(errs, &model.ConfigError{Key: "announce", Text: "has no meaning without routes: " + network.BGP})
	}
	return errors.Join(errs...)
}

func layer(c Config) model.Layer {
	l := &network.Layer{
		Name: Name, MTU: c.MTU, DataPath: dataPath, Routes: network.Static, Form: network.Always(model.NoEncapsulation),
		Wire: func(ctx context.Context, s *network.Site) error { return s.Routed(ctx) },
	}
	if c.Routes != network.BGP {
		return l
	}
	l.Speak(c.RouteConfig, 0, func(ctx context.Context, s *network.Site) (network.Announced, error) {
		if err := s.Routed(ctx); err != nil || c.Announce != services {
			return nil, err
		}
		return s.ServiceAddrs()
	})
	return l
}

// dataPath makes sure that every pod has its route.
func dataPath(s *network.Site) (string, error) {
	for _, n := range s.Nodes {
		for _, p := range n.Ends {
			err := network.In(n.Space, func(net *sys.Net) error {
				device, _, _, err := net.RouteTo(network.Host(p.Addr))
				if err == nil && device != p.Device {
					err = fmt.Errorf("its route is over %s, not %s", device, p.Device)
				}
				return err
			})
			if err != nil {
				return "", fmt.Errorf("pod %s: %w", p.Name, err)
			}
		}
	}
	return "kernel, a route a pod", nil
}
