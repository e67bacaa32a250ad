// Package geneve is a network with GENEVE (RFC 8926) between nodes, and a bridge on every node.
package geneve

import (
	"context"
	"encoding/json"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/network"
	"github.com/windtunnel/windtunnel/internal/sys/bpf"
	"github.com/windtunnel/windtunnel/internal/sys/packet"
)

// Name is the layer's name in studies.
const Name = "geneve"

const vni = 1

// overhead is IPv4, UDP, GENEVE without options and the frame inside.
const overhead = 20 + 8 + 8 + 14

// Config is the layer's configuration in a study.
type Config struct{ network.TunnelConfig }

// Plugin is the catalog entry.
func Plugin() model.Plugin[model.Layer] {
	return model.Plugin[model.Layer]{
		Name:    Name,
		Summary: "network: GENEVE between nodes, VNI 1 on port 6081",
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
		Name: Name, MTU: c.MTU, Overhead: overhead, Headers: "50 bytes (IPv4 20, UDP 8, GENEVE 8, Ethernet 14)",
		Wire: func(ctx context.Context, s *network.Site) (err error) {
			tunnels, err = s.Encapsulate(ctx, network.Tunnel{Kind: "geneve", Mode: bpf.GENEVE, VNI: vni, Overhead: overhead, Config: c.TunnelConfig})
			return err
		},
		DataPath: func(*network.Site) (string, error) { return tunnels.DataPath() },
		Routes:   network.Static,
		Form:     network.Always(packet.Encapsulation{Name: packet.GENEVE, VNI: vni, Port: 6081}.String()),
	}
}
