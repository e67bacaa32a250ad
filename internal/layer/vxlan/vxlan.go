// Package vxlan is Flannel's network: a bridge on every node, and between
// nodes the kernel's VXLAN with all its peers entered for good, nothing learnt.
package vxlan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/network"
	"github.com/windtunnel/windtunnel/internal/sys"
	"github.com/windtunnel/windtunnel/internal/sys/packet"
)

// Name is the layer's name in studies.
const Name = "vxlan"

// Flannel's defaults.
const (
	device = "flannel.1"
	vni    = 1
	port   = 8472
)

// overhead is IPv4, UDP, VXLAN and the frame inside (RFC 7348).
const overhead = 20 + 8 + 8 + 14

// Config is the layer's configuration in a study.
type Config struct {
	MTU network.MTU `json:"mtu,omitempty" jsonschema:"oneof_type=string;integer,default=native"`
}

// Plugin is the catalog entry.
func Plugin() model.Plugin[model.Layer] {
	return model.Plugin[model.Layer]{
		Name:    Name,
		Summary: "network: Flannel's VXLAN, VNI 1 on port 8472, by the kernel's device",
		Config:  Config{},
		New: func(raw json.RawMessage) (model.Layer, error) {
			c := Config{MTU: network.Native}
			err := model.ReadConfig(raw, &c)
			form := packet.Encapsulation{Name: packet.VXLAN, VNI: vni, Port: port}
			return &network.Layer{
				Name: Name, MTU: c.MTU, Overhead: overhead, Headers: "50 bytes (IPv4 20, UDP 8, VXLAN 8, Ethernet 14)",
				Wire: wire, DataPath: dataPath, Routes: network.Static, Form: network.Always(form.String()),
			}, err
		},
	}
}

// wire makes every node's device, and routes to the others' pods over it.
func wire(ctx context.Context, s *network.Site) error {
	return s.Each(ctx, func(n *network.Node) error {
		if err := s.AddDevice(n, device, func(net *sys.Net) error { return add(net, s, n) }); err != nil {
			return err
		}
		for _, to := range s.Others(n) {
			if err := s.Reroute(n, to, sys.RouteVia{Via: to.Range.Addr(), Device: device, OnLink: true}); err != nil {
				return err
			}
		}
		return nil
	})
}

// add makes a node's device and enters all others there: which MAC theirs have,
// and behind which node that is.
func add(net *sys.Net, s *network.Site, n *network.Node) error {
	err := net.AddVxlan(sys.Vxlan{
		Name: device, VNI: vni, Port: port, Local: n.Addr, Over: n.Underlay, MTU: s.MTU - overhead, Addr: network.Host(n.Range.Addr()),
	})
	if err != nil {
		return unsupported(err)
	}
	for _, to := range s.Others(n) {
		end := to.Range.Addr()
		if err := errors.Join(net.SetNeighbour(device, end, sys.MAC(end)), net.Behind(device, sys.MAC(end), to.Addr)); err != nil {
			return err
		}
	}
	return nil
}

func unsupported(err error) error {
	if !sys.Lacks(err) {
		return err
	}
	return &model.UnsupportedError{What: "the layer " + Name, Missing: err.Error(), Hint: "load the kernel's module vxlan"}
}

// dataPath reads the devices back.
func dataPath(s *network.Site) (string, error) {
	for _, n := range s.Nodes {
		err := network.In(n.Space, func(net *sys.Net) error {
			id, at, _, err := net.VxlanOf(device)
			if err == nil && (id != vni || at != port) {
				err = fmt.Errorf("%s has VNI %d and port %d, not %d and %d", device, id, at, vni, port)
			}
			return err
		})
		if err != nil {
			return "", fmt.Errorf("node %s: %w", n.Node, err)
		}
	}
	return "kernel device (vxlan)", nil
}
