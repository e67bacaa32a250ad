package across

import (
	"github.com/windtunnel/windtunnel/internal/model"
)

func clusterIP() []any { return []any{"spec", "clusterIP"} }

// Slices is plain Kubernetes: in the clients' cluster a Service without a
// selector, and an EndpointSlice for the pods of each cluster. Nobody keeps them
// up to date but us, and pods must reach each other by their own addresses.
func Slices() Way {
	return Way{
		Name: "endpointslices",
		Objects: func(svc model.Service, at model.Scope, all []model.Scope) []model.Manifest {
			if !at.Clients {
				return nil
			}
			objects := []model.Manifest{Service(at.Object, svc, at, nil, model.Marks{})}
			for _, from := range all {
				if len(from.Pods) > 0 {
					objects = append(objects, slice(svc, at, from))
				}
			}
			return objects
		},
		Find: func(_ model.Service, at model.Scope, _ []model.Scope) (model.Manifest, []any) {
			return model.Object("v1", "Service", at.Object, nil), clusterIP()
		},
	}
}

// slice holds the pods of one cluster, for the Service of another.
func slice(svc model.Service, at, from model.Scope) model.Manifest {
	kind := "IPv4"
	var endpoints []any
	for _, a := range from.Pods {
		if a.Is6() {
			kind = "IPv6"
		}
		endpoints = append(endpoints, map[string]any{"addresses": []any{a.String()}, "conditions": map[string]any{"ready": true}})
	}
	port := map[string]any{"name": portName, "port": int64(svc.TargetPort), "protocol": "TCP"}
	if at.AppProtocol != "" {
		port["appProtocol"] = at.AppProtocol
	}
	return model.Object("discovery.k8s.io/v1", "EndpointSlice", at.Object+"-"+from.Cluster, model.Manifest{
		"addressType": kind, "endpoints": endpoints, "ports": []any{port},
	}).Marked(model.Marks{Labels: map[string]string{
		"kubernetes.io/service-name": at.Object, "endpointslice.kubernetes.io/managed-by": "windtunnel.dev",
	}})
}

// Exported is the multi-cluster services API: every cluster with pods exports
// its Service, and the clients' imports what all of them export. The API's
// version is the one that all implementations serve.
func Exported() Way { return exported("mcs", "multicluster.x-k8s.io/v1alpha1") }

// ExportedGKE is GKE's own form of that API.
func ExportedGKE() Way { return exported("gke-mcs", "net.gke.io/v1") }

func exported(name, api string) Way {
	return Way{
		Name: name,
		Objects: func(svc model.Service, at model.Scope, _ []model.Scope) []model.Manifest {
			if len(at.Pods) == 0 {
				return nil
			}
			return []model.Manifest{
				Service(at.Object, svc, at, at.Selector, model.Marks{}), model.Object(api, "ServiceExport", at.Object, nil),
			}
		},
		Find: func(_ model.Service, at model.Scope, _ []model.Scope) (model.Manifest, []any) {
			return model.Object(api, "ServiceImport", at.Object, nil), []any{"spec", "ips", 0}
		},
	}
}

// Ingress is GKE's load balancer over several clusters: an external one, at an
// address of its own. Its two objects go to the fleet's config cluster, which
// must be the clients'; GKE makes the Services.
func Ingress() Way {
	const api = "networking.gke.io/v1"
	return Way{
		Name: "gke-mcs",
		Objects: func(svc model.Service, at model.Scope, all []model.Scope) []model.Manifest {
			if !at.Clients {
				return nil
			}
			var selector map[string]string
			for _, s := range all {
				if len(s.Pods) > 0 {
					selector = s.Selector
				}
			}
			port := map[string]any{"name": portName, "port": int64(svc.Port), "targetPort": int64(svc.TargetPort), "protocol": "TCP"}
			backend := map[string]any{"serviceName": at.Object, "servicePort": int64(svc.Port)}
			template := func(spec map[string]any) model.Manifest {
				return model.Manifest{"spec": map[string]any{"template": map[string]any{"spec": spec}}}
			}
			return []model.Manifest{
				model.Object(api, "MultiClusterService", at.Object, template(map[string]any{"selector": object(selector), "ports": []any{port}})),
				model.Object(api, "MultiClusterIngress", at.Object, template(map[string]any{"backend": backend})),
			}
		},
		Find: func(_ model.Service, at model.Scope, _ []model.Scope) (model.Manifest, []any) {
			return model.Object(api, "MultiClusterIngress", at.Object, nil), []any{"status", "VIP"}
		},
	}
}

// Merged is for meshes that take Services of one name in all clusters for one
// service: Istio's multi-primary, Cilium's Cluster Mesh.
func Merged(name string, marks model.Marks) Way {
	return Way{
		Name: name, Marks: marks,
		Objects: func(svc model.Service, at model.Scope, _ []model.Scope) []model.Manifest {
			return []model.Manifest{Service(at.Object, svc, at, at.Selector, marks)}
		},
		Find: func(_ model.Service, at model.Scope, _ []model.Scope) (model.Manifest, []any) {
			return model.Object("v1", "Service", at.Object, nil), clusterIP()
		},
	}
}

// Linkerd's labels of Services that other clusters may use.
const (
	linkerdExported  = "mirror.linkerd.io/exported"
	linkerdFederated = "mirror.linkerd.io/federated"
)

// Mirrored is Linkerd's way: the service mirror of the clients' cluster makes a
// Service for each exported one, with the link's name behind its own; where
// several clusters have pods, they are members of a federated one. Links have
// the names of the topology's clusters.
func Mirrored() Way {
	label := func(all []model.Scope) (key, value string) {
		if served(all) > 1 {
			return linkerdFederated, "member"
		}
		return linkerdExported, "true"
	}
	return Way{
		Name: "linkerd",
		Objects: func(svc model.Service, at model.Scope, all []model.Scope) []model.Manifest {
			if len(at.Pods) == 0 {
				return nil
			}
			key, value := label(all)
			return []model.Manifest{Service(at.Object, svc, at, at.Selector, with(model.Marks{}, key, value))}
		},
		Find: func(_ model.Service, at model.Scope, all []model.Scope) (model.Manifest, []any) {
			name := at.Object + "-federated"
			if served(all) == 1 {
				for _, s := range all {
					if len(s.Pods) > 0 {
						name = at.Object + "-" + s.Cluster
					}
				}
			}
			return model.Object("v1", "Service", name, nil), clusterIP()
		},
	}
}

// Zones is Kuma's way: Services of other zones come as MeshServices, through the
// global control plane, with an address of the mesh.
func Zones() Way {
	return Way{
		Name: "kuma",
		Objects: func(svc model.Service, at model.Scope, _ []model.Scope) []model.Manifest {
			if len(at.Pods) == 0 {
				return nil
			}
			return []model.Manifest{Service(at.Object, svc, at, at.Selector, model.Marks{})}
		},
		Find: func(_ model.Service, at model.Scope, _ []model.Scope) (model.Manifest, []any) {
			m := model.Manifest{"apiVersion": "kuma.io/v1alpha1", "kind": "MeshService", "metadata": map[string]any{"namespace": "kuma-system"}}
			return m.Marked(model.Marks{Labels: map[string]string{
				"kuma.io/display-name": at.Object, "k8s.kuma.io/namespace": at.Namespace,
			}}), []any{"status", "vips", 0, "ip"}
		},
	}
}
