package ovs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/windtunnel/windtunnel/internal/network"
	"github.com/windtunnel/windtunnel/internal/openflow"
)

// until polls until something holds. A daemon that has ended ends the wait.
func (f *fabric) until(ctx context.Context, what string, holds func() error) error {
	ctx, cancel := context.WithTimeout(ctx, upTime)
	defer cancel()
	const pause = 20 * time.Millisecond
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		err := holds()
		if err == nil {
			return nil
		}
		for _, r := range f.running {
			select {
			case <-r.Done():
				return fmt.Errorf("waiting until %s: a process of Open vSwitch has ended: %w", what, errors.Join(r.Err(), err))
			default:
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, errors.Join(ctx.Err(), err))
		case <-tick.C:
		}
	}
}

// ask connects to a node's switch, beside its controller.
func (*fabric) ask(n *network.Node, f func(*openflow.Switch) error) error {
	conn, err := dial(n, switchPort)
	if err != nil {
		return fmt.Errorf("node %s: connecting to its switch: %w", n.Node, err)
	}
	s, err := openflow.Connect(conn)
	if err != nil {
		return fmt.Errorf("node %s: %w", n.Node, err)
	}
	return errors.Join(f(s), s.Close())
}

// ready is nil when a node's switch has all the flows that it is to have, with
// its pods' among them.
func (f *fabric) ready(n *network.Node) error {
	p := f.plans[n.Network]
	i := slices.IndexFunc(p.Switches, func(m machine) bool { return m.Node == n.Node })
	return f.ask(n, func(s *openflow.Switch) error {
		ports, err := portsOf(s)
		if err != nil {
			return err
		}
		flows, err := s.Flows()
		if err != nil {
			return err
		}
		want := p.flows(p.Switches[i], ports, 0)
		if len(flows) != len(want) {
			return fmt.Errorf("the switch has %d flows, not %d", len(flows), len(want))
		}
		return nil
	})
}

// hasPorts is nil when a node's switch has all ports.
func (f *fabric) hasPorts(s *openflow.Switch, n *network.Node) error {
	ports, err := portsOf(s)
	if err != nil {
		return err
	}
	for _, name := range append(devices(n), f.config.Tunnel) {
		if _, ok := ports[name]; !ok {
			return fmt.Errorf("the switch has no port %s yet", name)
		}
	}
	return nil
}

func devices(n *network.Node) []string {
	var all []string
	for _, p := range n.Ends {
		all = append(all, p.Device)
	}
	return all
}

// meet sends something to each other node until it gets there. A switch knows
// of a tunnel's far end only once it has asked who has that address, and what
// makes it ask is lost: without this, the first connection of the pods would
// wait for TCP to try again, which is a second.
func (f *fabric) meet(ctx context.Context, s *network.Site, n *network.Node) error {
	for _, other := range s.Others(n) {
		patience := 20 * time.Millisecond
		err := f.until(ctx, "its tunnel reaches node "+other.Node, func() error {
			patience *= 2 // the far end may be far
			return knock(ctx, n, other.Gateway, patience)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// knock is nil if an address, as a node sees it, answers at a port where nobody
// listens.
func knock(ctx context.Context, n *network.Node, at netip.Addr, patience time.Duration) error {
	return n.Space.InNetwork(func() error {
		const discard = 9 // RFC 863
		conn, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp4", netip.AddrPortFrom(at, discard).String())
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			return nil
		case err != nil:
			return err
		}
		return conn.Close()
	})
}
