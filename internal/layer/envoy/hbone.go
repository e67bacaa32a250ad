package envoy

import (
	"fmt"
	"maps"
	"net/netip"

	"github.com/windtunnel/windtunnel/internal/proxy"
)

// HBONE is how ambient's proxies speak to each other: what an app sends is a
// stream of HTTP/2 CONNECT, over mutual TLS, to port 15008 of the address that it
// is for; the stream's authority says which port there.

// origin is who opens HBONE: a pod, by its node's proxy, or a waypoint.
type origin struct {
	name    string
	role    string
	file    string // of the network namespace that it does so in; "": the proxy's own
	cluster *proxy.Cluster
}

func (m member) origin() origin { return origin{m.name, m.role, m.where.NetworkPath(), m.cluster} }

// Windows and streams of a connection, as ztunnel has them.
const (
	hboneStreamWindow     = 4 << 20
	hboneConnectionWindow = 16 << 20
	hboneStreams          = 100
)

func hboneOptions(more object) object {
	o := object{
		"initial_stream_window_size": hboneStreamWindow, "initial_connection_window_size": hboneConnectionWindow, "max_concurrent_streams": hboneStreams,
	}
	maps.Copy(o, more)
	return o
}

// socketAddress is a TCP address in the network namespace of a file.
func socketAddress(ip string, port uint16, file string) object {
	socket := object{"address": ip, "port_value": port}
	if file != "" {
		socket["network_namespace_filepath"] = file
	}
	return object{"socket_address": socket}
}

// bindIn makes connections in a network namespace, marked as the proxy's own.
func bindIn(c object, file string) object {
	if file != "" {
		bind := ownMark()
		bind["source_address"] = object{"address": "0.0.0.0", "port_value": 0, "network_namespace_filepath": file}
		c["upstream_bind_config"] = bind
	}
	return c
}

func hboneCluster(o origin) string    { return "hbone|" + o.name }
func connectName(o origin) string     { return "connect_originate|" + o.name }
func (o origin) via(s service) string { return clusterName(s) + "|" + o.name }

// tunnel makes an HTTP/2 cluster of a CONNECT to whoever has an identity that
// begins like that.
func (l *ambient) tunnel(c object, o origin, identity string) object {
	c["connect_timeout"], c["circuit_breakers"] = "10s", proxy.Unlimited()
	c["typed_extension_protocol_options"] = object{
		"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": proxy.Typed("envoy.extensions.upstreams.http.v3.HttpProtocolOptions", object{
			"explicit_http_config": object{"http2_protocol_options": hboneOptions(nil)},
		}),
	}
	c["transport_socket"] = proxy.Extension("envoy.transport_sockets.tls", "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext", object{
		"common_tls_context": hboneTLS(o.role, identity),
	})
	return bindIn(c, o.file)
}

// hboneTLS is mutual TLS with the identity of a role.
func hboneTLS(role, identity string) object {
	o := tlsContext(identity, false)
	o["alpn_protocols"] = list{"h2"}
	o["tls_certificates"] = list{object{"certificate_chain": file("cert-" + role + ".pem"), "private_key": file("key-" + role + ".pem")}}
	return o
}

// originate is what an origin needs to reach services: for each a cluster of its
// endpoints; a listener inside the proxy, to which all of them lead, which makes
// a stream of what it gets; and the cluster of the connections that carry streams.
func (l *ambient) originate(o origin) (listener object, clusters list, err error) {
	clusters = list{l.tunnel(object{
		"name": hboneCluster(o), "type": "ORIGINAL_DST", "lb_policy": "CLUSTER_PROVIDED",
		"original_dst_lb_config": object{"upstream_port_override": portHBONE}, "cleanup_interval": "60s",
	}, o, l.mesh.identity(""))}
	for _, s := range l.mesh.services {
		groups, err := l.mesh.groups(s, o.cluster)
		if err != nil {
			return nil, nil, err
		}
		c := object{
			"name": o.via(s), "type": "STATIC", "lb_policy": l.mesh.policy(), "connect_timeout": "10s", "circuit_breakers": proxy.Unlimited(),
			"load_assignment": through(o, s, groups),
			"transport_socket": proxy.Extension("envoy.transport_sockets.internal_upstream", "envoy.extensions.transport_sockets.internal_upstream.v3.InternalUpstreamTransport", object{
				"passthrough_metadata": list{object{"kind": object{"host": object{}}, "name": originalDst}},
				"transport_socket":     proxy.Extension("envoy.transport_sockets.raw_buffer", "envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer", object{}),
			}),
		}
		if s.http {
			c["typed_extension_protocol_options"] = asAsked() // of waypoints: at L4 nobody asks
		}
		clusters = append(clusters, c)
	}
	return object{
		"name": connectName(o), "internal_listener": object{}, "listener_filters": list{proxy.OriginalDst()},
		"filter_chains": list{object{"filters": list{connectTo("connect_originate", hboneCluster(o), "%DOWNSTREAM_LOCAL_ADDRESS%")}}},
	}, clusters, nil
}

const originalDst = "envoy.filters.listener.original_dst"

// connectTo sends connections as streams of CONNECT for an authority.
func connectTo(stat, cluster, authority string) object {
	return proxy.TCPProxy(stat, cluster, object{"tunneling_config": object{"hostname": authority}})
}

// through is a service's endpoints, each reached through the listener inside the
// proxy, which is told by metadata where the connection is to go.
func through(o origin, s service, groups []proxy.Group) object {
	localities := list{}
	for _, g := range groups {
		var endpoints list
		for _, e := range g.Endpoints {
			to := netip.AddrPortFrom(e.Addr, e.Port).String()
			endpoints = append(endpoints, object{
				"endpoint": object{"address": object{"envoy_internal_address": object{"server_listener_name": connectName(o), "endpoint_id": to}}},
				"metadata": object{"filter_metadata": object{originalDst: object{"local": to}}},
			})
		}
		localities = append(localities, object{
			"lb_endpoints": endpoints, "priority": g.Priority, "locality": object{"region": g.Region, "zone": g.Cluster},
		})
	}
	return object{"cluster_name": o.via(s), "endpoints": localities}
}

// terminate is a listener that takes HBONE: streams for an authority go to that
// cluster; for others there is no way. Who opened each stream is counted.
func (l *ambient) terminate(name, stat, role string, address object, clusters map[string]string, order []string) object {
	hosts := list{}
	for _, authority := range order {
		hosts = append(hosts, object{
			"name": authority, "domains": list{authority},
			"routes": list{object{"match": object{"connect_matcher": object{}}, "route": object{
				"cluster": clusters[authority], "timeout": "0s",
				"upgrade_configs": list{object{"upgrade_type": "CONNECT", "connect_config": object{}}},
			}}},
		})
	}
	manager := proxy.Extension("envoy.filters.network.http_connection_manager", "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", object{
		"stat_prefix": stat, "codec_type": "HTTP2", "http2_protocol_options": hboneOptions(object{"allow_connect": true}),
		"upgrade_configs": list{object{"upgrade_type": "CONNECT"}}, "stream_idle_timeout": "0s",
		"route_config": object{"name": stat, "virtual_hosts": hosts},
		"http_filters": list{l.countPeers(), proxy.Router()},
	})
	return object{
		"name": name, "address": address, "traffic_direction": "INBOUND",
		"filter_chains": list{object{
			"transport_socket": proxy.Extension("envoy.transport_sockets.tls", "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext", object{
				"require_client_certificate": true, "common_tls_context": hboneTLS(role, "spiffe://"+l.mesh.trustDomain()+"/"),
			}),
			"filters": list{manager},
		}},
	}
}

// countPeers counts streams by the identity that their origin has proved: an
// authorization policy in shadow mode, which refuses nothing.
func (l *ambient) countPeers() object {
	policies := object{}
	for _, role := range append(l.mesh.roles(), roleWaypoint) {
		policies[role] = object{
			"permissions": list{object{"any": true}},
			"principals":  list{object{"authenticated": object{"principal_name": object{"exact": l.mesh.identity(role)}}}},
		}
	}
	return proxy.Extension("envoy.filters.http.rbac", "envoy.extensions.filters.http.rbac.v3.RBAC", object{
		"shadow_rules": object{"action": "ALLOW", "policies": policies}, "shadow_rules_stat_prefix": "peer.", "track_per_rule_stats": true,
	})
}

// internalListeners lets a proxy have listeners inside itself.
func internalListeners() list {
	return list{proxy.Extension("envoy.bootstrap.internal_listener", "envoy.extensions.bootstrap.internal_listener.v3.InternalListener", object{})}
}

// gentleEnds ends connections by FIN. When a server has said all and closes, Envoy
// resets the stream that carried it, because its client has not closed yet; if
// that became a reset of the connection, what the server said last could be lost.
func gentleEnds() object {
	return object{"layers": list{object{"name": "static", "static_layer": object{
		"envoy.reloadable_features.enable_send_rst_on_user_space_socket":              false,
		"envoy.reloadable_features.map_http_stream_reset_to_tcp_rst":                  false,
		"envoy.reloadable_features.propagate_upstream_rst_through_tunneled_tcp_proxy": false,
	}}}}
}

// nodeBootstrap is a node proxy's whole configuration.
func (l *ambient) nodeBootstrap(n *nodeProxy) ([]byte, error) {
	listeners, clusters := list{}, list{}
	for _, m := range n.pods {
		o := m.origin()
		inside, ways, err := l.originate(o)
		if err != nil {
			return nil, err
		}
		if w := l.waypointOf(o); w != nil {
			ways = append(ways, l.toWaypoint(o, w))
		}
		in, plain, own := l.inbound(m)
		clusters = append(append(append(clusters, ways...), own...),
			bindIn(object{"name": "PassthroughCluster|" + m.name, "type": "ORIGINAL_DST", "lb_policy": "CLUSTER_PROVIDED", "connect_timeout": "10s"}, o.file))
		listeners = append(listeners, inside, l.outbound(o), in, plain)
	}
	clusters = append(clusters, object{"name": blackHole, "type": "STATIC"})
	return proxy.Encode(object{
		"node":                 object{"id": n.Where.Name(), "cluster": "windtunnel"},
		"admin":                object{"address": proxy.Address("127.0.0.1", portNodeAdmin)},
		"bootstrap_extensions": internalListeners(),
		"layered_runtime":      gentleEnds(),
		"static_resources":     object{"listeners": listeners, "clusters": clusters},
	})
}

// blackHole has no endpoints: connections to it are closed.
const blackHole = "BlackHoleCluster"

// outbound takes what a pod sends: to a service's address to its endpoints or its
// waypoint, to a pod's own to that pod, all else as it is.
func (l *ambient) outbound(o origin) object {
	chains := l.mesh.chains(func(s service, direct bool) object {
		stat := "outbound_" + s.Name
		switch w := l.waypointOf(o); {
		case direct:
			return connectTo(stat, hboneCluster(o), "%DOWNSTREAM_LOCAL_ADDRESS%")
		case w != nil && s.http:
			return connectTo(stat, waypointCluster(o), w.authority(s))
		}
		return proxy.TCPProxy(stat, o.via(s), nil)
	})
	passthrough := "PassthroughCluster|" + o.name
	return object{
		"name": "outbound|" + o.name, "address": socketAddress("0.0.0.0", portOutbound, o.file), "traffic_direction": "OUTBOUND",
		"listener_filters": list{proxy.OriginalDst()}, "filter_chains": chains,
		"default_filter_chain": object{"filters": list{proxy.TCPProxy("PassthroughCluster", passthrough, nil)}},
	}
}

// inbound takes what comes to a pod: as HBONE, and in plaintext, which only
// permissive lets through.
func (l *ambient) inbound(m member) (hbone, plain object, clusters list) {
	o := m.origin()
	authorities, order, chains := map[string]string{}, []string{}, list{}
	for _, s := range l.mesh.services {
		authority := fmt.Sprintf("%s:%d", m.addr, s.TargetPort)
		if !s.has(m.name) || authorities[authority] != "" {
			continue // two services of one port are one to the pod
		}
		name := "inbound|" + s.Name + "|" + m.name
		c := inboundCluster(s)
		c["name"], c["load_assignment"].(object)["cluster_name"] = name, name //nolint:errcheck,forcetypeassert // made above
		clusters = append(clusters, bindIn(c, o.file))
		authorities[authority], order = name, append(order, authority)
		if l.config.MTLS == Permissive {
			chains = append(chains, object{
				"filter_chain_match": object{"destination_port": s.TargetPort}, "filters": list{proxy.TCPProxy("plain_"+s.Name, name, nil)},
			})
		}
	}
	hbone = l.terminate("hbone|"+m.name, "hbone", m.role, socketAddress("0.0.0.0", portHBONE, o.file), authorities, order)
	plain = object{
		"name": "plain|" + m.name, "address": socketAddress("0.0.0.0", portPlain, o.file), "traffic_direction": "INBOUND",
		"listener_filters": list{proxy.OriginalDst()}, "filter_chains": chains,
		"default_filter_chain": object{"filters": list{proxy.TCPProxy("refused", blackHole, nil)}},
	}
	return hbone, plain, clusters
}
