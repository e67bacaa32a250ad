// Package ipip is Calico's network with IP-in-IP (RFC 2003): a route a pod
// instead of a bridge, and between nodes packets in packets; with crossSubnet
// only between nodes of different subnets.
package ipip

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/network"
	"github.com/windtunnel/windtunnel/internal/sys/bpf"
	"github.com/windtunnel/windtunnel/internal/sys/packet"
)

// Name is the layer's name in studies.
const Name = "ipip"

// overhead is one IPv4 header.
const overhead = 20

// Config is the layer's configuration in a study.
type Config struct {
	network.TunnelConfig
	network.RouteConfig
	// CrossSubnet leaves traffic between nodes of one subnet as it is. The nodes
	// of a region are in one subnet.
	CrossSubnet bool `json:"crossSubnet,omitempty" jsonschema:"default=false"`
}

// Plugin is the catalog entry.
func Plugin() model.Plugin[model.Layer] {
	return model.Plugin[model.Layer]{
		Name:    Name,
		Summary: "network: Calico's IP-in-IP between nodes, or with crossSubnet only between regions",
		Config:  Config{},
		New: func(raw json.RawMessage) (model.Layer, error) {
			c := Config{TunnelConfig: network.TunnelConfig{MTU: network.Native}}
			if err := model.ReadConfig(raw, &c); err != nil {
				return nil, err
			}
			if c.Routes == network.BGP {
				if c.DataPath == network.DataPathKernel {
					return nil, &model.ConfigError{Key: "data_path", Text: "cannot be kernel with routes: bgp: BIRD has no way to say by which device (Calico's is a changed one)"}
				}
				c.DataPath = network.DataPathBPF
			}
			return layer(c), errors.Join(c.TunnelConfig.Check(), c.RouteConfig.Check())
		},
	}
}

func layer(c Config) model.Layer {
	between := func(a, b *network.Node) bool { return !c.CrossSubnet || a.Region != b.Region }
	var tunnels *network.Tunnels
	wire := func(ctx context.Context, s *network.Site) (err error) {
		if err = s.Routed(ctx); err != nil {
			return err
		}
		tunnels, err = s.Encapsulate(ctx, network.Tunnel{
			Kind: "ipip", Mode: bpf.IPIP, Overhead: overhead, Config: c.TunnelConfig, Between: between,
		})
		return err
	}
	l := &network.Layer{
		Name: Name, MTU: c.MTU, Overhead: overhead, Headers: headers(c), Wire: wire,
		DataPath: func(*network.Site) (string, error) { return tunnels.DataPath() },
		Routes:   network.Static,
		Form: func(a, b *network.Node) string {
			if between(a, b) {
				return packet.IPIP
			}
			return model.NoEncapsulation
		},
	}
	if c.Routes == network.BGP {
		l.Speak(c.RouteConfig, overhead, func(ctx context.Context, s *network.Site) (network.Announced, error) { return nil, wire(ctx, s) })
	}
	return l
}

func headers(c Config) string {
	if c.CrossSubnet {
		return "20 bytes (IPv4) between subnets, none within"
	}
	return "20 bytes (IPv4)"
}
