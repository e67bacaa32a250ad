package ovs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/network"
	"github.com/windtunnel/windtunnel/internal/openflow"
	"github.com/windtunnel/windtunnel/internal/parallel"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// fabric is all nodes' switches and their controllers.
type fabric struct {
	config   Config
	tunnel   tunnel
	programs programs
	services []service
	mortal   model.ComponentMortal // nil: the site is none
	plans    map[string]plan       // by network
	running  []model.Running
}

// upTime is how long daemons may take until they do what they are to.
const upTime = 30 * time.Second

// wire turns a site's nodes into switches. Between the bridge of a node and
// its pods there is then Open vSwitch: the bridge stays, with the gateway's
// address, and has the switch as its only port.
func (f *fabric) wire(ctx context.Context, s *network.Site) error {
	f.plan(s)
	mtu, err := network.MTU(f.config.MTU).Of(Name, s.MTU, f.tunnel.overhead)
	if err != nil {
		return err
	}
	if err := s.Each(ctx, func(n *network.Node) error { return hand(s, n) }); err != nil {
		return err
	}
	if err := f.run(ctx, s, mtu); err != nil {
		return err
	}
	if err := s.Each(ctx, func(n *network.Node) error { return f.adopt(ctx, s, n) }); err != nil {
		return err
	}
	if err := s.Each(ctx, f.assign); err != nil {
		return err
	}
	return s.Each(ctx, func(n *network.Node) error {
		if err := f.until(ctx, "its switch has its flows", func() error { return f.ready(n) }); err != nil {
			return err
		}
		return f.meet(ctx, s, n)
	})
}

// assign gives a node's switch its controller. Before the switches have their
// ports and addresses it might not be reached, and is tried again after a second
// or two.
func (f *fabric) assign(n *network.Node) error {
	conn, err := dial(n, databasePort)
	if err != nil {
		return fmt.Errorf("connecting to its database: %w", err)
	}
	return errors.Join(assign(conn, "tcp:"+f.plans[n.Network].Listen.String()), conn.Close())
}

// dial connects to what listens on a node's loopback.
func dial(n *network.Node, port uint16) (conn net.Conn, err error) {
	err = n.Space.InNetwork(func() (err error) {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
		conn, err = net.DialTimeout("tcp4", at.String(), time.Second) //nolint:noctx // loopback: it answers or refuses at once
		return err
	})
	return conn, err
}

// run starts all processes; the controllers first, to be there when they are asked.
func (f *fabric) run(ctx context.Context, s *network.Site, mtu int) error {
	for _, n := range s.Nodes {
		// The switch leaves its devices behind, for the next one to find.
		s.OnUndo(func() error {
			return network.In(n.Space, func(net *sys.Net) error {
				return errors.Join(net.Delete(bridgeInt), net.Delete(bridgeExt), net.Delete("ovs-netdev"))
			})
		})
	}
	s.OnUndo(func() error { return f.stop(context.WithoutCancel(ctx)) })
	for _, n := range s.Nodes {
		if p := f.plans[n.Network]; p.Switches[0].Node == n.Node {
			if err := f.control(ctx, n, p); err != nil {
				return fmt.Errorf("node %s: %w", n.Node, err)
			}
		}
	}
	return s.Each(ctx, func(n *network.Node) error { return f.daemons(ctx, n, mtu) })
}

// stop ends all processes at once: a switch takes its time to give up its ports.
func (f *fabric) stop(ctx context.Context) error {
	f.endRevived(ctx)
	return parallel.Each(f.running, func(r model.Running) error { return r.Stop(ctx) })
}

// plan is what the controllers, one for each network, will know.
func (f *fabric) plan(s *network.Site) {
	f.plans = map[string]plan{}
	for i, n := range s.Nodes {
		m := machine{Datapath: uint64(i) + 1, Node: n.Node, Addr: n.Addr, Gateway: n.Gateway, Range: n.Range}
		for _, p := range n.Ends {
			m.Pods = append(m.Pods, pod{Name: p.Name, Device: p.Device, Addr: p.Addr})
		}
		p := f.plans[n.Network]
		if p.Switches == nil {
			p.Listen = netip.AddrPortFrom(n.Addr, openFlowPort)
			p.Tunnel, p.Services = f.config.Tunnel, f.services
		}
		p.Switches = append(p.Switches, m)
		f.plans[n.Network] = p
	}
}

// hand takes pods' devices off the bridge, for the switch to take them over.
// The switch reads whole packets: nothing may be left for a device to do. The
// kernel, which still sees what comes in by them, must not answer it.
func hand(s *network.Site, n *network.Node) error {
	if err := prepare(s, n.Space, n.Underlay); err != nil {
		return err
	}
	for _, p := range n.Ends {
		var bridge sys.Device
		err := s.Change(n.Space, func(net *sys.Net) (err error) {
			if bridge, err = net.Device(n.Bridge); err != nil {
				return err
			}
			return net.SetMaster(p.Device, 0)
		}, func(net *sys.Net) error { return net.SetMaster(p.Device, bridge.Index) })
		if err != nil {
			return fmt.Errorf("pod %s: %w", p.Name, err)
		}
		if err := prepare(s, n.Space, p.Device); err != nil {
			return fmt.Errorf("pod %s: %w", p.Name, err)
		}
		if err := plain(s, p.Space, network.PodDevice); err != nil {
			return fmt.Errorf("pod %s: %w", p.Name, err)
		}
	}
	return nil
}

// prepare makes a device of the node one that the switch can have.
func prepare(s *network.Site, in model.Namespace, device string) error {
	if err := plain(s, in, device); err != nil {
		return err
	}
	key, before := "net/ipv4/conf/"+device+"/rp_filter", ""
	return s.Change(in, func(*sys.Net) (err error) {
		if before, err = sys.ReadSysctl(key); err != nil {
			return err
		}
		return sys.WriteSysctl(key, "1")
	}, func(net *sys.Net) error {
		return errors.Join(sys.WriteSysctl(key, before), net.Quieten(device))
	})
}

// plain turns off what a device would do for the kernel.
func plain(s *network.Site, in model.Namespace, device string) error {
	var before sys.Offloads
	return s.Change(in, func(net *sys.Net) (err error) {
		if before, err = net.Offloads(device); err != nil {
			return err
		}
		return net.SetOffloads(device, sys.Offloads{})
	}, func(net *sys.Net) error { return net.SetOffloads(device, before) })
}

// daemons starts a node's database and its switch, which finds there all that
// it is to be. Their folders are their own, and private.
func (f *fabric) daemons(ctx context.Context, n *network.Node, mtu int) error {
	p := f.plans[n.Network]
	i := slices.IndexFunc(p.Switches, func(m machine) bool { return m.Node == n.Node })
	c := switchConfig{
		datapath: p.Switches[i].Datapath, underlay: n.Underlay, mac: sys.MAC(n.Addr).String(),
		mtu: mtu, underMTU: n.MTU,
	}
	for _, p := range n.Ends {
		c.pods = append(c.pods, p.Device)
	}
	database, err := c.database(f.programs.schema)
	if err != nil {
		return err
	}
	at := fmt.Sprintf("%d:127.0.0.1", databasePort)
	server := model.Process{
		Name: "ovsdb-server", Component: model.ComponentNetwork, Files: map[string][]byte{"conf.db": database}, Env: private(),
		Command: []string{f.programs.server, "{dir}/conf.db", "--remote=ptcp:" + at, "--unixctl={dir}/ctl", "-vsyslog:off", "-vconsole:warn"},
	}
	daemon := model.Process{
		Name: "ovs-vswitchd", Component: model.ComponentNetwork, Files: map[string][]byte{"system-id.conf": []byte(n.Node + "\n")}, Env: private(),
		Command: []string{
			f.programs.daemon, fmt.Sprintf("tcp:127.0.0.1:%d", databasePort), "--disable-system", "--unixctl={dir}/ctl", "-vsyslog:off", "-vconsole:warn",
		},
	}
	if err = f.start(ctx, n, server); err != nil {
		return err
	}
	// The switch tries again only after a second if nobody listens.
	err = f.until(ctx, "its database listens", func() error {
		conn, refused := dial(n, databasePort)
		if refused != nil {
			return refused
		}
		return conn.Close()
	})
	if err != nil {
		return err
	}
	return f.start(ctx, n, daemon)
}

// private keeps all that Open vSwitch's programs write in the process's folder.
func private() []string {
	return []string{"OVS_RUNDIR={dir}", "OVS_LOGDIR={dir}", "OVS_DBDIR={dir}", "OVS_SYSCONFDIR={dir}"}
}

func (f *fabric) start(ctx context.Context, n *network.Node, p model.Process) error {
	node, ok := n.Space.(model.Starter)
	if !ok {
		return &model.UnsupportedError{What: "the layer " + Name, Missing: "this target's nodes have no room for processes"}
	}
	running, err := node.Start(ctx, p)
	if err != nil {
		return err
	}
	f.running = append(f.running, running)
	return nil
}

// adopt waits for a node's switch and gives it what was the kernel's: the
// underlay's address, which the tunnels' end must have, and the way to other
// nodes' pods.
func (f *fabric) adopt(ctx context.Context, s *network.Site, n *network.Node) error {
	err := f.until(ctx, "its bridges are there", func() error {
		return network.In(n.Space, func(net *sys.Net) error {
			_, inner := net.Device(bridgeInt)
			_, outer := net.Device(bridgeExt)
			return errors.Join(inner, outer)
		})
	})
	if err == nil {
		err = f.until(ctx, "its switch has its ports", func() error { return f.ask(n, func(s *openflow.Switch) error { return f.hasPorts(s, n) }) })
	}
	if err != nil {
		return err
	}
	var addrs []netip.Prefix
	err = s.Change(n.Space, func(net *sys.Net) (err error) {
		if addrs, err = net.Addrs(n.Underlay); err != nil {
			return err
		}
		return errors.Join(deleteAddrs(net, n.Underlay, addrs), addAddrs(net, bridgeExt, addrs))
	}, func(net *sys.Net) error { return giveBack(net, s, n, addrs) })
	if err != nil {
		return err
	}
	return f.join(s, n)
}

// giveBack makes the underlay's device what it was. When the kernel takes the
// last address from a device, it forgets all neighbours and routes there.
func giveBack(net *sys.Net, s *network.Site, n *network.Node, addrs []netip.Prefix) error {
	if _, gone := net.Device(bridgeExt); gone == nil { // else the daemon is dead, and its devices with it
		if err := deleteAddrs(net, bridgeExt, addrs); err != nil {
			return err
		}
	}
	if err := addAddrs(net, n.Underlay, addrs); err != nil {
		return err
	}
	for _, other := range s.Nodes {
		if other == n {
			continue
		}
		if err := net.SetNeighbour(n.Underlay, other.Addr, sys.MAC(other.Addr)); err != nil {
			return err
		}
	}
	for _, other := range s.Others(n) {
		if err := net.ReplaceRoute(sys.RouteVia{To: other.Range, Via: other.Addr, Device: n.Underlay}); err != nil {
			return err
		}
	}
	return nil
}

func deleteAddrs(net *sys.Net, from string, addrs []netip.Prefix) error {
	var errs []error
	for _, a := range addrs {
		errs = append(errs, net.DeleteAddr(from, a))
	}
	return errors.Join(errs...)
}

func addAddrs(net *sys.Net, to string, addrs []netip.Prefix) error {
	errs := []error{net.Up(to)}
	for _, a := range addrs {
		errs = append(errs, net.AddAddr(to, a))
	}
	return errors.Join(errs...)
}

// join makes the switch the bridge's port, and the node send there what is for
// other nodes' pods.
func (*fabric) join(s *network.Site, n *network.Node) error {
	err := network.In(n.Space, func(net *sys.Net) error {
		bridge, err := net.Device(n.Bridge)
		if err != nil {
			return err
		}
		if err = errors.Join(net.SetMaster(bridgeInt, bridge.Index), net.Up(bridgeInt)); err != nil {
			return err
		}
		for _, other := range s.Nodes { // gone with the device
			if other == n {
				continue
			}
			if err := net.SetNeighbour(bridgeExt, other.Addr, sys.MAC(other.Addr)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, other := range s.Others(n) {
		over := sys.RouteVia{To: other.Range, Via: other.Gateway, Device: n.Bridge, OnLink: true}
		err := s.Change(n.Space, func(net *sys.Net) error {
			return errors.Join(net.SetNeighbour(n.Bridge, other.Gateway, sys.MAC(other.Gateway)), net.ReplaceRoute(over))
		}, func(net *sys.Net) error {
			return errors.Join(net.DeleteRoute(over), net.DeleteNeighbour(n.Bridge, other.Gateway))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// control starts a controller.
func (f *fabric) control(ctx context.Context, n *network.Node, p plan) error {
	process, err := controllerProcess(p)
	if err != nil {
		return err
	}
	return f.start(ctx, n, process)
}

func controllerProcess(p plan) (model.Process, error) {
	const file = "plan.json"
	raw, err := json.Marshal(p)
	if err != nil {
		return model.Process{}, fmt.Errorf("writing the controller's plan: %w", err)
	}
	return model.Process{
		Name: Command, Component: model.ComponentController, Files: map[string][]byte{file: raw}, Command: []string{"{self}", Command, "{dir}/" + file},
	}, nil
}

// endRevived ends controllers that a fault has killed and started again: they
// are not those that were started here. Mostly there are none, which is an
// error to a fault and none here; the site's own end would end them, too.
func (f *fabric) endRevived(ctx context.Context) {
	if f.mortal != nil {
		_, _, _ = f.mortal.KillComponent(ctx, model.ComponentController, nil)
	}
}
