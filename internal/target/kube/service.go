package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windtunnel/windtunnel/internal/model"
)

// exposed is one Service that stands for a service of the topology.
type exposed struct {
	service model.Service
	cluster *cluster
	object  string
	address netip.Addr
}

// Expose makes a Service with a cluster IP for every service, in every cluster
// that has clients. Pods of the same cluster are its endpoints by selector, as
// everywhere; those of other clusters by an EndpointSlice of ours, as
// multi-cluster implementations do it.
func (s *site) Expose(ctx context.Context) (remove func(context.Context) error, err error) {
	var all []exposed
	remove = func(ctx context.Context) error {
		var errs []error
		for _, e := range all {
			errs = append(errs, e.remove(ctx))
		}
		return errors.Join(errs...)
	}
	for _, svc := range s.topology.Services {
		clusters := s.clientClusters()
		if len(clusters) > 1 {
			return nil, errors.Join(remove(ctx), &model.UnsupportedError{
				What: "a Service for clients in several clusters", Missing: "one virtual address: each cluster gives a Service one of its own",
				Hint: "let one cluster have all pods of role client",
			})
		}
		for _, c := range clusters {
			e := exposed{service: svc, cluster: c, object: svc.Name + "-" + s.trial}
			all = append(all, e)
			if e.address, err = s.expose(ctx, e); err != nil {
				return nil, errors.Join(err, remove(context.WithoutCancel(ctx)))
			}
			s.mu.Lock()
			// By its own name: a sidecar that is asked for another passes on what it does not know.
			svc.VIP, svc.Host = e.address, e.object
			s.services[svc.Name] = svc
			s.mu.Unlock()
		}
	}
	return remove, nil
}

func (s *site) clientClusters() []*cluster {
	var all []*cluster
	for _, p := range s.pods {
		if p.role == model.RoleClient && !slices.Contains(all, p.cluster) {
			all = append(all, p.cluster)
		}
	}
	return all
}

// split are the service's pods in this cluster and in others.
func (s *site) split(e exposed) (near, far []*pod) {
	for _, name := range e.service.Pods {
		if p := s.pods[name]; p.cluster == e.cluster {
			near = append(near, p)
		} else {
			far = append(far, p)
		}
	}
	return near, far
}

func (s *site) expose(ctx context.Context, e exposed) (netip.Addr, error) {
	near, far := s.split(e)
	c := e.cluster
	marks := s.serviceMarks()
	labels := map[string]string{labelTrial: s.trial}
	maps.Copy(labels, marks.Labels)
	meta := s.target.owned(c, e.object, labels)
	meta.Annotations = marks.Annotations
	want := &corev1.Service{
		ObjectMeta: meta,
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{
			Name: "load", Port: int32(e.service.Port), TargetPort: intstr.FromInt32(int32(e.service.TargetPort)), Protocol: corev1.ProtocolTCP,
			AppProtocol: s.appProtocol(),
		}}},
	}
	if len(near) > 0 {
		want.Spec.Selector = map[string]string{labelRun: s.target.id, labelTrial: s.trial, serviceLabel(e.service.Name): "yes"}
	}
	var made *corev1.Service
	err := c.try(ctx, "making the Service "+e.object+" in namespace "+c.namespace, func(ctx context.Context) (err error) {
		made, err = c.client.CoreV1().Services(c.namespace).Create(ctx, want, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			made, err = c.client.CoreV1().Services(c.namespace).Get(ctx, e.object, metav1.GetOptions{})
		}
		return err
	})
	if err != nil {
		return netip.Addr{}, err
	}
	addr, err := netip.ParseAddr(made.Spec.ClusterIP)
	if err != nil {
		return addr, fmt.Errorf("context %s: the Service %s has no cluster IP: %w", c.context, e.object, err)
	}
	if len(far) == 0 {
		return addr, s.awaitEndpoints(ctx, e, len(near))
	}
	slice := s.slice(e, far)
	err = c.try(ctx, "making the EndpointSlice "+slice.Name+" in namespace "+c.namespace, func(ctx context.Context) error {
		_, failure := c.client.DiscoveryV1().EndpointSlices(c.namespace).Create(ctx, slice, metav1.CreateOptions{})
		return known(failure)
	})
	if err != nil {
		return addr, err
	}
	return addr, s.awaitEndpoints(ctx, e, len(near)+len(far))
}

// slice holds endpoints in other clusters.
func (s *site) slice(e exposed, far []*pod) *discoveryv1.EndpointSlice {
	name, port, protocol, yes := "load", int32(e.service.TargetPort), corev1.ProtocolTCP, true
	labels := map[string]string{
		labelTrial: s.trial, discoveryv1.LabelServiceName: e.object, discoveryv1.LabelManagedBy: managed + ".dev",
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: s.target.owned(e.cluster, e.object+"-other-clusters", labels), AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
	}
	if far[0].addr.Is6() {
		slice.AddressType = discoveryv1.AddressTypeIPv6
	}
	for _, p := range far {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{p.addr.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &yes},
		})
	}
	return slice
}

func (e exposed) remove(ctx context.Context) error {
	c := e.cluster
	return c.try(ctx, "removing the Service "+e.object+" from namespace "+c.namespace, func(ctx context.Context) error {
		err := gone(c.client.DiscoveryV1().EndpointSlices(c.namespace).Delete(ctx, e.object+"-other-clusters", metav1.DeleteOptions{}))
		return errors.Join(err, gone(c.client.CoreV1().Services(c.namespace).Delete(ctx, e.object, metav1.DeleteOptions{})))
	})
}

// awaitEndpoints waits until the Service has all its endpoints, as far as the
// API server knows; the ready gate waits for the nodes.
func (s *site) awaitEndpoints(ctx context.Context, e exposed, want int) error {
	for {
		have, err := s.endpoints(ctx, e)
		if err != nil || len(have) == want {
			return err
		}
		if !wait(ctx, poll) {
			return &model.TargetError{
				What: fmt.Sprintf("context %s: waiting for the endpoints of the Service %s", e.cluster.context, e.object),
				Why:  fmt.Sprintf("it has %d of %d", len(have), want), Hint: "the cluster's endpoint slice controller may be down",
			}
		}
	}
}

// endpoints are the ready ones of a Service, sorted.
func (s *site) endpoints(ctx context.Context, e exposed) ([]string, error) {
	found := map[string]bool{}
	c := e.cluster
	err := c.try(ctx, "reading the endpoints of the Service "+e.object, func(ctx context.Context) error {
		list, err := c.client.DiscoveryV1().EndpointSlices(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + e.object})
		if err != nil {
			return err
		}
		clear(found)
		for _, slice := range list.Items {
			for _, ep := range slice.Endpoints {
				for _, a := range ep.Addresses {
					if ep.Conditions.Ready == nil || *ep.Conditions.Ready {
						found[a] = true
					}
				}
			}
		}
		return nil
	})
	return slices.Sorted(maps.Keys(found)), err
}

// Exposed says what the Services are, as read back.
func (s *site) Exposed(ctx context.Context, of string) (model.Ledger, error) {
	var l model.Ledger
	for _, svc := range s.topology.Services {
		for _, c := range s.clientClusters() {
			e := exposed{service: svc, cluster: c, object: svc.Name + "-" + s.trial}
			have, err := s.endpoints(ctx, e)
			if err != nil {
				return nil, err
			}
			near, far := s.split(e)
			how := "by selector"
			if len(far) > 0 {
				how = fmt.Sprintf("%d by selector, %d of other clusters by an EndpointSlice", len(near), len(far))
			}
			l = append(l,
				model.Fact{
					Layer: of, Key: model.FactBalancing, Source: model.SourceConfig,
					Value: fmt.Sprintf("Kubernetes' own ClusterIP over %d endpoints, kube-proxy %s", len(have), c.proxyMode(ctx)),
				},
				model.Fact{Layer: of, Key: "endpoints of " + svc.Name, Value: how + ": " + strings.Join(have, ", "), Source: model.SourceConfig})
		}
	}
	return l, nil
}

// proxyMode says how the cluster's nodes translate virtual addresses, as far as
// that may be read: where kubeadm and most distributions keep it.
func (c *cluster) proxyMode(ctx context.Context) string {
	config, err := c.client.CoreV1().ConfigMaps("kube-system").Get(ctx, "kube-proxy", metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return "mode not known (no permission to read kube-system/kube-proxy)"
	case err != nil:
		return "mode not known (no ConfigMap kube-system/kube-proxy)"
	}
	for _, text := range config.Data {
		for line := range strings.Lines(text) {
			if mode, ok := strings.CutPrefix(strings.TrimSpace(line), "mode:"); ok {
				if mode = strings.Trim(strings.TrimSpace(mode), `"'`); mode == "" {
					mode = "iptables" // the default
				}
				return "mode " + mode
			}
		}
	}
	return "mode not known (the ConfigMap kube-system/kube-proxy does not say)"
}
