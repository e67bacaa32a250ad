package envoy

import (
	"fmt"
	"maps"

	"github.com/windtunnel/windtunnel/internal/proxy"
)

// object and list are of Envoy's configuration.
type (
	object = proxy.Object
	list   = proxy.List
)

// bootstrap is a sidecar's whole configuration: static, where a control plane's
// comes over xDS, and otherwise as the mesh's defaults are.
func (m *mesh) bootstrap(sc *sidecar) ([]byte, error) {
	clusters := list{passthroughCluster()}
	var own []service
	for _, s := range m.services {
		outbound, err := m.outboundCluster(s, sc)
		if err != nil {
			return nil, err
		}
		clusters = append(clusters, outbound)
		if s.has(sc.pod.Name()) {
			own = append(own, s)
			clusters = append(clusters, inboundCluster(s))
		}
	}
	listeners := list{m.outboundListener(sc)}
	if len(own) > 0 {
		listeners = append(listeners, m.inboundListener(own))
	}
	if m.traced {
		proxy.LogSpans(listeners)
	}
	return proxy.Encode(object{
		"node":             object{"id": sc.pod.Name(), "cluster": "windtunnel"},
		"admin":            object{"address": proxy.Address("127.0.0.1", portAdmin)},
		"static_resources": object{"listeners": listeners, "clusters": clusters},
	})
}

// outboundListener is Istio's virtualOutbound: what the pod sends to a
// service's address goes to its cluster, everything else passes through.
func (m *mesh) outboundListener(sc *sidecar) object {
	return object{
		"name": "virtualOutbound", "address": proxy.Address("0.0.0.0", portOutbound), "traffic_direction": "OUTBOUND",
		"listener_filters": list{proxy.OriginalDst()}, "filter_chains": m.chains(func(s service, _ bool) object { return m.outboundFilter(s, sc.role) }),
		"default_filter_chain": object{"filters": list{proxy.TCPProxy("PassthroughCluster", "PassthroughCluster", nil)}},
	}
}

// chains choose what is done with a connection by where it goes: to a service's
// address, or directly to one of its pods.
func (m *mesh) chains(filter func(s service, direct bool) object) (chains list) {
	direct := map[string]bool{} // pods' own addresses; a port that two services share is the first's
	for _, s := range m.services {
		chains = append(chains, object{"filter_chain_match": proxy.Match(s.Port, s.vips...), "filters": list{filter(s, false)}})
		var addrs []string
		for _, a := range s.addrs {
			if key := fmt.Sprint(a, ":", s.TargetPort); !direct[key] {
				direct[key] = true
				addrs = append(addrs, a)
			}
		}
		if len(addrs) > 0 {
			chains = append(chains, object{"filter_chain_match": proxy.Match(s.TargetPort, addrs...), "filters": list{filter(s, true)}})
		}
	}
	return chains
}

// outboundFilter is what sends to a service: at L7, or at L4 where it does not
// speak HTTP or the mesh was not told that it does.
func (m *mesh) outboundFilter(s service, role string) object {
	stat := "outbound_" + s.Name
	switch {
	case !s.http && m.config.Profile == proxy.Kuma:
		return proxy.TCPProxy(stat, clusterName(s), object{"max_connect_attempts": kumaRetries})
	case !s.http:
		return proxy.TCPProxy(stat, clusterName(s), nil)
	case m.config.Profile == proxy.Kuma:
		return httpManager(stat, routes(clusterName(s), object{"retry_policy": kumaRetryPolicy(), "timeout": kumaRequestTimeout}, nil), nil)
	}
	return httpManager(stat, routes(clusterName(s), object{"retry_policy": retries()}, m.reported(s, role)), nil)
}

// retries is Istio's default policy.
func retries() object {
	return object{
		"retry_on": "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes", "num_retries": istioRetries,
		"retry_host_predicate": list{
			proxy.Extension("envoy.retry_host_predicates.previous_hosts", "envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate", object{}),
		},
		"host_selection_retry_max_attempts": 5, "retriable_status_codes": list{503},
	}
}

const istioRetries = 2

// httpManager is an HTTP connection manager with routes.
func httpManager(stat string, routes list, more object) object {
	config := object{
		"stat_prefix": stat, "codec_type": "AUTO", "server_header_transformation": "PASS_THROUGH",
		"route_config": object{"name": stat, "virtual_hosts": list{object{"name": stat, "domains": list{"*"}, "routes": routes}}},
		"http_filters": list{proxy.Router()},
	}
	maps.Copy(config, more)
	return proxy.Extension("envoy.filters.network.http_connection_manager", "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", config)
}

// routes send everything to one cluster; with matches, what each of those holds
// for is counted under its own name.
func routes(cluster string, more object, counted []counted) (all list) {
	to := object{"cluster": cluster, "timeout": "0s"}
	maps.Copy(to, more)
	for _, c := range counted {
		match := object{"prefix": "/"}
		if c.headers != nil {
			match["headers"] = c.headers
		}
		all = append(all, object{"match": match, "route": to, "stat_prefix": c.name})
		if c.headers == nil {
			return all
		}
	}
	return append(all, object{"match": object{"prefix": "/"}, "route": to})
}

// inboundListener is Istio's virtualInbound: mutual TLS (unless disabled),
// then to the app, which over HTTP is told who the client proved to be. Without
// a matching chain a connection is closed: that is what strict means.
func (m *mesh) inboundListener(own []service) object {
	var chains list
	ports := map[uint16]bool{}
	for _, s := range own {
		if !ports[s.TargetPort] { // two services of one port are one to the pod
			ports[s.TargetPort] = true
			chains = append(chains, m.inboundChains(s)...)
		}
	}
	return object{
		"name": "virtualInbound", "address": proxy.Address("0.0.0.0", portInbound), "traffic_direction": "INBOUND",
		"listener_filters": list{proxy.OriginalDst(), proxy.TLSInspector()}, "filter_chains": chains,
	}
}

// inboundChains are those of one service.
func (m *mesh) inboundChains(s service) (chains list) {
	filters := list{proxy.TCPProxy("inbound_"+s.Name, "inbound|"+s.Name, nil)}
	if s.http {
		told := object{"forward_client_cert_details": "SANITIZE_SET", "set_current_client_cert_details": object{"uri": true}}
		filters = list{httpManager("inbound_"+s.Name, routes("inbound|"+s.Name, nil, m.received(s)), told)}
	}
	if m.config.MTLS != Disabled {
		chains = append(chains, object{
			"filter_chain_match": object{"destination_port": s.TargetPort, "transport_protocol": "tls"},
			"transport_socket": proxy.Extension("envoy.transport_sockets.tls", "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext", object{
				"require_client_certificate": true, "common_tls_context": tlsContext("spiffe://"+m.trustDomain()+"/", s.http),
			}),
			"filters": filters,
		})
	}
	if m.config.MTLS != Strict {
		chains = append(chains, object{"filter_chain_match": object{"destination_port": s.TargetPort, "transport_protocol": "raw_buffer"}, "filters": filters})
	}
	return chains
}

// tlsContext offers TLS 1.2 to 1.3, as Istio does; sidecars agree on 1.3.
func tlsContext(prefix string, http bool) object {
	o := object{
		"tls_params":       object{"tls_minimum_protocol_version": "TLSv1_2", "tls_maximum_protocol_version": "TLSv1_3"},
		"tls_certificates": list{object{"certificate_chain": file("cert.pem"), "private_key": file("key.pem")}},
		"validation_context": object{
			"trusted_ca":                    file("ca.pem"),
			"match_typed_subject_alt_names": list{object{"san_type": "URI", "matcher": object{"prefix": prefix}}},
		},
	}
	if http {
		o["alpn_protocols"] = list{"h2", "http/1.1"}
	}
	return o
}

// file names a file beside the configuration; see expand.
func file(name string) object { return object{"filename": "{dir}/" + name} }
