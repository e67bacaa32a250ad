// Package bridge is the network without encapsulation and with a bridge on
// every node, as Flannel's host-gw makes it: nodes route to each other's pods.
// It is what a site is without any network layer, with an MTU of choice.
package bridge

import (
	"encoding/json"
	"fmt"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/network"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// Name is the layer's name in studies.
const Name = "bridge"

// Config is the layer's configuration in a study.
type Config struct {
	MTU network.MTU `json:"mtu,omitempty" jsonschema:"oneof_type=string;integer,default=native"`
}

// Plugin is the catalog entry.
func Plugin() model.Plugin[model.Layer] {
	return model.Plugin[model.Layer]{
		Name:    Name,
		Summary: "network: a bridge a node, nodes route for their pods (Flannel's host-gw); what a site is without a network layer",
		Config:  Config{},
		New: func(raw json.RawMessage) (model.Layer, error) {
			c := Config{MTU: network.Native}
			err := model.ReadConfig(raw, &c)
			return &network.Layer{
				Name: Name, MTU: c.MTU, DataPath: dataPath, Routes: network.Static, Form: network.Always(model.NoEncapsulation),
			}, err
		},
	}
}

// dataPath makes sure that the pods are ports of their node's bridge.
func dataPath(s *network.Site) (string, error) {
	for _, n := range s.Nodes {
		err := network.In(n.Space, func(net *sys.Net) error {
			bridge, err := net.Device(n.Bridge)
			if err != nil {
				return err
			}
			for _, p := range n.Ends {
				if d, err := net.Device(p.Device); err != nil || d.Master != bridge.Index {
					return fmt.Errorf("pod %s is no port of %s: %w", p.Name, n.Bridge, err)
				}
			}
			return nil
		})
		if err != nil {
			return "", fmt.Errorf("node %s: %w", n.Node, err)
		}
	}
	return "kernel, bridge and routes", nil
}
