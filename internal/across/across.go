// Package across has the ways in which a service with pods in several real
// clusters becomes one address for clients: Kubernetes' own objects, the
// multi-cluster services API, and what meshes make of Services. A way is data:
// which objects go to which cluster, and which object then tells the address.
package across

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Way is one of them.
type Way struct {
	Name string
	// Marks are on the Services that it makes.
	Marks model.Marks
	// Objects are those for one cluster, of all in which the service has pods or
	// clients.
	Objects func(svc model.Service, at model.Scope, all []model.Scope) []model.Manifest
	// Find is the object in the clients' cluster that tells the address, and
	// where: keys and indexes down from its top.
	Find func(svc model.Service, at model.Scope, all []model.Scope) (model.Manifest, []any)
}

// Needed says whether a service has pods in another cluster than its clients.
func Needed(all []model.Scope) bool {
	return slices.ContainsFunc(all, func(s model.Scope) bool { return !s.Clients && len(s.Pods) > 0 })
}

// Undo takes back what was made.
type Undo []func(context.Context) error

// Run takes all of it back, the last first, whatever becomes of one.
func (u Undo) Run(ctx context.Context) error {
	var errs []error
	for _, undo := range slices.Backward(u) {
		errs = append(errs, undo(ctx))
	}
	return errors.Join(errs...)
}

// Deploy makes the objects of all services, and waits until each has its
// address.
func (w Way) Deploy(ctx context.Context, s model.Site) (remove func(context.Context) error, err error) {
	site, ok := s.(model.ManifestSite)
	if !ok {
		return nil, OnlyOnKube(w.Name)
	}
	var undo Undo
	for _, svc := range s.Topology().Services {
		more, err := w.one(ctx, site, svc)
		undo = append(undo, more...)
		if err != nil {
			return nil, errors.Join(err, undo.Run(context.WithoutCancel(ctx)))
		}
	}
	return undo.Run, nil
}

func (w Way) one(ctx context.Context, site model.ManifestSite, svc model.Service) (undo []func(context.Context) error, err error) {
	all, err := site.Scopes(svc.Name)
	if err != nil {
		return nil, err
	}
	client, err := w.client(svc, all)
	if err != nil {
		return nil, err
	}
	for _, at := range all {
		for _, o := range w.Objects(svc, at, all) {
			u, failure := site.Apply(ctx, at.Cluster, o)
			if failure != nil {
				return undo, failure
			}
			undo = append(undo, u)
		}
	}
	ref, path := w.Find(svc, client, all)
	found, err := site.Read(ctx, client.Cluster, ref, func(m model.Manifest) bool { return addressOf(m, path).IsValid() })
	if err != nil {
		return undo, err
	}
	host := ""
	if ref["kind"] == "Service" {
		host = named(found)
	}
	site.Address(svc.Name, host, addressOf(found, path))
	return undo, nil
}

// named is an object's name.
func named(m model.Manifest) string {
	meta, _ := m["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	return name
}

// client is the one cluster in which the service has clients.
func (w Way) client(svc model.Service, all []model.Scope) (model.Scope, error) {
	var with []model.Scope
	for _, at := range all {
		if at.Clients {
			with = append(with, at)
		}
	}
	if len(with) != 1 {
		return model.Scope{}, &model.UnsupportedError{
			What:    fmt.Sprintf("%s for the service %s with clients in %d clusters", w.Name, svc.Name, len(with)),
			Missing: "one address: each cluster has one of its own", Hint: "let one cluster have all pods of role client",
		}
	}
	return with[0], nil
}

// Observe reads back what tells the address.
func (w Way) Observe(ctx context.Context, s model.Site) (model.Ledger, error) {
	site, ok := s.(model.ManifestSite)
	if !ok {
		return nil, OnlyOnKube(w.Name)
	}
	var l model.Ledger
	for _, svc := range s.Topology().Services {
		all, err := site.Scopes(svc.Name)
		if err != nil {
			return nil, err
		}
		client, err := w.client(svc, all)
		if err != nil {
			return nil, err
		}
		ref, path := w.Find(svc, client, all)
		found, err := site.Read(ctx, client.Cluster, ref, func(m model.Manifest) bool { return addressOf(m, path).IsValid() })
		if err != nil {
			return nil, err
		}
		pods := 0
		for _, at := range all {
			pods += len(at.Pods)
		}
		l = append(l, model.Fact{
			Layer: w.Name, Key: model.FactBalancing, Source: model.SourceConfig,
			Value: fmt.Sprintf("%s of cluster %s, over %d pods in %d clusters", found["kind"], client.Cluster, pods, served(all)),
		}, model.Fact{Layer: w.Name, Key: "address of " + svc.Name, Value: addressOf(found, path).String(), Source: model.SourceConfig})
	}
	return l, nil
}

func served(all []model.Scope) (n int) {
	for _, at := range all {
		if len(at.Pods) > 0 {
			n++
		}
	}
	return n
}

// OnlyOnKube says that a layer is for real clusters.
func OnlyOnKube(layer string) error {
	return &model.UnsupportedError{
		What: "the layer " + layer + " on the target lab", Missing: "it is for real clusters: the target kube",
		Hint: "run the study with --target kube, or give the variant targets: [kube], so that it is left out on the lab",
	}
}

// CheckTarget is for layers of real clusters; see model.Portable.
func CheckTarget(layer, target string) error {
	if target == model.TargetKube {
		return nil
	}
	return OnlyOnKube(layer)
}

// addressOf reads an address down from the top of an object; invalid: there is
// none yet.
func addressOf(m model.Manifest, path []any) netip.Addr {
	var at any = map[string]any(m)
	for _, step := range path {
		switch key := step.(type) {
		case string:
			object, _ := at.(map[string]any)
			at = object[key]
		case int:
			list, _ := at.([]any)
			if key >= len(list) {
				return netip.Addr{}
			}
			at = list[key]
		}
	}
	text, _ := at.(string)
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}
	}
	return addr
}

// portName is what ports of services are called. Meshes go by appProtocol
// before they go by a name.
const portName = "load"

// Service is one over a service's pods of its own cluster; over what slices say
// where there is no selector.
func Service(name string, svc model.Service, at model.Scope, selector map[string]string, marks model.Marks) model.Manifest {
	port := map[string]any{"name": portName, "port": int64(svc.Port), "targetPort": int64(svc.TargetPort), "protocol": "TCP"}
	if at.AppProtocol != "" {
		port["appProtocol"] = at.AppProtocol
	}
	spec := map[string]any{"ports": []any{port}}
	if selector != nil {
		spec["selector"] = object(selector)
	}
	return model.Object("v1", "Service", name, model.Manifest{"spec": spec}).Marked(marks)
}

func object(m map[string]string) map[string]any {
	all := map[string]any{}
	for k, v := range m {
		all[k] = v
	}
	return all
}

// with are marks and one more label.
func with(marks model.Marks, label, value string) model.Marks {
	labels := maps.Clone(marks.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[label] = value
	return model.Marks{Labels: labels, Annotations: marks.Annotations}
}
