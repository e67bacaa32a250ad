package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/parallel"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// The roles of pods in a topology.
const (
	roleServer = "server"
)

const (
	poll = 100 * time.Millisecond
	// placing and starting are how long the scheduler and the kubelet may say
	// that they cannot, before it is taken for final: nodes come and go, and a
	// registry may hiccup.
	placing  = 5 * time.Second
	starting = 8 * time.Second
)

func (t *Target) provision(ctx context.Context, topology model.Topology, around model.Surroundings) (*site, error) {
	places, err := assign(topology, t.clusters)
	if err != nil {
		return nil, err
	}
	if err = t.removeStray(ctx); err != nil {
		return nil, err
	}
	s := &site{
		target: t, topology: topology, around: around, places: places, trial: strconv.Itoa(t.next()),
		pods: map[string]*pod{}, services: map[string]model.Service{}, logs: map[string]*sys.Tail{},
	}
	for _, svc := range topology.Services {
		s.services[svc.Name] = svc
	}
	if err = t.turn(ctx, around.Meshes); err != nil {
		return nil, err
	}
	if err = s.make(ctx); err != nil {
		return nil, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// removeStray removes what a site could not remove of itself.
func (t *Target) removeStray(ctx context.Context) error {
	t.mu.Lock()
	stray := t.stray
	t.mu.Unlock()
	if !stray {
		return nil
	}
	for _, c := range t.clusters {
		if err := c.removePods(ctx, labelRun+"="+t.id); err != nil {
			return err
		}
	}
	t.mu.Lock()
	t.stray = false
	t.mu.Unlock()
	return nil
}

// make makes the pods, waits for them, checks where they are and listens to
// their clocks.
func (s *site) make(ctx context.Context) error {
	for _, n := range s.topology.Nodes() {
		for _, spec := range n.Pods {
			c := s.places[n.Name].cluster
			s.pods[spec.Name] = &pod{site: s, name: spec.Name, object: spec.Name + "-" + s.trial, role: spec.Role, cluster: c}
			want := s.manifest(n.Name, spec)
			err := c.try(ctx, "making pod "+want.Name+" in namespace "+c.namespace, func(ctx context.Context) error {
				_, err := c.client.CoreV1().Pods(c.namespace).Create(ctx, want, metav1.CreateOptions{})
				return known(err)
			})
			if err != nil {
				return err
			}
		}
	}
	if err := s.awaitPods(ctx); err != nil {
		return err
	}
	if err := s.checkPlacement(ctx); err != nil {
		return err
	}
	if err := s.each(func(p *pod) error { return p.listen(ctx) }); err != nil {
		return err
	}
	if s.target.Faults {
		s.mirror.begin(ctx, s.update)
	}
	return nil
}

// each does something with all pods at once.
func (s *site) each(do func(*pod) error) error {
	return parallel.Each(slices.Collect(maps.Values(s.pods)), do)
}

// manifest is a pod that does nothing, within Pod Security's level restricted.
func (s *site) manifest(node string, spec model.PodSpec) *corev1.Pod {
	yes, no, user, grace := true, false, int64(65532), int64(1)
	t, at := s.target, s.places[node]
	t.mu.Lock()
	chosen := t.placement[node]
	t.mu.Unlock()
	same := map[string]string{labelRun: t.id, labelTrial: s.trial}
	labels := map[string]string{labelTrial: s.trial, labelPod: spec.Name, labelNode: node, labelCluster: at.name}
	for _, svc := range s.topology.Services {
		if slices.Contains(svc.Pods, spec.Name) {
			labels[serviceLabel(svc.Name)] = "yes"
		}
	}
	marks := t.marks(s.around.Meshes)
	maps.Copy(labels, marks.Labels)
	meta := t.owned(at.cluster, spec.Name+"-"+s.trial, labels)
	meta.Annotations = marks.Annotations
	token := slices.ContainsFunc(s.around.Meshes, func(m model.Mesh) bool { return m.Token })
	return &corev1.Pod{
		ObjectMeta: meta,
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &grace,
			AutomountServiceAccountToken: &token, EnableServiceLinks: &no,
			Affinity: affinity(same, node, chosen, at),
			// Users are the containers' own: those that meshes put in have others.
			SecurityContext: &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name: container(spec.Role), Image: t.kube.Image, ImagePullPolicy: corev1.PullIfNotPresent,
				Command:        []string{program, "pod", "idle"},
				ReadinessProbe: s.readiness(spec),
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
				}},
				SecurityContext: &corev1.SecurityContext{
					RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user,
					AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
				VolumeMounts: []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}},
			}},
			Volumes: []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
}

// program is where the image has this program.
const program = "/windtunnel"

// container is the name of the container of a pod, which is its component's.
func container(role string) string {
	if role == roleServer {
		return string(model.ComponentApp)
	}
	return string(model.ComponentGenerator)
}

func serviceLabel(service string) string { return "windtunnel.dev/service." + service }

// selector finds the site's pods.
func (s *site) selector() string {
	return labelRun + "=" + s.target.id + "," + labelTrial + "=" + s.trial
}

// awaitPods waits until all pods run, or one of them surely never will.
func (s *site) awaitPods(ctx context.Context) error {
	began := time.Now()
	for {
		waiting, err := s.look(ctx, time.Since(began))
		if err != nil || len(waiting) == 0 {
			return err
		}
		if !wait(ctx, poll) {
			return &model.TargetError{
				What: "waiting for pods", Why: fmt.Sprintf("not running after %s: %s", time.Since(began).Round(time.Second), strings.Join(waiting, "; ")),
				Hint: "the cluster may be short of resources, or the image large",
			}
		}
	}
}

// look reads the pods, and says which are not there yet.
func (s *site) look(ctx context.Context, after time.Duration) (waiting []string, err error) {
	objects, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range s.pods {
		o := objects[p.object]
		if o == nil {
			return nil, &model.TargetError{What: "waiting for pods", Why: "pod " + p.object + " was removed by somebody else", Lost: true}
		}
		why, final := stuck(o, after)
		if final {
			return nil, s.hopeless(ctx, p, o, why)
		}
		addr, err := netip.ParseAddr(o.Status.PodIP)
		if err != nil || o.Status.Phase != corev1.PodRunning || !s.up(o) {
			waiting = append(waiting, "pod "+o.Name+" "+string(o.Status.Phase)+" "+why)
			continue
		}
		p.addr, p.node, p.zone = addr, o.Spec.NodeName, o.Labels[keyZone]
	}
	slices.Sort(waiting)
	return waiting, nil
}

func (s *site) list(ctx context.Context) (map[string]*corev1.Pod, error) {
	objects := map[string]*corev1.Pod{}
	for _, c := range s.target.clusters {
		err := c.try(ctx, "looking at the run's pods", func(ctx context.Context) error {
			list, err := c.client.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: s.selector()})
			if err == nil {
				for i := range list.Items {
					objects[list.Items[i].Name] = &list.Items[i]
				}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return objects, nil
}

func ready(o *corev1.Pod) bool {
	return slices.ContainsFunc(o.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// stuck says what keeps a pod from running, and whether that is final.
func stuck(o *corev1.Pod, after time.Duration) (why string, final bool) {
	if o.Status.Phase == corev1.PodFailed || o.Status.Phase == corev1.PodSucceeded {
		return o.Status.Reason + " " + o.Status.Message, true
	}
	for _, c := range o.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Reason + ": " + c.Message, after > placing
		}
	}
	for _, c := range o.Status.ContainerStatuses {
		w := c.State.Waiting
		if w == nil {
			continue
		}
		why = w.Reason + ": " + w.Message
		switch w.Reason {
		case "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError":
			return why, true
		case "ErrImagePull", "ImagePullBackOff", "CreateContainerError", "RunContainerError", "CrashLoopBackOff":
			return why, after > starting
		}
	}
	return why, false
}

// hopeless explains a pod that will never run, with its events.
func (s *site) hopeless(ctx context.Context, p *pod, o *corev1.Pod, why string) error {
	e := &model.TargetError{What: fmt.Sprintf("context %s: starting pod %s", p.cluster.context, o.Name), Why: strings.TrimSpace(why)}
	if events := p.cluster.events(ctx, o); events != "" {
		e.Why += "; events: " + events
	}
	image := o.Spec.Containers[0].Image
	switch {
	case strings.Contains(why, "Image") || strings.Contains(why, "image"):
		e.Hint = "the image " + image + " must be on the nodes or where they can pull it: make image, then load or push it, and give --image"
	case strings.Contains(why, "Unschedulable"):
		e.Hint = "the topology wants its nodes to be different ones, with room for its pods; target.kube.nodes names nodes"
	case strings.Contains(why, "exec format") || strings.Contains(why, "no such file"):
		e.Hint = "the image is not one of windtunnel's, or for another architecture: make image"
	}
	return e
}

// events are what the cluster has said of a pod, the last first, each once.
func (c *cluster) events(ctx context.Context, o *corev1.Pod) string {
	const most = 4
	list, err := c.client.CoreV1().Events(c.namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + o.Name})
	if err != nil {
		return "not readable: " + err.Error()
	}
	slices.SortFunc(list.Items, func(a, b corev1.Event) int { return b.LastTimestamp.Compare(a.LastTimestamp.Time) })
	var all []string
	for _, e := range list.Items {
		text := e.Reason + ": " + e.Message
		if e.Type != corev1.EventTypeNormal && !slices.Contains(all, text) && len(all) < most {
			all = append(all, text)
		}
	}
	return strings.Join(all, "; ")
}

// removePods removes pods and returns when they are gone.
func (c *cluster) removePods(ctx context.Context, selector string) error {
	options := metav1.ListOptions{LabelSelector: selector}
	grace := int64(1)
	err := c.try(ctx, "removing pods from namespace "+c.namespace, func(ctx context.Context) error {
		return c.client.CoreV1().Pods(c.namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &grace}, options)
	})
	if err != nil {
		return err
	}
	for {
		left := 0
		err := c.try(ctx, "waiting for the end of pods", func(ctx context.Context) error {
			list, err := c.client.CoreV1().Pods(c.namespace).List(ctx, options)
			if err == nil {
				left = len(list.Items)
			}
			return err
		})
		if err != nil || left == 0 {
			return err
		}
		if !wait(ctx, poll) {
			return fmt.Errorf("context %s: %d pods have not gone: %w", c.context, left, context.Cause(ctx))
		}
	}
}
