// Package gre is a network with GRE (RFC 2784) between nodes, and a bridge on every node.
package gre

import (
	"context"
	"encoding/json"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/network"
	"github.com/windtunnel/windtunnel/internal/sys/bpf"
	"github.com/windtunnel/windtunnel/internal/sys/packet"
)

// Name is the layer's name in studies.
const Name = "gre"

// overhead is IPv4 and GRE without optional fields.
const overhead = 20 + 4

// Config is the layer's configuration in a study.
type Config struct{ network.TunnelConfig }

// Plugin is the catalog entry.
func Plugin() model.Plugin[model.Layer] {
	return model.Plugin[model.Layer]{
		Name:    Name,
		Summary: "network: GRE between nodes",
		Config:  Config{},
		New: func(raw json.RawMessage) (model.Layer, error) {
			c := Config{network.TunnelConfig{MTU: network.Native}}
			if err := model.ReadConfig(raw, &c); err != nil {
				return nil, err
			}
			return layer(c), c.Check()
		},
	}
}

func layer(c Config) model.Layer {
	var tunnels *network.Tunnels
	return &network.Layer{
		Name: Name, MTU: c.MTU, Overhead: overhead, Headers: "24 bytes (IPv4 20, GRE 4)",
		Wire: func(ctx context.Context, s *network.Site) (err error) {
			tunnels, err = s.Encapsulate(ctx, network.Tunnel{Kind: "gre", Mode: bpf.GRE, Overhead: overhead, Config: c.TunnelConfig})
			return err
		},
		DataPath: func(*network.Site) (string, error) { return tunnels.DataPath() },
		Routes:   network.Static,
		Form:     network.Always(packet.Encapsulation{Name: packet.GRE}.String()),
	}
}
