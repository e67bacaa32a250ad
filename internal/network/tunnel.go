package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
	"github.com/windtunnel/windtunnel/internal/sys/bpf"
)

// The data paths that a study can ask a tunnel for; "" is the kernel's where it
// has one.
const (
	DataPathKernel = "kernel"
	DataPathBPF    = "tc-bpf"
)

// TunnelConfig is the configuration that all tunnels have.
type TunnelConfig struct {
	// MTU of the pods.
	MTU MTU `json:"mtu,omitempty" jsonschema:"oneof_type=string;integer,default=native"`
	// DataPath is kernel or tc-bpf; if absent, the kernel's device where there is one.
	DataPath string `json:"data_path,omitempty" jsonschema:"enum=kernel,enum=tc-bpf"`
}

// Check finds what is wrong with it.
func (c TunnelConfig) Check() error {
	if !slices.Contains([]string{"", DataPathKernel, DataPathBPF}, c.DataPath) {
		return &model.ConfigError{Key: "data_path", Text: fmt.Sprintf("is %q; it can be %s or %s", c.DataPath, DataPathKernel, DataPathBPF)}
	}
	return nil
}

// Tunnel carries packets from node to node in others.
type Tunnel struct {
	Kind     string // of the kernel's device: ipip, gre, geneve
	Mode     bpf.Mode
	VNI      uint32
	Overhead int
	Config   TunnelConfig
	// Between says whether traffic between two nodes takes the tunnel; nil: always.
	Between func(a, b *Node) bool
}

// Tunnels are those that a layer has made.
type Tunnels struct {
	Tunnel
	MTU      int // of what goes through
	site     *Site
	attached map[*Node]*bpf.Attached // nil: kernel devices
}

// Encapsulate sends what pods of different nodes send each other through
// tunnels: kernel devices where this kernel has them, else a BPF program.
func (s *Site) Encapsulate(ctx context.Context, t Tunnel) (*Tunnels, error) {
	if t.Between == nil {
		t.Between = func(_, _ *Node) bool { return true }
	}
	out := &Tunnels{Tunnel: t, site: s, MTU: s.MTU - t.Overhead}
	lacks := errors.New("the study asks for " + DataPathBPF)
	if t.Config.DataPath != DataPathBPF {
		lacks = s.Nodes[0].Space.InNetwork(func() error { return sys.TryLink(t.Kind) })
	}
	switch {
	case lacks == nil:
		return out, s.Each(ctx, func(n *Node) error { return out.kernel(n) })
	case t.Config.DataPath == DataPathKernel:
		return nil, &model.UnsupportedError{
			What: fmt.Sprintf("the layer %s with data_path: %s", s.Layer, DataPathKernel), Missing: lacks.Error(),
			Hint: "load the kernel's module for " + t.Kind + ", or leave data_path out",
		}
	}
	out.attached = map[*Node]*bpf.Attached{}
	return out, s.Each(ctx, func(n *Node) error { return out.program(n) })
}

// kernel makes one device for each other node; of ipip one for all, as Calico
// does.
func (t *Tunnels) kernel(n *Node) error {
	for _, to := range t.site.Others(n) {
		if !t.Between(n, to) {
			continue
		}
		d := sys.Tunnel{Name: t.device(to), Kind: t.Kind, Local: n.Addr, Remote: to.Addr, VNI: t.VNI, MTU: t.MTU, MAC: n.Range.Addr()}
		over := sys.RouteVia{Device: d.Name}
		switch t.Kind {
		case "ipip":
			d.Remote = netip.Addr{}
			over.Via, over.OnLink = to.Addr, true
		case "geneve": // frames need the MAC of the device at the other end
			over.Via, over.OnLink = to.Range.Addr(), true
		}
		err := t.site.AddDevice(n, d.Name, func(net *sys.Net) error {
			if _, err := net.Device(d.Name); err == nil {
				return nil // ipip: it is there since the first of the others
			}
			if err := net.AddTunnel(d); err != nil {
				return err
			}
			if t.Kind == "geneve" {
				return net.SetNeighbour(d.Name, to.Range.Addr(), sys.MAC(to.Range.Addr()))
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := t.site.Reroute(n, to, over); err != nil {
			return err
		}
	}
	return nil
}

// device is the name of the kernel's device for what goes to a node.
func (t *Tunnels) device(to *Node) string {
	if t.Kind == "ipip" {
		return "ipip0"
	}
	return t.Kind + "-" + strconv.Itoa(slices.Index(t.site.Nodes, to))
}

// program attaches the BPF program to the node's device on the underlay. The
// routes stay what they are, but for the MTU of the path.
func (t *Tunnels) program(n *Node) error {
	peers := map[netip.Prefix]netip.Addr{}
	for _, to := range t.site.Others(n) {
		if !t.Between(n, to) {
			continue
		}
		peers[to.Range] = to.Addr
		if err := t.site.Reroute(n, to, sys.RouteVia{Via: to.Addr, Device: n.Underlay, MTU: t.MTU}); err != nil {
			return err
		}
	}
	return n.Space.InNetwork(func() error {
		a, err := bpf.Attach(bpf.Tunnel{Mode: t.Mode, VNI: t.VNI, Device: n.Underlay, Local: n.Addr, Peers: peers})
		if err != nil {
			return err
		}
		t.attached[n] = a
		t.site.OnUndo(a.Close)
		return nil
	})
}

// DataPath says what carries the packets, as it is now.
func (t *Tunnels) DataPath() (string, error) {
	if t.attached == nil {
		for _, n := range t.site.Nodes {
			if err := t.check(n); err != nil {
				return "", fmt.Errorf("node %s: %w", n.Node, err)
			}
		}
		return "kernel device (" + t.Kind + ")", nil
	}
	return DataPathBPF, nil
}

// check makes sure that a node's routes to the others' pods take the tunnels.
func (t *Tunnels) check(n *Node) error {
	return In(n.Space, func(net *sys.Net) error {
		for _, to := range t.site.Others(n) {
			if !t.Between(n, to) {
				continue
			}
			device, _, _, err := net.RouteTo(to.Range)
			if err == nil && device != t.device(to) {
				err = fmt.Errorf("what is for the pods of %s goes over %s, not over %s", to.Node, device, t.device(to))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Packets sums up what the BPF program has counted; ok is false of kernel devices.
func (t *Tunnels) Packets() (sum bpf.Packets, ok bool, err error) {
	for _, a := range t.attached {
		p, err := a.Packets()
		if err != nil {
			return sum, false, err
		}
		sum.Encapsulated += p.Encapsulated
		sum.Decapsulated += p.Decapsulated
		sum.Dropped += p.Dropped
	}
	return sum, t.attached != nil, nil
}
