package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sample/host"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// Addresses of a site. Every site has its own fabric, so all sites share them.
const (
	fabricBridge = "fabric"
	podBridge    = "cni0"
	podBits      = 22 // 1,022 pods a node: a bridge takes 1,023 ports
	defaultMTU   = 1500
	maxNodes     = 4096
)

// Site is a topology made of namespaces.
type site struct {
	target   *Target
	name     string
	topology model.Topology
	fabric   *sys.Netns
	nodes    []*node
	pods     map[string]*pod
	services map[string]model.Service

	mu     sync.Mutex
	procs  []*running
	groups map[string]*sys.Cgroup // by "pod/component"
	logs   map[string]*ring
	serial int
	closed bool
}

var (
	_ model.Site        = (*site)(nil)
	_ model.NodeSite    = (*site)(nil)
	_ model.SampledSite = (*site)(nil)
	_ model.LoggedSite  = (*site)(nil)
	_ model.Pod         = (*pod)(nil)
	_ model.Namespace   = (*pod)(nil)
	_ model.Namespace   = (*node)(nil)
)

// node is a machine of the lab: a namespace with a bridge for its pods and a
// device on the fabric.
type node struct {
	name   string
	number int
	ns     *sys.Netns
	addr   netip.Addr
	pods   netip.Prefix
}

// Name is the node's name in the topology.
func (n *node) Name() string { return n.name }

// InNetwork runs f inside the node's namespace.
func (n *node) InNetwork(f func() error) error { return n.ns.Do(f) }

// fabricAddr is the address of node i on the fabric, 172.18.0.0/16.
func fabricAddr(i int) netip.Addr {
	n := i + 2
	return netip.AddrFrom4([4]byte{172, 18, byte(n >> 8), byte(n)})
}

// podCIDR is the range of node i's pods: /22s from 10.128.0.0 on.
func podCIDR(i int) netip.Prefix {
	base := uint32(10)<<24 | 128<<16 + uint32(i)<<(32-podBits)
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(base >> 24), byte(base >> 16), byte(base >> 8), byte(base)}), podBits)
}

// host returns the k-th address of a range; 1 is the node's own.
func hostAddr(p netip.Prefix, k int) netip.Addr {
	b := p.Addr().As4()
	v := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3]) + uint32(k)
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
}

// vip is the address of the i-th service, in Kubernetes' usual 10.96.0.0/12.
func vip(i int) netip.Addr {
	n := i + 10
	return netip.AddrFrom4([4]byte{10, 96, byte(n >> 8), byte(n)})
}

func (s *site) mtu() int {
	if s.topology.MTU == 0 {
		return defaultMTU
	}
	return s.topology.MTU
}

func (s *site) build(ctx context.Context) error {
	s.pods, s.services, s.groups = map[string]*pod{}, map[string]model.Service{}, map[string]*sys.Cgroup{}
	nodes := s.topology.Nodes()
	if len(nodes) > maxNodes {
		return fmt.Errorf("%d nodes: the lab's address plan holds %d", len(nodes), maxNodes)
	}
	spaces, err := sys.NewNetnses(len(nodes) + 1)
	if err != nil {
		return err
	}
	s.fabric = spaces[0]
	for i, n := range nodes {
		s.nodes = append(s.nodes, &node{name: n.Name, number: i, ns: spaces[i+1], addr: fabricAddr(i), pods: podCIDR(i)})
	}
	if err := s.buildFabric(); err != nil {
		return err
	}
	if err := s.buildNodes(ctx, nodes); err != nil {
		return err
	}
	return s.fillServices()
}

// buildFabric joins the nodes by one bridge in a namespace of its own.
func (s *site) buildFabric() error {
	net, err := sys.OpenNet(s.fabric)
	if err != nil {
		return err
	}
	defer net.Close()
	bridge, err := net.Bridge(fabricBridge, s.mtu())
	if err != nil {
		return err
	}
	for _, n := range s.nodes {
		v := sys.Veth{Name: "n" + strconv.Itoa(n.number), Master: bridge, Peer: "eth0", PeerNS: n.ns, MTU: s.mtu()}
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
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	next := make(chan int, len(specs))
	for i := range specs {
		next <- i
	}
	close(next)
	for range workers {
		wg.Go(func() {
			for i := range next {
				pods, err := s.buildNode(ctx, s.nodes[i], specs[i])
				mu.Lock()
				for _, p := range pods {
					s.pods[p.name] = p
				}
				if err != nil {
					errs = append(errs, fmt.Errorf("node %s: %w", specs[i].Name, err))
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *site) buildNode(ctx context.Context, n *node, spec model.Node) ([]*pod, error) {
	if err := n.ns.Do(func() error { return sys.WriteSysctl("net/ipv4/ip_forward", "1") }); err != nil {
		return nil, err
	}
	net, err := sys.OpenNet(n.ns)
	if err != nil {
		return nil, err
	}
	defer net.Close()
	if err := net.LoopbackUp(); err != nil {
		return nil, err
	}
	eth0, err := net.Configure("eth0", netip.PrefixFrom(n.addr, 16))
	if err != nil {
		return nil, err
	}
	for _, other := range s.nodes {
		if other == n {
			continue
		}
		if err := net.Route(eth0, other.pods, other.addr); err != nil {
			return nil, err
		}
	}
	bridge, err := net.Bridge(podBridge, s.mtu())
	if err != nil {
		return nil, err
	}
	if err := net.ConfigureIndex(bridge, netip.PrefixFrom(hostAddr(n.pods, 1), podBits)); err != nil {
		return nil, err
	}
	return s.buildPods(ctx, n, net, bridge, spec.Pods)
}

func (s *site) buildPods(ctx context.Context, n *node, net *sys.Net, bridge int, specs []model.PodSpec) ([]*pod, error) {
	spaces, err := sys.NewNetnses(len(specs))
	if err != nil {
		return nil, err
	}
	pods := make([]*pod, len(specs))
	for i, spec := range specs {
		pods[i] = &pod{site: s, node: n, name: spec.Name, ns: spaces[i], addr: hostAddr(n.pods, i+2)}
	}
	for i, p := range pods {
		if err := ctx.Err(); err != nil {
			return pods, err
		}
		v := sys.Veth{Name: "p" + strconv.Itoa(i), Master: bridge, Peer: "eth0", PeerNS: p.ns, MTU: s.mtu()}
		if err := net.AddVeth(v); err != nil {
			return pods, fmt.Errorf("connecting pod %s: %w", p.name, err)
		}
		if err := p.configure(); err != nil {
			return pods, fmt.Errorf("pod %s: %w", p.name, err)
		}
	}
	return pods, nil
}

func (s *site) fillServices() error {
	for i, svc := range s.topology.Services {
		for _, name := range svc.Pods {
			if s.pods[name] == nil {
				return fmt.Errorf("service %s has pod %q, which the topology does not", svc.Name, name)
			}
		}
		svc.VIP = vip(i)
		s.services[svc.Name] = svc
	}
	return nil
}

// Topology is the blueprint that the site was made from.
func (s *site) Topology() model.Topology { return s.topology }

// Pod finds a pod by name.
func (s *site) Pod(name string) (model.Pod, error) {
	if p := s.pods[name]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("the site has no pod %q", name)
}

// Node finds a node by name.
func (s *site) Node(name string) (model.Namespace, error) {
	for _, n := range s.nodes {
		if n.name == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("the site has no node %q", name)
}

// Service finds a service by name, with its VIP.
func (s *site) Service(name string) (model.Service, error) {
	if svc, ok := s.services[name]; ok {
		return svc, nil
	}
	return model.Service{}, fmt.Errorf("the site has no service %q", name)
}

// Samplers are one for each component that has run, and one for the host.
func (s *site) Samplers() []model.Sampler {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []model.Sampler{host.Sampler{}}
	return append(all, componentSamplers(s.groups)...)
}

// Unavailable says what this host cannot tell.
func (s *site) Unavailable() []string {
	if s.target.cgroups == nil {
		return []string{"CPU and memory per component: not available here (" + s.target.noGroup + ")"}
	}
	return nil
}

// Logs returns what the processes printed.
func (s *site) Logs() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	logs := map[string][]byte{}
	for name, r := range s.logs {
		logs[name] = r.Bytes()
	}
	return logs
}

// Close ends all processes and lets go of all namespaces; the kernel removes
// what is in them.
func (s *site) Close(ctx context.Context) error {
	s.mu.Lock()
	procs, groups, first := s.procs, s.groups, !s.closed
	s.procs, s.groups, s.closed = nil, nil, true
	s.mu.Unlock()
	if !first {
		return nil
	}
	var errs []error
	var wg sync.WaitGroup
	stopped := make([]error, len(procs))
	for i, p := range procs {
		wg.Go(func() { stopped[i] = p.Stop(ctx) })
	}
	wg.Wait()
	errs = append(errs, stopped...)
	for _, g := range groups {
		errs = append(errs, g.Kill(), g.Remove())
	}
	errs = append(errs, s.removePodGroups()...)
	for _, p := range s.pods {
		errs = append(errs, p.ns.Close())
	}
	for _, n := range s.nodes {
		errs = append(errs, n.ns.Close())
	}
	if s.fabric != nil {
		errs = append(errs, s.fabric.Close())
	}
	return errors.Join(errs...)
}

// removePodGroups removes the folders above the components' groups.
func (s *site) removePodGroups() []error {
	if s.target.cgroups == nil {
		return nil
	}
	var errs []error
	for _, dir := range s.target.cgroups.Dirs(filepath.Join(s.target.id, s.name)) {
		errs = append(errs, sys.RemoveCgroup(dir))
	}
	return errs
}
