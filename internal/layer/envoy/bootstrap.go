package envoy

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// object is a JSON object of Envoy's configuration.
type object = map[string]any

// list is a JSON array of it.
type list = []any

// typed is a configuration that says which message it is.
func typed(message string, o object) object {
	o["@type"] = "type.googleapis.com/" + message
	return o
}

// bootstrap is a sidecar's whole configuration: static, where Istio's comes
// over xDS, and otherwise as Istio's defaults are.
func (m *mesh) bootstrap(sc *sidecar) ([]byte, error) {
	listeners := list{m.outboundListener()}
	clusters := list{passthroughCluster()}
	for _, s := range m.services {
		clusters = append(clusters, m.outboundCluster(s))
		if slices.Contains(s.Pods, sc.pod.Name()) {
			listeners = append(listeners, m.inboundListener(s))
			clusters = append(clusters, inboundCluster(s))
		}
	}
	b, err := json.MarshalIndent(object{
		"node":             object{"id": sc.pod.Name(), "cluster": "windtunnel"},
		"admin":            object{"address": address("127.0.0.1", portAdmin)},
		"static_resources": object{"listeners": listeners, "clusters": clusters},
	}, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encoding Envoy's configuration: %w", err)
	}
	return b, nil
}

func address(ip string, port uint16) object {
	return object{"socket_address": object{"address": ip, "port_value": port}}
}

func originalDst() object {
	return object{"name": "envoy.filters.listener.original_dst", "typed_config": typed("envoy.extensions.filters.listener.original_dst.v3.OriginalDst", object{})}
}

func tlsInspector() object {
	return object{"name": "envoy.filters.listener.tls_inspector", "typed_config": typed("envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector", object{})}
}

// outboundListener is Istio's virtualOutbound: what the pod sends to a
// service's address goes to its cluster at L7, everything else passes through.
func (m *mesh) outboundListener() object {
	var chains list
	for _, s := range m.services {
		filters := list{httpManager("outbound_"+s.Name, clusterName(s), object{"retry_policy": retries()}, nil)}
		chains = append(chains,
			object{"filter_chain_match": match(s.Port, s.VIP.String()), "filters": filters},
			object{"filter_chain_match": match(s.TargetPort, s.addrs...), "filters": filters})
	}
	return object{
		"name": "virtualOutbound", "address": address("0.0.0.0", portOutbound), "traffic_direction": "OUTBOUND",
		"listener_filters": list{originalDst()}, "filter_chains": chains,
		"default_filter_chain": object{"filters": list{object{
			"name":         "envoy.filters.network.tcp_proxy",
			"typed_config": typed("envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", object{"stat_prefix": "PassthroughCluster", "cluster": "PassthroughCluster"}),
		}}},
	}
}

func match(port uint16, addrs ...string) object {
	var ranges list
	for _, a := range addrs {
		if ip, err := netip.ParseAddr(a); err == nil {
			ranges = append(ranges, object{"address_prefix": a, "prefix_len": ip.BitLen()})
		}
	}
	return object{"destination_port": port, "prefix_ranges": ranges}
}

// retries is Istio's default policy.
func retries() object {
	return object{
		"retry_on": "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes", "num_retries": 2,
		"retry_host_predicate": list{object{
			"name":         "envoy.retry_host_predicates.previous_hosts",
			"typed_config": typed("envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate", object{}),
		}},
		"host_selection_retry_max_attempts": 5, "retriable_status_codes": list{503},
	}
}

// httpManager is an HTTP connection manager that sends everything to one cluster.
func httpManager(stat, cluster string, route, more object) object {
	to := object{"cluster": cluster, "timeout": "0s"}
	maps.Copy(to, route)
	config := object{
		"stat_prefix": stat, "codec_type": "AUTO", "server_header_transformation": "PASS_THROUGH",
		"route_config": object{"name": stat, "virtual_hosts": list{object{
			"name": stat, "domains": list{"*"}, "routes": list{object{"match": object{"prefix": "/"}, "route": to}},
		}}},
		"http_filters": list{object{"name": "envoy.filters.http.router", "typed_config": typed("envoy.extensions.filters.http.router.v3.Router", object{})}},
	}
	maps.Copy(config, more)
	return object{"name": "envoy.filters.network.http_connection_manager", "typed_config": typed("envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", config)}
}

// inboundListener is Istio's virtualInbound: mutual TLS (unless disabled),
// then HTTP to the app, which is told who the client proved to be. Without a
// matching chain a connection is closed: that is what strict means.
func (m *mesh) inboundListener(s service) object {
	told := object{"forward_client_cert_details": "SANITIZE_SET", "set_current_client_cert_details": object{"uri": true}}
	filters := list{httpManager("inbound_"+s.Name, "inbound|"+s.Name, nil, told)}
	var chains list
	if m.config.MTLS != Disabled {
		chains = append(chains, object{
			"filter_chain_match": object{"destination_port": s.TargetPort, "transport_protocol": "tls"},
			"transport_socket": object{"name": "envoy.transport_sockets.tls", "typed_config": typed("envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext", object{
				"require_client_certificate": true, "common_tls_context": tlsContext("spiffe://" + trustDomain + "/"),
			})},
			"filters": filters,
		})
	}
	if m.config.MTLS != Strict {
		chains = append(chains, object{"filter_chain_match": object{"destination_port": s.TargetPort, "transport_protocol": "raw_buffer"}, "filters": filters})
	}
	return object{
		"name": "virtualInbound", "address": address("0.0.0.0", portInbound), "traffic_direction": "INBOUND",
		"listener_filters": list{originalDst(), tlsInspector()}, "filter_chains": chains,
	}
}

// tlsContext offers TLS 1.2 to 1.3, as Istio does; sidecars agree on 1.3.
func tlsContext(prefix string) object {
	return object{
		"tls_params":       object{"tls_minimum_protocol_version": "TLSv1_2", "tls_maximum_protocol_version": "TLSv1_3"},
		"alpn_protocols":   list{"http/1.1"},
		"tls_certificates": list{object{"certificate_chain": file("cert.pem"), "private_key": file("key.pem")}},
		"validation_context": object{
			"trusted_ca":                    file("ca.pem"),
			"match_typed_subject_alt_names": list{object{"san_type": "URI", "matcher": object{"prefix": prefix}}},
		},
	}
}

// file names a file beside the configuration; see expand.
func file(name string) object { return object{"filename": "{dir}/" + name} }

func clusterName(s service) string { return fmt.Sprintf("outbound|%d||%s", s.Port, s.Name) }

// ownMark marks Envoy's own connections, so that the pod's redirection leaves
// them alone.
func ownMark() object {
	const solSocket, soMark = 1, 36
	return object{
		"source_address": object{"address": "0.0.0.0", "port_value": 0},
		"socket_options": list{object{"description": "SO_MARK", "level": solSocket, "name": soMark, "int_value": mark, "state": "STATE_PREBIND"}},
	}
}

// unlimited lifts Envoy's default circuit breakers, as Istio does.
func unlimited() object {
	const most = 4294967295
	return object{"thresholds": list{object{"max_connections": most, "max_pending_requests": most, "max_requests": most, "max_retries": most}}}
}

func (m *mesh) outboundCluster(s service) object {
	var endpoints list
	for _, a := range s.addrs {
		endpoints = append(endpoints, object{"endpoint": object{"address": address(a, s.TargetPort)}})
	}
	c := object{
		"name": clusterName(s), "type": "STATIC", "lb_policy": "LEAST_REQUEST", "connect_timeout": "10s", "circuit_breakers": unlimited(),
		"upstream_bind_config": ownMark(),
		"load_assignment":      object{"cluster_name": clusterName(s), "endpoints": list{object{"lb_endpoints": endpoints}}},
	}
	if m.config.MTLS != Disabled {
		c["transport_socket"] = object{"name": "envoy.transport_sockets.tls", "typed_config": typed("envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext", object{
			"sni": "outbound_." + s.Name, "common_tls_context": tlsContext(identity("server")),
		})}
	}
	return c
}

func inboundCluster(s service) object {
	name := "inbound|" + s.Name
	return object{
		"name": name, "type": "STATIC", "connect_timeout": "10s", "circuit_breakers": unlimited(), "upstream_bind_config": ownMark(),
		"load_assignment": object{"cluster_name": name, "endpoints": list{object{"lb_endpoints": list{object{"endpoint": object{"address": address("127.0.0.1", s.TargetPort)}}}}}},
	}
}

func passthroughCluster() object {
	return object{"name": "PassthroughCluster", "type": "ORIGINAL_DST", "lb_policy": "CLUSTER_PROVIDED", "connect_timeout": "10s", "upstream_bind_config": ownMark()}
}
