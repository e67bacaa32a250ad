package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

var _ model.Mortal = (*pod)(nil)

// started is a process that a fault can end, and start again.
type started struct {
	pod     *pod
	spec    model.Process
	running *running
}

func (s *site) keep(p *started) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = append(s.started, p)
}

// living are the pod's processes that have not ended.
func (p *pod) living() ([]*started, error) {
	if p.role == model.RoleClient {
		return nil, fmt.Errorf("pod %s sends the load: without it nobody would see what happens", p.name)
	}
	p.site.mu.Lock()
	defer p.site.mu.Unlock()
	var all []*started
	for _, one := range p.site.started {
		select {
		case <-one.running.Done():
		default:
			if one.pod == p {
				all = append(all, one)
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("pod %s has no process to harm", p.name)
	}
	return all, nil
}

// Kill ends the app's processes by SIGKILL; see model.Mortal. The pod stays: its
// kernel resets connections and refuses new ones, and the kubelet finds it not
// ready, as when a program crashes that does not come back.
func (p *pod) Kill(ctx context.Context, power bool) (revive func(context.Context) error, err error) {
	if power {
		return nil, &model.UnsupportedError{What: "the loss of power of pod " + p.name, Missing: "pods of Kubernetes cannot be cut off without NET_ADMIN", Hint: "say power: false"}
	}
	victims, err := p.living()
	if err != nil {
		return nil, err
	}
	var once sync.Once
	revive = func(ctx context.Context) (err error) {
		once.Do(func() {
			for _, v := range victims {
				_, failure := p.Start(ctx, v.spec)
				err = errors.Join(err, failure)
			}
		})
		return err
	}
	var errs []error
	for _, v := range victims {
		errs = append(errs, v.kill(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("killing pod %s: %w", p.name, err)
	}
	return revive, nil
}

// kill returns when the process has ended.
func (v *started) kill(ctx context.Context) error {
	v.running.expect()
	if err := v.signal(ctx, "kill"); err != nil {
		return err
	}
	select {
	case <-v.running.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// signal sends one to the process, from within its pod.
func (v *started) signal(ctx context.Context, name string) error {
	log := sys.NewTail(sys.LogLimit)
	r, err := v.pod.exec(ctx, log, program, "pod", "signal", strconv.Itoa(v.running.pid), name)
	if err != nil {
		return err
	}
	r.expect()
	_, _ = io.Copy(io.Discard, r.out) // it says nothing, and ends
	if err = r.Stop(ctx); err != nil {
		return err
	}
	if said := log.Line(); said != "" {
		return errors.New(said)
	}
	return nil
}

// Suspend stops the app's processes by SIGSTOP; see model.Mortal. Their kernel
// goes on to take connections, so that no kubelet notices.
func (p *pod) Suspend(ctx context.Context) (resume func(context.Context) error, err error) {
	victims, err := p.living()
	if err != nil {
		return nil, err
	}
	each := func(ctx context.Context, name string) error {
		var errs []error
		for _, v := range victims {
			errs = append(errs, v.signal(ctx, name))
		}
		return errors.Join(errs...)
	}
	if err := each(ctx, "stop"); err != nil {
		return nil, errors.Join(fmt.Errorf("stopping pod %s: %w", p.name, err), each(context.WithoutCancel(ctx), "continue"))
	}
	return func(ctx context.Context) error { return each(ctx, "continue") }, nil
}

// expect says that the process is going to end, which then is no failure.
func (r *running) expect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = true
}

// readiness is how the kubelet finds out that a server has died: the quickest
// that Kubernetes has. Without faults there is none: it would be a load.
func (s *site) readiness(spec model.PodSpec) *corev1.Probe {
	for _, svc := range s.topology.Services {
		for _, p := range svc.Pods {
			if p == spec.Name && s.target.Faults {
				return &corev1.Probe{
					ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(int32(svc.TargetPort))}},
					PeriodSeconds: 1, TimeoutSeconds: 1, FailureThreshold: 1, SuccessThreshold: 1,
				}
			}
		}
	}
	return nil
}

// up says whether a pod can be worked in: where servers are probed, it is ready
// only once its server is there.
func (s *site) up(o *corev1.Pod) bool {
	if !s.target.Faults {
		return ready(o)
	}
	for _, c := range o.Status.ContainerStatuses {
		if !c.Ready && (c.Name != container(roleServer) || c.State.Running == nil) {
			return false
		}
	}
	return len(o.Status.ContainerStatuses) > 0
}

// mirror keeps EndpointSlices that we have written as Kubernetes keeps its own.
type mirror struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// mirrorEvery is how often pods are looked at: what a controller that watches
// learns at once is learnt that much later.
const mirrorEvery = 200 * time.Millisecond

func (m *mirror) begin(ctx context.Context, update func(context.Context) error) {
	ctx, m.cancel = context.WithCancel(context.WithoutCancel(ctx))
	m.done.Go(func() {
		for wait(ctx, mirrorEvery) {
			_ = update(ctx) // if it fails, the next may not; the ready gate sees what stays wrong
		}
	})
}

func (m *mirror) end() {
	if m.cancel != nil {
		m.cancel()
		m.done.Wait()
	}
}

// update takes pods that are not ready out of the site's own EndpointSlices, and
// puts those that are back: controllers of multi-cluster services do this, and
// Kubernetes does it within a cluster.
func (s *site) update(ctx context.Context) error {
	objects, err := s.list(ctx)
	if err != nil {
		return err
	}
	alive := map[string]bool{}
	for _, p := range s.pods {
		if o := objects[p.object]; o != nil {
			alive[p.addr.String()] = ready(o)
		}
	}
	ours := metav1.ListOptions{LabelSelector: strings.Join([]string{s.selector(), discoveryv1.LabelManagedBy + "=" + managed + ".dev"}, ",")}
	var errs []error
	for _, c := range s.target.clusters {
		slices, err := c.client.DiscoveryV1().EndpointSlices(c.namespace).List(ctx, ours)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for i := range slices.Items {
			if o := &slices.Items[i]; refresh(o, alive) {
				_, err := c.client.DiscoveryV1().EndpointSlices(c.namespace).Update(ctx, o, metav1.UpdateOptions{})
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// refresh sets which endpoints are ready, and says whether any has changed.
func refresh(o *discoveryv1.EndpointSlice, alive map[string]bool) (changed bool) {
	for i := range o.Endpoints {
		e := &o.Endpoints[i]
		if len(e.Addresses) == 0 {
			continue
		}
		now, known := alive[e.Addresses[0]]
		if was := e.Conditions.Ready == nil || *e.Conditions.Ready; known && was != now {
			e.Conditions.Ready = &now
			changed = true
		}
	}
	return changed
}
