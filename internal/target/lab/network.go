package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/parallel"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// Addresses of a site. Every site has a fabric of its own, so all sites use
// the same ones.
const (
	fabricBridge = "fabric" // 172.18.0.0/16 joins the nodes
	fabricBits   = 16
	podBridge    = "cni0"
	podBits      = 22 // of a node's pods
	defaultMTU   = 1500
	// A bridge takes 1,023 ports.
	maxNodes       = 1000
	maxPodsPerNode = 1000
	maxServices    = 60_000
)

// fabricAddr is the address of node i on the fabric.
func fabricAddr(i int) netip.Addr { return nth(netip.AddrFrom4([4]byte{172, 18, 0, 0}), i+2) }

// podCIDR is the range of node i's pods: /22s from 10.128.0.0 on.
func podCIDR(i int) netip.Prefix {
	return netip.PrefixFrom(nth(netip.AddrFrom4([4]byte{10, 128, 0, 0}), i<<(32-podBits)), podBits)
}

// gateway is the address of a node in the range of its pods.
func gateway(pods netip.Prefix) netip.Addr { return nth(pods.Addr(), 1) }

// podAddr is the address of the i-th pod of a node.
func podAddr(pods netip.Prefix, i int) netip.Addr { return nth(pods.Addr(), i+2) }

// podPort is the node's end of the veth of its i-th pod.
func podPort(i int) string { return "p" + strconv.Itoa(i) }

// vip is the address of the i-th service, in Kubernetes' usual 10.96.0.0/16.
func vip(i int) netip.Addr { return nth(netip.AddrFrom4([4]byte{10, 96, 0, 0}), i+10) }

// nth counts addresses on from one.
func nth(from netip.Addr, n int) netip.Addr {
	b := from.As4()
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+uint32(n)) //nolint:gosec // bounded by the address plan
	return netip.AddrFrom4(b)
}

// supported says what of a topology this lab cannot make.
func supported(t model.Topology) error {
	nodes := t.Nodes()
	if len(nodes) > maxNodes {
		return tooMany("nodes", len(nodes), maxNodes)
	}
	if len(t.Services) > maxServices {
		return tooMany("services", len(t.Services), maxServices)
	}
	seen := map[string]bool{}
	for _, n := range nodes {
		if len(n.Pods) > maxPodsPerNode {
			return tooMany("pods on node "+n.Name, len(n.Pods), maxPodsPerNode)
		}
		for _, p := range n.Pods {
			if seen["pod "+p.Name] {
				return fmt.Errorf("the topology has two pods %q", p.Name)
			}
			seen["pod "+p.Name] = true
		}
		if seen["node "+n.Name] {
			return fmt.Errorf("the topology has two nodes %q", n.Name)
		}
		seen["node "+n.Name] = true
	}
	return nil
}

func tooMany(what string, n, limit int) error {
	return &model.UnsupportedError{
		What: fmt.Sprintf("a topology of %d %s", n, what), Missing: fmt.Sprintf("the lab holds %d", limit), Hint: "use more nodes, or several sites",
	}
}

// node is a machine of the lab: a namespace with a bridge for its pods and a
// device on the fabric.
type node struct {
	site *site
	name string
	ns   *sys.Netns
	addr netip.Addr
	pods netip.Prefix
	// network is that of its pods; other networks' pods have no routes here.
	network string
}

// Name is the node's name in the topology.
func (n *node) Name() string { return n.name }

// InNetwork runs f inside the node's namespace.
func (n *node) InNetwork(f func() error) error { return n.ns.Do(f) }

// Start runs a process in the node's namespace; its logs and its account are
// the node's.
func (n *node) Start(ctx context.Context, p model.Process) (model.Running, error) {
	return (&pod{site: n.site, name: n.name, ns: n.ns, addr: n.addr}).Start(ctx, p)
}

func (s *site) mtu() int {
	if s.topology.MTU == 0 {
		return defaultMTU
	}
	return s.topology.MTU
}

// build makes the topology: the fabric, then all nodes with their pods.
func (s *site) build(ctx context.Context) error {
	nodes := s.topology.Nodes()
	spaces, err := sys.NewNetnses(len(nodes) + 1)
	if err != nil {
		return err
	}
	s.fabric = spaces[0]
	places := s.topology.Places()
	for i, n := range nodes {
		s.nodes = append(s.nodes, &node{site: s, name: n.Name, ns: spaces[i+1], addr: fabricAddr(i), pods: podCIDR(i), network: places[i].Network})
	}
	if err := s.buildFabric(); err != nil {
		return err
	}
	if err := s.buildNodes(ctx, nodes); err != nil {
		return err
	}
	if err := s.startLinks(ctx); err != nil {
		return err
	}
	return s.fillServices()
}

// buildFabric joins the nodes by one bridge in a namespace of its own, or by one
// for each segment; see buildSegments.
func (s *site) buildFabric() error {
	net, err := sys.OpenNet(s.fabric)
	if err != nil {
		return err
	}
	defer net.Close()
	bridge, err := net.AddBridge(sys.Bridge{Name: fabricBridge, MTU: s.mtu()})
	if err != nil {
		return err
	}
	bridges, err := s.buildSegments(net, bridge)
	if err != nil {
		return err
	}
	for i, n := range s.nodes {
		v := sys.Veth{Name: nodePort + strconv.Itoa(i), Master: bridges[i], Peer: "eth0", PeerNS: n.ns, PeerAddr: n.addr, MTU: s.mtu()}
		if err := net.AddVeth(v); err != nil {
			return fmt.Errorf("connecting node %s: %w", n.name, err)
		}
	}
	return nil
}

// buildNodes configures nodes and their pods with two workers: the kernel's
// lock on network configuration leaves no use for more.
func (s *site) buildNodes(ctx context.Context, specs []model.Node) error {
	const workers = 2
	return parallel.Count(len(specs), workers, func(i int) error {
		if err := s.buildNode(ctx, s.nodes[i], specs[i]); err != nil {
			return fmt.Errorf("node %s: %w", specs[i].Name, err)
		}
		return nil
	})
}

func (s *site) buildNode(ctx context.Context, n *node, spec model.Node) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := n.ns.Do(makeRouter); err != nil {
		return err
	}
	net, err := sys.OpenNet(n.ns)
	if err != nil {
		return err
	}
	defer net.Close()
	if err = s.joinFabric(n, net); err != nil {
		return err
	}
	bridge, err := net.AddBridge(sys.Bridge{Name: podBridge, MTU: s.mtu(), Addr: netip.PrefixFrom(gateway(n.pods), podBits)})
	if err != nil {
		return err
	}
	return s.buildPods(n, net, bridge, spec.Pods)
}

// joinFabric makes a node know all others and the pods behind them.
func (s *site) joinFabric(n *node, net *sys.Net) error {
	if err := net.LoopbackUp(); err != nil {
		return err
	}
	eth0, err := net.Configure("eth0", netip.PrefixFrom(n.addr, fabricBits))
	if err != nil {
		return err
	}
	for _, other := range s.nodes {
		if other == n {
			continue
		}
		if err := net.Neighbour(eth0, other.addr); err != nil {
			return err
		}
		if other.network != n.network {
			continue
		}
		if err := net.Route(eth0, other.pods, other.addr); err != nil {
			return err
		}
	}
	return s.separate(n)
}

// makeRouter lets the calling thread's namespace forward. It tells no pod of a
// shorter way: what pods of one node send each other passes the node's rules too.
func makeRouter() error {
	return errors.Join(
		sys.WriteSysctl("net/ipv4/ip_forward", "1"),
		sys.WriteSysctl("net/ipv4/conf/all/send_redirects", "0"),
		sys.WriteSysctl("net/ipv4/conf/default/send_redirects", "0"),
	)
}

func (s *site) buildPods(n *node, net *sys.Net, bridge int, specs []model.PodSpec) error {
	ends := make([]sys.Endpoint, len(specs))
	for i := range specs {
		ends[i] = sys.Endpoint{Port: podPort(i), Addr: podAddr(n.pods, i), Gateway: gateway(n.pods)}
	}
	spaces, err := net.AddEndpoints(bridge, s.mtu(), ends)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, spec := range specs {
		s.pods[spec.Name] = &pod{site: s, name: spec.Name, ns: spaces[i], addr: ends[i].Addr}
	}
	return nil
}

func (s *site) fillServices() error {
	s.topology.Services = slices.Clone(s.topology.Services)
	for i := range s.topology.Services {
		svc := &s.topology.Services[i]
		for _, name := range svc.Pods {
			if s.pods[name] == nil {
				return fmt.Errorf("service %s has pod %q, which the topology does not", svc.Name, name)
			}
		}
		svc.VIP = vip(i)
		s.services[svc.Name] = *svc
	}
	return nil
}

// Wiring is how the site was made; see model.WiredSite.
func (s *site) Wiring() []model.Wiring {
	regions := map[string]string{}
	for _, r := range s.topology.Regions {
		for _, c := range r.Clusters {
			for _, n := range c.Nodes {
				regions[n.Name] = r.Name
			}
		}
	}
	specs := s.topology.Nodes()
	all := make([]model.Wiring, 0, len(s.nodes))
	for i, n := range s.nodes {
		w := model.Wiring{
			Node: n.name, Region: regions[n.name], Network: n.network, Underlay: "eth0", Addr: n.addr, MTU: s.mtu(),
			Bridge: podBridge, Gateway: gateway(n.pods), Range: n.pods,
		}
		for k, p := range specs[i].Pods {
			w.Pods = append(w.Pods, model.WiredPod{Name: p.Name, Device: podPort(k), Addr: podAddr(n.pods, k)})
		}
		all = append(all, w)
	}
	return all
}
