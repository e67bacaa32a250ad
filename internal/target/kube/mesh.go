package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/model"
)

// podSecurity is the strictest level that lets all meshes of the run into its
// namespace.
func (t *Target) podSecurity() string {
	const restricted = "restricted"
	for _, m := range t.Meshes {
		if m.PodSecurity != restricted {
			return m.PodSecurity
		}
	}
	return restricted
}

// marks are what pods say to be in some meshes, and out of all others of the run.
func (t *Target) marks(meshes []model.Mesh) model.Marks {
	all := model.Marks{Labels: map[string]string{}, Annotations: map[string]string{}}
	add := func(m model.Marks) {
		maps.Copy(all.Labels, m.Labels)
		maps.Copy(all.Annotations, m.Annotations)
	}
	for _, m := range t.Meshes {
		if !slices.ContainsFunc(meshes, func(in model.Mesh) bool { return in.Name == m.Name }) {
			add(m.Avoid)
		}
	}
	for _, m := range meshes {
		add(m.Join)
	}
	return all
}

// turn makes the run's own namespaces say which meshes take the pods that are
// made next. Pods say it, too: that is all where the namespace is not the run's.
func (t *Target) turn(ctx context.Context, meshes []model.Mesh) error {
	patch := switches(t.Meshes, meshes)
	if patch == nil {
		return nil
	}
	raw, err := json.Marshal(map[string]any{"metadata": patch})
	if err != nil {
		return fmt.Errorf("encoding the labels of a namespace: %w", err)
	}
	for _, c := range t.clusters {
		if !c.made {
			continue
		}
		err = c.try(ctx, "labelling the namespace "+c.namespace+" for meshes", func(ctx context.Context) error {
			_, failure := c.client.CoreV1().Namespaces().Patch(ctx, c.namespace, types.MergePatchType, raw, metav1.PatchOptions{})
			return failure
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// switches are a namespace's labels and annotations: those of some meshes, and
// none of the others of the run. nil: there is nothing to say.
func switches(all, in []model.Mesh) map[string]map[string]any {
	patch := map[string]map[string]any{}
	say := func(kind string, marks map[string]string, on bool) {
		for key, value := range marks {
			if patch[kind] == nil {
				patch[kind] = map[string]any{}
			}
			if patch[kind][key] = nil; on {
				patch[kind][key] = value
			}
		}
	}
	for i, meshes := range [][]model.Mesh{all, in} {
		for _, m := range meshes {
			say("labels", m.Switch.Labels, i == 1)
			say("annotations", m.Switch.Annotations, i == 1)
		}
	}
	if len(patch) == 0 {
		return nil
	}
	return patch
}

// tryMeshes makes one site in each mesh of the run, so that what is missing is
// said before the first trial.
func (t *Target) tryMeshes(ctx context.Context, topology model.Topology) error {
	for _, m := range t.Meshes {
		s, err := t.provision(ctx, topology, model.Surroundings{Meshes: []model.Mesh{m}})
		if err != nil {
			return fmt.Errorf("making a site in the mesh %s: %w", m.Name, err)
		}
		_, err = s.Joined(ctx, m)
		if failure := s.Close(ctx); err == nil {
			err = failure
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *site) serviceMarks() model.Marks {
	all := model.Marks{Labels: map[string]string{}, Annotations: map[string]string{}}
	for _, m := range s.around.Meshes {
		maps.Copy(all.Labels, m.Service.Labels)
		maps.Copy(all.Annotations, m.Service.Annotations)
	}
	return all
}

func (s *site) appProtocol() *string {
	if p := s.around.AppProtocol(); p != "" {
		return &p
	}
	return nil
}

// Joined waits until the mesh's workloads are available and all pods are in it;
// see model.MeshSite.
func (s *site) Joined(ctx context.Context, m model.Mesh) (model.Ledger, error) {
	how := "as found"
	if len(m.Charts) > 0 {
		how = "installed by Helm for this run"
	}
	l := model.Ledger{{Layer: m.Name, Key: "mesh", Value: m.Mode + ", " + how, Source: model.SourceDeclared}}
	for _, c := range s.used() {
		facts, err := c.available(ctx, m)
		if err != nil {
			return nil, err
		}
		l = append(l, facts...)
	}
	facts, err := s.inside(ctx, m)
	return append(l, facts...), err
}

// used are the clusters that have pods of the site.
func (s *site) used() []*cluster {
	var all []*cluster
	for _, c := range s.target.clusters {
		for _, p := range s.pods {
			if p.cluster == c && !slices.Contains(all, c) {
				all = append(all, c)
			}
		}
	}
	return all
}

// inside waits until all pods show that the mesh has taken them.
func (s *site) inside(ctx context.Context, m model.Mesh) (model.Ledger, error) {
	if m.Container == "" && m.Annotation[0] == "" {
		return nil, nil
	}
	for {
		objects, err := s.list(ctx)
		if err != nil {
			return nil, err
		}
		images, missing := map[string]bool{}, ""
		for _, p := range s.pods {
			image, ok := taken(objects[p.object], m)
			if !ok {
				missing = p.object
			}
			images[image] = true
		}
		if missing == "" {
			return proxies(m, images), nil
		}
		// Proxies come with the pod or never; what node agents do comes later.
		if m.Container != "" || !wait(ctx, poll) {
			return nil, outside(m, missing)
		}
	}
}

// taken says whether a mesh has taken a pod, and the image of its proxy there.
func taken(o *corev1.Pod, m model.Mesh) (image string, ok bool) {
	if o == nil {
		return "", false
	}
	if m.Container == "" {
		return "", o.Annotations[m.Annotation[0]] == m.Annotation[1]
	}
	for _, c := range slices.Concat(o.Spec.Containers, o.Spec.InitContainers) {
		if c.Name == m.Container {
			return c.Image, true
		}
	}
	return "", false
}

func proxies(m model.Mesh, images map[string]bool) model.Ledger {
	if m.Container == "" {
		return model.Ledger{{Layer: m.Name, Key: "taken by the mesh", Value: m.Annotation[0] + "=" + m.Annotation[1] + " on all pods", Source: model.SourceConfig}}
	}
	return model.Ledger{{
		Layer: m.Name, Key: model.FactProgram, Value: m.Container + " in all pods, " + strings.Join(slices.Sorted(maps.Keys(images)), ", "), Source: model.SourceConfig,
	}}
}

func outside(m model.Mesh, pod string) error {
	missing := "the pod " + pod + " got no container " + m.Container
	if m.Container == "" {
		missing = "the pod " + pod + " did not get the annotation " + m.Annotation[0] + "=" + m.Annotation[1]
	}
	return &model.UnsupportedError{
		What: "the mesh " + m.Name + " (" + m.Mode + ")", Missing: missing + ": nothing in the cluster took it into the mesh",
		Hint: "install the mesh, or let the layer do it with installed: helm; in a namespace that is given, its webhooks must not leave that out",
	}
}

// workload is what is read of a Deployment or a DaemonSet.
type workload struct {
	image        string
	ready, wants int32
}

// available waits until the mesh's workloads are, by their own readiness probes.
func (c *cluster) available(ctx context.Context, m model.Mesh) (model.Ledger, error) {
	var l model.Ledger
	for _, w := range m.Workloads {
		what := w.Kind + " " + w.Name + " in namespace " + m.Namespace
		fact := model.Fact{Layer: m.Name, Key: strings.ToLower(w.Kind) + " " + w.Name + " of context " + c.context, Source: model.SourceConfig}
		for {
			is, err := c.workload(ctx, m.Namespace, w)
			switch {
			case apierrors.IsForbidden(err):
				fact.Value = "not looked at: no permission to read the " + what + " (deploy/rbac-mesh.yaml grants it)"
			case apierrors.IsNotFound(err) && w.Optional:
				fact.Value = "none"
			case apierrors.IsNotFound(err):
				return nil, &model.UnsupportedError{
					What: "the mesh " + m.Name + " in context " + c.context, Missing: "there is no " + what,
					Hint: "install the mesh, or let the layer do it with installed: helm",
				}
			case err != nil:
				return nil, c.explain("reading the "+what, err)
			case is.wants > 0 && is.ready >= is.wants:
				fact.Value = strconv.Itoa(int(is.ready)) + " ready, " + is.image
			}
			if fact.Value != "" {
				break
			}
			if !wait(ctx, poll) {
				return nil, &model.TargetError{
					What: "context " + c.context + ": waiting for the " + what, Why: fmt.Sprintf("%d of %d pods are ready", is.ready, is.wants), Hint: "look at its pods and their events",
				}
			}
		}
		l = append(l, fact)
	}
	return l, nil
}

func (c *cluster) workload(ctx context.Context, namespace string, w model.Workload) (is workload, err error) {
	if w.Kind == "DaemonSet" {
		d, failure := c.client.AppsV1().DaemonSets(namespace).Get(ctx, w.Name, metav1.GetOptions{})
		if failure != nil {
			return is, failure
		}
		return workload{image(d.Spec.Template.Spec), d.Status.NumberReady, d.Status.DesiredNumberScheduled}, nil
	}
	d, err := c.client.AppsV1().Deployments(namespace).Get(ctx, w.Name, metav1.GetOptions{})
	if err != nil {
		return is, err
	}
	is = workload{image(d.Spec.Template.Spec), d.Status.AvailableReplicas, 1}
	if d.Spec.Replicas != nil {
		is.wants = *d.Spec.Replicas
	}
	return is, nil
}

func image(s corev1.PodSpec) string {
	if len(s.Containers) == 0 {
		return "no containers"
	}
	return s.Containers[0].Image
}
