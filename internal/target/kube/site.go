package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// site is a topology made of Kubernetes' pods.
type site struct {
	target   *Target
	topology model.Topology
	around   model.Surroundings
	places   map[string]place
	trial    string
	pods     map[string]*pod
	// reference is the pod whose clock readings have.
	reference string
	mirror    mirror
	// foreign says that others have put containers into the pods.
	foreign     bool
	foreignOnce sync.Once

	mu       sync.Mutex
	services map[string]model.Service
	logs     map[string]*sys.Tail
	started  []*started // what faults can end
	broken   string     // why the site is lost; empty: it is not known to be
	closed   bool
}

var (
	_ model.Site         = (*site)(nil)
	_ model.SampledSite  = (*site)(nil)
	_ model.LoggedSite   = (*site)(nil)
	_ model.FactSite     = (*site)(nil)
	_ model.LosableSite  = (*site)(nil)
	_ model.ClockedSite  = (*site)(nil)
	_ model.ServiceSite  = (*site)(nil)
	_ model.MeshSite     = (*site)(nil)
	_ model.ManifestSite = (*site)(nil)
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
	return nil, fmt.Errorf("the site has no pod %q; it has %s", name, strings.Join(slices.Sorted(maps.Keys(s.pods)), ", "))
}

// Service finds a service by name; it has a virtual address once it is exposed.
func (s *site) Service(name string) (model.Service, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if svc, ok := s.services[name]; ok {
		return svc, nil
	}
	return model.Service{}, fmt.Errorf("the site has no service %q; it has %s", name, strings.Join(slices.Sorted(maps.Keys(s.services)), ", "))
}

// adopt keeps a process's log.
func (s *site) adopt(name string, log *sys.Tail) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logs[name] = log
}

// Logs are what the processes printed.
func (s *site) Logs() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	logs := map[string][]byte{}
	for name, r := range s.logs {
		logs[name] = r.Bytes()
	}
	return logs
}

// lose keeps the first reason for which the site is lost.
func (s *site) lose(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == "" && !s.closed {
		s.broken = why
	}
}

// Lost says whether the site went away under what ran in it: a stream that
// broke, a pod that was evicted, an API server that does not answer.
func (s *site) Lost(ctx context.Context) error {
	const patience = 3 * time.Second
	lost := func(why string) error {
		return &model.TargetError{What: "keeping the site", Why: why, Hint: "the trial is run again", Lost: true}
	}
	s.mu.Lock()
	broken := s.broken
	s.mu.Unlock()
	if broken != "" {
		return lost(broken)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	objects, err := s.list(ctx)
	if err != nil {
		return lost(err.Error())
	}
	for _, p := range s.pods {
		o := objects[p.object]
		if o == nil {
			return lost("pod " + p.object + " was removed by somebody else")
		}
		if o.Status.Phase != corev1.PodRunning || o.DeletionTimestamp != nil {
			return lost(fmt.Sprintf("pod %s is %s: %s %s; events: %s", p.object, o.Status.Phase, o.Status.Reason, o.Status.Message, p.cluster.events(ctx, o)))
		}
	}
	return nil
}

// Facts say where pods are, what the clusters are, and what is not as on the lab.
func (s *site) Facts() model.Ledger {
	l := s.placementFacts()
	for _, c := range s.target.clusters {
		l = append(l, model.Fact{Layer: layer, Key: "version of context " + c.context, Value: c.version, Source: model.SourceConfig})
	}
	if len(s.topology.Links) > 0 || s.topology.MTU > 0 {
		l = append(l, model.Fact{
			Layer: layer, Key: "links", Source: model.SourceDeclared,
			Value: "those of the clusters; the topology's delays, losses, rates and MTU are for the lab and not made here",
		})
	}
	return l
}

// Close ends all processes and removes the pods.
func (s *site) Close(ctx context.Context) error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	if !first {
		return nil
	}
	s.mirror.end()
	var errs []error
	errs = append(errs, s.each(func(p *pod) error {
		if p.probe != nil {
			p.probe.close(ctx)
		}
		return nil
	}))
	for _, c := range s.target.clusters {
		errs = append(errs, c.removePods(ctx, s.selector()))
	}
	err := errors.Join(errs...)
	if err != nil {
		s.target.mu.Lock()
		s.target.stray = true // the next site removes them
		s.target.mu.Unlock()
		return fmt.Errorf("removing the site: %w", err)
	}
	return nil
}
