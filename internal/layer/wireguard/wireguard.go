// Package wireguard is Flannel's network with WireGuard: a bridge on every
// node, and between nodes everything encrypted, by the kernel's device where
// it has one, else by wireguard-go in a process on each node.
package wireguard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/network"
	"github.com/windtunnel/windtunnel/internal/sys"
	"github.com/windtunnel/windtunnel/internal/sys/packet"
	wg "github.com/windtunnel/windtunnel/internal/sys/wireguard"
)

// Name is the layer's name in studies, and the command of this program that
// carries packets where the kernel does not.
const Name = "wireguard"

const (
	device = "flannel-wg"
	port   = 51820
	// overhead is IPv4, UDP, and WireGuard's header and tag.
	overhead = 20 + 8 + 16 + 16
)

// The data paths that a study can ask for.
const (
	kernel    = "kernel"
	userspace = "userspace"
)

// Config is the layer's configuration in a study.
type Config struct {
	MTU network.MTU `json:"mtu,omitempty" jsonschema:"oneof_type=string;integer,default=native"`
	// DataPath is kernel or userspace; if absent, the kernel's device where there is one.
	DataPath string `json:"data_path,omitempty" jsonschema:"enum=kernel,enum=userspace"`
	// Across joins the pods of all networks, and not only those of each.
	Across bool `json:"across,omitempty" jsonschema_description:"Whether pods of clusters with separate networks reach each other, too, as in a network service mesh at L3."`
}

// Plugin is the catalog entry.
func Plugin() model.Plugin[model.Layer] {
	return model.Plugin[model.Layer]{
		Name:    Name,
		Summary: "network: WireGuard between nodes, by the kernel or by wireguard-go",
		Config:  Config{},
		New: func(raw json.RawMessage) (model.Layer, error) {
			c := Config{MTU: network.Native}
			if err := model.ReadConfig(raw, &c); err != nil {
				return nil, err
			}
			if c.DataPath != "" && c.DataPath != kernel && c.DataPath != userspace {
				return nil, &model.ConfigError{Key: "data_path", Text: fmt.Sprintf("is %q; it can be %s or %s", c.DataPath, kernel, userspace)}
			}
			return layer(c), nil
		},
	}
}

func layer(c Config) model.Layer {
	m := &mesh{config: c}
	form := packet.Encapsulation{Name: packet.WireGuard, Port: port}
	return &network.Layer{
		Name: Name, MTU: c.MTU, Overhead: overhead, Headers: "60 bytes (IPv4 20, UDP 8, WireGuard 32), and up to 15 of padding",
		Wire: m.wire, DataPath: m.dataPath, More: m.counters, Routes: network.Static, Form: network.Always(form.String()),
	}
}

// mesh is all nodes' ends.
type mesh struct {
	config  Config
	kernel  bool
	keys    map[*network.Node]wg.Key
	clients map[*network.Node]*wg.Client
}

func (m *mesh) wire(ctx context.Context, s *network.Site) error {
	s.Across = m.config.Across
	if err := m.choose(s); err != nil {
		return err
	}
	m.keys, m.clients = map[*network.Node]wg.Key{}, map[*network.Node]*wg.Client{}
	for _, n := range s.Nodes {
		key, err := wg.NewKey()
		if err != nil {
			return err
		}
		m.keys[n] = key
	}
	return s.Each(ctx, func(n *network.Node) error {
		c := m.of(s, n)
		begin := m.inKernel
		if !m.kernel {
			begin = m.inProcess
		}
		if err := begin(ctx, s, n, c); err != nil {
			return err
		}
		for _, to := range s.Others(n) {
			if err := s.Reroute(n, to, sys.RouteVia{Device: device}); err != nil {
				return err
			}
		}
		return nil
	})
}

// choose finds out whether the kernel has WireGuard, where the study leaves it
// open.
func (m *mesh) choose(s *network.Site) error {
	if m.config.DataPath == userspace {
		return nil
	}
	err := s.Nodes[0].Space.InNetwork(func() error { return sys.TryLink("wireguard") })
	m.kernel = err == nil
	if err != nil && m.config.DataPath == kernel {
		return &model.UnsupportedError{
			What: "the layer " + Name + " with data_path: " + kernel, Missing: err.Error(), Hint: "load the kernel's module wireguard, or leave data_path out",
		}
	}
	return nil
}

// of is the configuration of a node's end.
func (m *mesh) of(s *network.Site, n *network.Node) wg.Config {
	c := wg.Config{Device: device, MTU: s.MTU - overhead, Private: m.keys[n], Port: port}
	for _, to := range s.Others(n) {
		c.Peers = append(c.Peers, wg.Peer{Public: m.keys[to].PublicKey(), Endpoint: netip.AddrPortFrom(to.Addr, port), Allowed: to.Range})
	}
	return c
}

func (*mesh) inKernel(_ context.Context, s *network.Site, n *network.Node, c wg.Config) error {
	return s.AddDevice(n, device, func(net *sys.Net) error {
		if err := net.AddTunnel(sys.Tunnel{Name: device, Kind: "wireguard", MTU: c.MTU}); err != nil {
			return err
		}
		return wg.Configure(c)
	})
}

// inProcess starts wireguard-go on the node. Its device is gone with it.
func (m *mesh) inProcess(ctx context.Context, s *network.Site, n *network.Node, c wg.Config) error {
	node, ok := n.Space.(model.Starter)
	if !ok {
		return &model.UnsupportedError{What: "the layer " + Name, Missing: "this target's nodes have no room for processes, and the kernel has no WireGuard"}
	}
	if err := sys.TryTun(); err != nil {
		return &model.UnsupportedError{
			What: "the layer " + Name, Missing: "neither the kernel's WireGuard nor TUN devices: " + err.Error(),
			Hint: "load the kernel's module wireguard or tun",
		}
	}
	process, err := node.Start(ctx, model.Process{Name: Name, Component: model.ComponentNetwork, Command: []string{"{self}", Name}, Piped: true})
	if err != nil {
		return err
	}
	s.OnUndo(func() error { return process.Stop(context.WithoutCancel(ctx)) })
	client, err := wg.Begin(process.Stream(), c)
	if err != nil {
		return errors.Join(err, process.Err())
	}
	m.clients[n] = client
	return network.In(n.Space, func(net *sys.Net) error { return net.Up(device) })
}

func (m *mesh) dataPath(s *network.Site) (string, error) {
	want, kind, says := "wireguard", kernel, "kernel device (wireguard)"
	if !m.kernel {
		want, kind, says = "tuntap", userspace, "userspace (wireguard-go over TUN, a process a node)"
	}
	for _, n := range s.Nodes {
		err := network.In(n.Space, func(net *sys.Net) error {
			d, err := net.Device(device)
			if err == nil && d.Kind != want {
				err = fmt.Errorf("%s is a %s device, which is not WireGuard in %s", device, d.Kind, kind)
			}
			return err
		})
		if err != nil {
			return "", fmt.Errorf("node %s: %w", n.Node, err)
		}
	}
	return says, nil
}

// counters tell that keys were agreed on: that what was sent is encrypted.
func (m *mesh) counters(s *network.Site) (model.Ledger, error) {
	var sum wg.State
	for _, n := range s.Nodes {
		state, err := m.state(n)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", n.Node, err)
		}
		sum = sum.Add(state)
	}
	value := fmt.Sprintf("%d of %d ways", sum.Handshakes, sum.Peers)
	return model.Ledger{{Layer: Name, Key: "handshakes", Value: value, Source: model.SourceCounters}}, nil
}

func (m *mesh) state(n *network.Node) (state wg.State, err error) {
	if !m.kernel {
		return m.clients[n].State()
	}
	err = n.Space.InNetwork(func() error {
		state, err = wg.Read(device)
		return err
	})
	return state, err
}
