package mesh

import (
	"maps"

	"github.com/windtunnel/windtunnel/internal/across"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Modes of meshes: where their proxies are.
const (
	sidecar  = "sidecar"
	ambient  = "ambient"
	waypoint = "waypoint"
	node     = "node"
)

// Levels of Pod Security.
const (
	restricted = "restricted"
	privileged = "privileged" // for init containers that redirect traffic
)

const (
	deployment = "Deployment"
	daemonSet  = "DaemonSet"
	gateway    = "Gateway"
)

// kinds are all meshes. Versions and charts are upstream's of August 2026.
func kinds() []kind {
	return []kind{
		{
			name: "istio", summary: "target kube: Istio, by sidecars or ambient, as found or installed", modes: []string{sidecar, ambient, waypoint},
			strict: true, revisions: true, repository: "https://istio-release.storage.googleapis.com/charts", version: "1.30.3",
			mesh: istio, policy: istioPolicy, across: istioAcross,
		},
		{
			name: "linkerd", summary: "target kube: Linkerd's sidecars, as found or installed", modes: []string{sidecar},
			strict: true, repository: "https://helm.linkerd.io/edge", version: "2026.6.3", // edge-26.6.3 is the milestone 2.20
			mesh: linkerd, across: func(Config) across.Way { return across.Mirrored() },
		},
		{
			name: "kuma", summary: "target kube: Kuma's sidecars, as found or installed", modes: []string{sidecar},
			repository: "https://kumahq.github.io/charts", version: "2.14.3",
			mesh: kuma, across: func(Config) across.Way { return across.Zones() },
		},
		{
			name: "cilium", summary: "target kube: Cilium's Services and Cluster Mesh, as found or installed", modes: []string{node},
			repository: "https://helm.cilium.io", version: "1.19.5",
			mesh: cilium, across: func(Config) across.Way {
				return across.Merged("cilium", model.Marks{Annotations: map[string]string{"service.cilium.io/global": "true"}})
			},
		},
	}
}

// waypointName is the name of istio's gateway at L7 in the run's namespace.
const waypointName = "windtunnel-waypoint"

func istio(c Config) model.Mesh {
	control := "istiod"
	enabled, join := map[string]string{"istio-injection": "enabled"}, map[string]string{"sidecar.istio.io/inject": "true", "istio.io/dataplane-mode": "none"}
	if c.Revision != "" {
		control += "-" + c.Revision
		enabled = map[string]string{"istio.io/rev": c.Revision}
		join["istio.io/rev"] = c.Revision
	}
	m := model.Mesh{
		Namespace: "istio-system", PodSecurity: privileged,
		Switch: model.Marks{Labels: enabled}, Join: model.Marks{Labels: join},
		Avoid:        model.Marks{Labels: map[string]string{"sidecar.istio.io/inject": "false", "istio.io/dataplane-mode": "none"}},
		AppProtocols: map[string]string{"http1": "http", "http2": "http2", "grpc": "grpc", "tcp": "tcp"},
		Workloads:    []model.Workload{{Kind: deployment, Name: control}},
		Configs:      []string{"istio"},
		Container:    "istio-proxy",
		Counters: &model.Counters{
			URL: "http://127.0.0.1:15020/stats/prometheus", Metrics: []string{"istio_requests_total", "istio_tcp_connections_opened_total"},
			Client: map[string]string{"reporter": "source"}, Server: map[string]string{"reporter": "destination"},
			Secure: [2]string{"connection_security_policy", "mutual_tls"}, Peer: "source_principal",
			Else: &model.Counters{ // Istio's telemetry is off: Envoy's own, where proxyStatsMatcher includes them
				Metrics: []string{"envoy_cluster_upstream_cx_total", "envoy_listener_downstream_cx_total"},
				Client:  map[string]string{"cluster_name": "outbound|*"}, Server: map[string]string{"listener_address": "0.0.0.0_15006"},
				Handshakes: "envoy_listener_ssl_handshake", Anonymous: "envoy_listener_ssl_no_certificate",
			},
		},
		Dumps: map[string]string{"config.json": "http://127.0.0.1:15000/config_dump"},
	}
	if c.Revision != "" {
		m.Configs = []string{"istio-" + c.Revision}
	}
	// One replica and no more than a small cluster has: 500m and 2 GiB are the defaults.
	istiod := map[string]any{
		"autoscaleEnabled": false,
		"resources":        map[string]any{"requests": map[string]any{"cpu": "100m", "memory": "256Mi"}},
	}
	if c.Revision != "" {
		istiod["revision"] = c.Revision
	}
	m.Charts = []model.Chart{
		{Release: "istio-base", Name: "base", Namespace: m.Namespace},
		{Release: "istiod", Name: "istiod", Namespace: m.Namespace, Values: istiod},
	}
	if c.Mode == sidecar {
		return m
	}
	istiod["profile"] = ambient
	m.Charts = append(
		m.Charts,
		model.Chart{Release: "istio-cni", Name: "cni", Namespace: m.Namespace, Values: map[string]any{"profile": ambient}},
		model.Chart{Release: "ztunnel", Name: "ztunnel", Namespace: m.Namespace},
	)
	m.Switch.Labels = map[string]string{"istio.io/dataplane-mode": ambient}
	m.Join.Labels = map[string]string{"istio.io/dataplane-mode": ambient, "sidecar.istio.io/inject": "false"}
	m.PodSecurity, m.Container, m.Counters, m.Dumps = restricted, "", nil, nil
	m.Annotation = [2]string{"ambient.istio.io/redirection", "enabled"}
	m.Workloads = append(m.Workloads, model.Workload{Kind: daemonSet, Name: "ztunnel"}, model.Workload{Kind: daemonSet, Name: "istio-cni-node"})
	if c.Mode == waypoint {
		m.Service.Labels = map[string]string{"istio.io/use-waypoint": waypointName}
	}
	return m
}

func istioPolicy(c Config) []model.Manifest {
	var all []model.Manifest
	if c.MTLS == strict {
		all = append(all, model.Object("security.istio.io/v1", "PeerAuthentication", "windtunnel", model.Manifest{
			"spec": map[string]any{"mtls": map[string]any{"mode": "STRICT"}},
		}))
	}
	if c.Mode == waypoint {
		listener := map[string]any{"name": "mesh", "port": int64(15008), "protocol": "HBONE"}
		all = append(all, model.Object("gateway.networking.k8s.io/v1", gateway, waypointName, model.Manifest{
			"spec": map[string]any{"gatewayClassName": "istio-waypoint", "listeners": []any{listener}},
		}).Marked(model.Marks{Labels: map[string]string{"istio.io/waypoint-for": "service"}}))
	}
	return all
}

// istioAcross is multi-primary: Services of one name and namespace are one. In
// ambient, those that span networks must say so.
func istioAcross(c Config) across.Way {
	marks := istio(c).Service
	if c.Mode != sidecar {
		labels := map[string]string{"istio.io/global": "true"}
		maps.Copy(labels, marks.Labels)
		marks.Labels = labels
	}
	return across.Merged("istio", marks)
}

func linkerd(c Config) model.Mesh {
	const inject = "linkerd.io/inject"
	m := model.Mesh{
		Namespace: "linkerd", PodSecurity: privileged,
		Switch: model.Marks{Annotations: map[string]string{inject: "enabled"}},
		Join:   model.Marks{Annotations: map[string]string{inject: "enabled"}},
		Avoid:  model.Marks{Annotations: map[string]string{inject: "disabled"}},
		// Linkerd guesses for up to 10 s where it is not told.
		AppProtocols: map[string]string{"http1": "http", "http2": "kubernetes.io/h2c", "grpc": "kubernetes.io/h2c", "tcp": "linkerd.io/opaque"},
		Workloads: []model.Workload{
			{Kind: deployment, Name: "linkerd-destination"}, {Kind: deployment, Name: "linkerd-identity"}, {Kind: deployment, Name: "linkerd-proxy-injector"},
		},
		Configs:   []string{"linkerd-config"},
		Container: "linkerd-proxy",
		Counters: &model.Counters{
			URL: "http://127.0.0.1:4191/metrics", Metrics: []string{"request_total"},
			Client: map[string]string{"direction": "outbound"}, Server: map[string]string{"direction": "inbound"},
			Except: map[string]string{"srv_port": "4191"}, // the kubelet's probes of the proxy
			Secure: [2]string{"tls", "true"}, Peer: "client_id",
		},
		Dumps: map[string]string{"metrics.txt": "http://127.0.0.1:4191/metrics"},
		Charts: []model.Chart{
			// It needs the Gateway API; where that is there, values.linkerd-crds.installGatewayAPI: false.
			{Release: "linkerd-crds", Name: "linkerd-crds", Namespace: "linkerd", Values: map[string]any{"installGatewayAPI": true}},
			{Release: "linkerd-control-plane", Name: "linkerd-control-plane", Namespace: "linkerd", Make: identity},
		},
	}
	if c.MTLS == strict {
		m.Join.Annotations["config.linkerd.io/default-inbound-policy"] = "all-authenticated"
	}
	return m
}

func kuma(Config) model.Mesh {
	const inject = "kuma.io/sidecar-injection"
	return model.Mesh{
		Namespace: "kuma-system", PodSecurity: privileged, Token: true,
		Switch: model.Marks{Labels: map[string]string{inject: "enabled"}},
		Join: model.Marks{
			Labels:      map[string]string{inject: "enabled"},
			Annotations: map[string]string{"kuma.io/wait-for-dataplane-ready": "true"},
		},
		Avoid: model.Marks{Labels: map[string]string{inject: "disabled"}},
		// Kuma takes what it is not told of for plain TCP.
		AppProtocols: map[string]string{"http1": "http", "http2": "http2", "grpc": "grpc", "tcp": "tcp"},
		Workloads:    []model.Workload{{Kind: deployment, Name: "kuma-control-plane"}},
		Configs:      []string{"kuma-control-plane-config"},
		Container:    "kuma-sidecar",
		Dumps:        map[string]string{"config.json": "http://127.0.0.1:9901/config_dump"},
		Charts:       []model.Chart{{Release: "kuma", Name: "kuma", Namespace: "kuma-system"}},
	}
}

func cilium(Config) model.Mesh {
	return model.Mesh{
		Namespace: "kube-system", PodSecurity: restricted,
		Workloads: []model.Workload{
			{Kind: daemonSet, Name: "cilium"}, {Kind: deployment, Name: "cilium-operator"}, {Kind: deployment, Name: "clustermesh-apiserver", Optional: true},
		},
		Configs: []string{"cilium-config"},
		Charts:  []model.Chart{{Release: "cilium", Name: "cilium", Namespace: "kube-system", Values: map[string]any{"operator": map[string]any{"replicas": 1}}}},
	}
}
