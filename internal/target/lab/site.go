package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/parallel"
	"github.com/windtunnel/windtunnel/internal/sample/cgroup"
	"github.com/windtunnel/windtunnel/internal/sample/host"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// Site is a topology made of namespaces.
type site struct {
	target   *Target
	name     string
	topology model.Topology
	fabric   *sys.Netns
	links    *links
	nodes    []*node
	cgroup   *sys.Cgroup // nil: none
	pods     map[string]*pod
	services map[string]model.Service

	mu     sync.Mutex
	procs  []*running
	groups map[string]*sys.Cgroup // by "pod/component"
	limits model.ComponentLimits
	logs   map[string]*sys.Tail
	serial int
	closed bool

	// reading is held while somebody looks at the devices, who must not meet
	// namespaces that are being let go.
	reading sync.Mutex
}

var (
	_ model.Site        = (*site)(nil)
	_ model.NodeSite    = (*site)(nil)
	_ model.SampledSite = (*site)(nil)
	_ model.LoggedSite  = (*site)(nil)
	_ model.WiredSite   = (*site)(nil)
	_ model.LimitedSite = (*site)(nil)
	_ model.Starter     = (*node)(nil)
	_ model.Pod         = (*pod)(nil)
	_ model.Namespace   = (*pod)(nil)
	_ model.Namespace   = (*node)(nil)
)

// Topology is the blueprint that the site was made from.
func (s *site) Topology() model.Topology { return s.topology }

// Pod finds a pod by name.
func (s *site) Pod(name string) (model.Pod, error) {
	p, err := s.pod(name)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (s *site) pod(name string) (*pod, error) {
	if p := s.pods[name]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("the site has no pod %q; it has %s", name, known(slices.Sorted(maps.Keys(s.pods))))
}

// known names what there is, or the first of many.
func known(names []string) string {
	const most = 10
	if n := len(names); n > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), n-most)
	}
	return strings.Join(names, ", ")
}

// Node finds a node by name.
func (s *site) Node(name string) (model.Namespace, error) {
	var names []string
	for _, n := range s.nodes {
		if n.name == name {
			return n, nil
		}
		names = append(names, n.name)
	}
	return nil, fmt.Errorf("the site has no node %q; it has %s", name, known(names))
}

// Service finds a service by name, with its VIP.
func (s *site) Service(name string) (model.Service, error) {
	if svc, ok := s.services[name]; ok {
		return svc, nil
	}
	return model.Service{}, fmt.Errorf("the site has no service %q; it has %s", name, known(slices.Sorted(maps.Keys(s.services))))
}

// Samplers are one for all components, those that start later included, one for
// the host, and one for the traffic.
func (s *site) Samplers() []model.Sampler {
	all := []model.Sampler{host.Sampler{}}
	if s.cgroup != nil {
		all = append(all, cgroup.Sampler{Subjects: s.subjects})
	}
	return append(append(all, s.linkSamplers()...), s.trafficSamplers()...)
}

// subjects are the components that have run, by name.
func (s *site) subjects() []cgroup.Subject {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]cgroup.Subject, 0, len(s.groups))
	for name, g := range s.groups {
		all = append(all, cgroup.Subject{Name: name, Group: g})
	}
	slices.SortFunc(all, func(a, b cgroup.Subject) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Unavailable says what this host cannot tell.
func (s *site) Unavailable() []string {
	var all []string
	if s.cgroup == nil {
		all = append(all, "CPU and memory per component: not available here: "+strings.ReplaceAll(s.target.noGroup, "\n", "; "))
	}
	if why := s.trafficUnavailable(); why != "" {
		all = append(all, why)
	}
	return all
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

// Close ends all processes and lets go of all namespaces; it returns when the
// kernel has removed what was in them.
func (s *site) Close(ctx context.Context) error {
	s.mu.Lock()
	procs, first := s.procs, !s.closed
	s.procs, s.closed = nil, true
	s.mu.Unlock()
	if !first {
		return nil
	}
	stopped := parallel.Each(procs, func(r *running) error { return r.Stop(ctx) })
	if err := errors.Join(stopped, s.links.stop(ctx), s.cgroup.Remove(), s.closeNetwork(ctx)); err != nil {
		return fmt.Errorf("removing the site: %w", err)
	}
	return nil
}

// closeNetwork lets go of pods first and of the fabric last: devices on it are
// gone when the nodes are, and pods are gone when nodes are.
func (s *site) closeNetwork(ctx context.Context) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	var errs []error
	for _, p := range s.pods {
		errs = append(errs, p.ns.Close())
	}
	for _, n := range s.nodes {
		errs = append(errs, n.ns.Close())
	}
	if s.fabric != nil {
		errs = append(errs, s.awaitNodes(ctx), s.fabric.Close())
	}
	return errors.Join(errs...)
}

// awaitNodes returns when the fabric has no node left. The kernel removes all
// namespaces of a host one after the other: where several labs end at once, or
// the host is busy, that takes its time.
func (s *site) awaitNodes(ctx context.Context) error {
	const patience, pause = time.Minute, 5 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	net, err := sys.OpenNet(s.fabric)
	if err != nil {
		return err
	}
	defer net.Close()
	for {
		links, err := net.Links()
		if err != nil {
			return err
		}
		left := slices.DeleteFunc(links, func(name string) bool { return !strings.HasPrefix(name, nodePort) })
		if len(left) == 0 {
			return nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return fmt.Errorf("the kernel still holds %d nodes after %v: something else holds their namespaces", len(left), patience)
		}
	}
}
