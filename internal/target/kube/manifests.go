package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Scopes are those of a service in the clusters of the topology; see
// model.ManifestSite.
func (s *site) Scopes(service string) ([]model.Scope, error) {
	svc, err := s.Service(service)
	if err != nil {
		return nil, err
	}
	var all []model.Scope
	taken := map[*cluster]string{}
	for _, r := range s.topology.Regions {
		for _, cl := range r.Clusters {
			at, c := s.scope(cl, svc)
			if c == nil || !at.Clients && len(at.Pods) == 0 {
				continue
			}
			if other := taken[c]; other != "" {
				return nil, &model.UnsupportedError{
					What:    "a service over the clusters " + other + " and " + cl.Name + " of the topology",
					Missing: "a real cluster for each: both are zones of context " + c.context, Hint: "give one context for each cluster of the topology",
				}
			}
			taken[c] = cl.Name
			all = append(all, at)
		}
	}
	return all, nil
}

// scope is a service's in one cluster of the topology, which is a real one or
// has no nodes.
func (s *site) scope(of model.Cluster, svc model.Service) (at model.Scope, c *cluster) {
	at = model.Scope{
		Cluster: of.Name, Object: svc.Name + "-" + s.trial, AppProtocol: s.around.AppProtocol(),
		Selector: map[string]string{labelRun: s.target.id, labelTrial: s.trial, serviceLabel(svc.Name): "yes"},
	}
	for _, n := range of.Nodes {
		c = s.places[n.Name].cluster
		at.Namespace = c.namespace
		for _, p := range n.Pods {
			at.Clients = at.Clients || p.Role == model.RoleClient
			if slices.Contains(svc.Pods, p.Name) {
				at.Pods = append(at.Pods, s.pods[p.Name].addr)
			}
		}
	}
	slices.SortFunc(at.Pods, netip.Addr.Compare)
	return at, c
}

// Address keeps at which address clients reach a service, and by which name.
func (s *site) Address(service, host string, addr netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	svc := s.services[service]
	svc.VIP = addr
	if host != "" {
		svc.Host = host
	}
	s.services[service] = svc
}

// clusterOf finds the real cluster of one of the topology.
func (s *site) clusterOf(name string) (*cluster, error) {
	for _, r := range s.topology.Regions {
		for _, cl := range r.Clusters {
			for _, n := range cl.Nodes {
				if cl.Name == name {
					return s.places[n.Name].cluster, nil
				}
			}
		}
	}
	return nil, fmt.Errorf("the topology has no cluster %q with nodes", name)
}

// manager is who applied what, for the API server.
const manager = managed

// Apply makes an object by server-side apply; see model.ManifestSite.
func (s *site) Apply(ctx context.Context, name string, m model.Manifest) (undo func(context.Context) error, err error) {
	c, err := s.clusterOf(name)
	if err != nil {
		return nil, err
	}
	o := s.target.adopt(c, s.trial, m)
	what := o.GetKind() + " " + o.GetName() + " in namespace " + o.GetNamespace()
	objects, err := c.objects(ctx, o)
	if err != nil {
		return nil, err
	}
	err = c.try(ctx, "applying the "+what, func(ctx context.Context) error {
		_, failure := objects.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: manager, Force: true})
		return failure
	})
	if err != nil {
		return nil, moreRights(err)
	}
	return func(ctx context.Context) error {
		return c.try(ctx, "removing the "+what, func(ctx context.Context) error {
			return gone(objects.Delete(ctx, o.GetName(), metav1.DeleteOptions{}))
		})
	}, nil
}

// moreRights says where the permissions are that are not needed without meshes.
func moreRights(err error) error {
	if target, ok := errors.AsType[*model.TargetError](err); ok && target.Hint == "deploy/rbac.yaml has the permissions that are needed" {
		target.Hint = "deploy/rbac-mesh.yaml has the permissions that meshes and multi-cluster services need"
	}
	return err
}

// adopt is the manifest as an object of the run.
func (t *Target) adopt(c *cluster, trial string, m model.Manifest) *unstructured.Unstructured {
	o := (&unstructured.Unstructured{Object: m}).DeepCopy()
	mine := t.owned(c, o.GetName(), map[string]string{labelTrial: trial})
	all := maps.Clone(mine.Labels)
	maps.Copy(all, o.GetLabels())
	o.SetNamespace(mine.Namespace)
	o.SetLabels(all)
	o.SetOwnerReferences(mine.OwnerReferences)
	return o
}

// Read waits until an object is as it should be; see model.ManifestSite. One
// without a name is found by its labels.
func (s *site) Read(ctx context.Context, name string, m model.Manifest, good func(model.Manifest) bool) (model.Manifest, error) {
	c, err := s.clusterOf(name)
	if err != nil {
		return nil, err
	}
	want := (&unstructured.Unstructured{Object: m}).DeepCopy()
	if want.GetNamespace() == "" {
		want.SetNamespace(c.namespace)
	}
	objects, err := c.objects(ctx, want)
	if err != nil {
		return nil, err
	}
	what := want.GetKind() + " " + want.GetName() + labels.FormatLabels(want.GetLabels()) + " in namespace " + want.GetNamespace()
	for {
		var found []unstructured.Unstructured
		err = c.try(ctx, "reading the "+what, func(ctx context.Context) error {
			found, err = find(ctx, objects, want)
			return err
		})
		if err != nil {
			return nil, moreRights(err)
		}
		for _, o := range found {
			if good(o.Object) {
				return o.Object, nil
			}
		}
		if !wait(ctx, poll) {
			why := "it is not there"
			if len(found) > 0 {
				why = "it is there, but not ready: it has no address, or says so"
			}
			return nil, &model.TargetError{
				What: "context " + c.context + ": waiting for the " + what, Why: why,
				Hint: "what makes it (the mesh, or the implementation of multi-cluster services) may be missing, or not know all clusters",
			}
		}
	}
}

func find(ctx context.Context, objects dynamic.ResourceInterface, want *unstructured.Unstructured) ([]unstructured.Unstructured, error) {
	if want.GetName() == "" {
		list, err := objects.List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(want.GetLabels()).String()})
		if err != nil {
			return nil, err
		}
		return list.Items, nil
	}
	o, err := objects.Get(ctx, want.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []unstructured.Unstructured{*o}, nil
}

// objects are the API of an object's kind.
func (c *cluster) objects(ctx context.Context, o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	gv, err := schema.ParseGroupVersion(o.GetAPIVersion())
	if err != nil {
		return nil, fmt.Errorf("reading the version %q of a manifest: %w", o.GetAPIVersion(), err)
	}
	var resource string
	err = c.try(ctx, "asking for the API "+gv.String(), func(context.Context) error {
		list, failure := c.client.Discovery().ServerResourcesForGroupVersion(gv.String())
		if failure != nil {
			return gone(failure)
		}
		for _, r := range list.APIResources {
			if r.Kind == o.GetKind() && resource == "" {
				resource = r.Name
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if resource == "" {
		return nil, &model.UnsupportedError{
			What: "a " + o.GetKind() + " in context " + c.context, Missing: "the cluster does not have the API " + gv.String() + " " + o.GetKind(),
			Hint: "install what serves it (the mesh, the Gateway API, or an implementation of multi-cluster services)",
		}
	}
	return c.dynamic.Resource(gv.WithResource(resource)).Namespace(o.GetNamespace()), nil
}
