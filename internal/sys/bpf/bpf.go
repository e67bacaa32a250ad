// Package bpf carries pods' packets between nodes in IPIP, GRE or GENEVE where
// the kernel has no devices for that: by a program of tunnel.c at the node's
// device on the underlay. What it attaches is gone when it is closed or this
// program ends.
//
// tunnel_bpfel.go and .o are made from tunnel.c by `make bpf`.
package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/windtunnel/windtunnel/internal/model"
)

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang -target bpfel -go-package bpf -cflags "-O2 -Wall -Werror" tunnel tunnel.c -- -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu

// Mode is the format on the wire.
type Mode uint32

// The formats, by their numbers in tunnel.c.
const (
	IPIP Mode = iota
	GRE
	GENEVE // port 6081, with an Ethernet frame inside
)

// Tunnel is what one node is to encapsulate.
type Tunnel struct {
	Mode   Mode
	VNI    uint32 // of GENEVE
	Device string // the node's on the underlay
	Local  netip.Addr
	// Peers are the nodes whose pods are behind the tunnel, by the pods' ranges.
	Peers map[netip.Prefix]netip.Addr
}

// Attached is a tunnel at work.
type Attached struct {
	objects tunnelObjects
	links   []link.Link
}

// Packets are what a tunnel has carried; large ones that the kernel will
// segment later count once.
type Packets struct{ Encapsulated, Decapsulated, Dropped uint64 }

// Attach puts a tunnel at a device of the calling thread's namespace. It needs
// CAP_BPF over the whole host and TCX, which Linux has from 6.6 on.
func Attach(t Tunnel) (*Attached, error) {
	device, err := net.InterfaceByName(t.Device)
	if err != nil {
		return nil, fmt.Errorf("finding the device %s: %w", t.Device, err)
	}
	a := &Attached{}
	if err = a.load(t); err == nil {
		err = a.attach(device.Index)
	}
	if err != nil {
		return nil, errors.Join(explain(err), a.Close())
	}
	return a, nil
}

func (a *Attached) load(t Tunnel) error {
	spec, err := loadTunnel()
	if err != nil {
		return fmt.Errorf("reading the tunnel's program: %w", err)
	}
	for name, value := range map[string]uint32{"mode": uint32(t.Mode), "vni": t.VNI, "local_ip": inMemory(t.Local)} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("setting %s of the tunnel's program: %w", name, err)
		}
	}
	if err := spec.LoadAndAssign(&a.objects, nil); err != nil {
		return fmt.Errorf("loading the tunnel's program: %w", err)
	}
	for pods, node := range t.Peers {
		at := tunnelRange{Bits: uint32(pods.Bits()), Addr: inMemory(pods.Masked().Addr())} //nolint:gosec // at most 32
		if err := a.objects.Peers.Put(at, inMemory(node)); err != nil {
			return fmt.Errorf("entering the tunnel's peer %s: %w", node, err)
		}
	}
	return nil
}

// inMemory is an IPv4 address as it lies in a packet.
func inMemory(a netip.Addr) uint32 { return binary.NativeEndian.Uint32(a.AsSlice()) }

func (a *Attached) attach(device int) error {
	ends := []link.TCXOptions{
		{Interface: device, Program: a.objects.Decap, Attach: ebpf.AttachTCXIngress},
		{Interface: device, Program: a.objects.Encap, Attach: ebpf.AttachTCXEgress},
	}
	for _, end := range ends {
		l, err := link.AttachTCX(end)
		if err != nil {
			return fmt.Errorf("attaching the tunnel's program: %w", err)
		}
		a.links = append(a.links, l)
	}
	return nil
}

// explain turns what the kernel lacks into an UnsupportedError.
func explain(err error) error {
	switch {
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, syscall.EINVAL):
		return &model.UnsupportedError{
			What: "a tunnel by a BPF program", Missing: "the kernel has no TCX: " + err.Error(),
			Hint: "use Linux 6.6 or later, or load the kernel's own module for the tunnel (ipip, ip_gre, geneve)",
		}
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		return &model.UnsupportedError{
			What: "a tunnel by a BPF program", Missing: "this user may not load BPF programs: " + err.Error(),
			Hint: "run as root, or load the kernel's own module for the tunnel (ipip, ip_gre, geneve)",
		}
	}
	return err
}

// Packets reads the tunnel's counters.
func (a *Attached) Packets() (Packets, error) {
	var sums [3]uint64
	for i := range sums {
		var perCPU []uint64
		if err := a.objects.Counters.Lookup(uint32(i), &perCPU); err != nil {
			return Packets{}, fmt.Errorf("reading the tunnel's counters: %w", err)
		}
		for _, n := range perCPU {
			sums[i] += n
		}
	}
	return Packets{Encapsulated: sums[0], Decapsulated: sums[1], Dropped: sums[2]}, nil
}

// Close detaches the tunnel. Closing twice is fine.
func (a *Attached) Close() error {
	var errs []error
	for _, l := range a.links {
		errs = append(errs, l.Close())
	}
	a.links = nil
	if a.objects.Encap != nil {
		errs = append(errs, a.objects.Close())
		a.objects = tunnelObjects{}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("detaching a tunnel's program: %w", err)
	}
	return nil
}

// Describe lists the TCX programs at the devices of the calling thread's
// namespace, one line each; nothing where the kernel has no TCX.
func Describe() ([]string, error) {
	devices, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("listing devices: %w", err)
	}
	var lines []string
	for _, d := range devices {
		for name, end := range map[string]ebpf.AttachType{"ingress": ebpf.AttachTCXIngress, "egress": ebpf.AttachTCXEgress} {
			found, err := link.QueryPrograms(link.QueryOptions{Target: d.Index, Attach: end})
			if err != nil {
				return nil, nil //nolint:nilerr // no TCX, or no right to look: then nothing of ours is there either
			}
			for range found.Programs {
				lines = append(lines, "TCX program at "+name+" of "+d.Name)
			}
		}
	}
	return lines, nil
}
