package proxy

import (
	"maps"
	"net/netip"
)

// Object is a JSON object of Envoy's configuration.
type Object = map[string]any

// List is a JSON array of it.
type List = []any

// Typed is a configuration that says which message it is.
func Typed(message string, o Object) Object {
	o["@type"] = "type.googleapis.com/" + message
	return o
}

// Extension is a named filter, socket or other plug-in of Envoy with its
// configuration.
func Extension(name, message string, o Object) Object {
	return Object{"name": name, "typed_config": Typed(message, o)}
}

// Address is a TCP address.
func Address(ip string, port uint16) Object {
	return Object{"socket_address": Object{"address": ip, "port_value": port}}
}

// TLSInspector lets filter chains be chosen by what a ClientHello says.
func TLSInspector() Object {
	return Extension("envoy.filters.listener.tls_inspector", "envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector", Object{})
}

// OriginalDst lets filter chains be chosen by where a redirected connection was
// going.
func OriginalDst() Object {
	return Extension("envoy.filters.listener.original_dst", "envoy.extensions.filters.listener.original_dst.v3.OriginalDst", Object{})
}

// TCPProxy sends connections to a cluster as they are.
func TCPProxy(stat, cluster string, more Object) Object {
	o := Object{"stat_prefix": stat, "cluster": cluster}
	maps.Copy(o, more)
	return Extension("envoy.filters.network.tcp_proxy", "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", o)
}

// Router is the HTTP filter at the end of every chain.
func Router() Object {
	return Extension("envoy.filters.http.router", "envoy.extensions.filters.http.router.v3.Router", Object{})
}

// Match is of connections to a port at any of the addresses.
func Match(port uint16, addrs ...string) Object {
	var ranges List
	for _, a := range addrs {
		if ip, err := netip.ParseAddr(a); err == nil {
			ranges = append(ranges, Object{"address_prefix": a, "prefix_len": ip.BitLen()})
		}
	}
	return Object{"destination_port": port, "prefix_ranges": ranges}
}

// Unlimited lifts Envoy's default circuit breakers, as Istio does.
func Unlimited() Object {
	const most = 4294967295
	return Breakers(most, most)
}

// Breakers are circuit breakers for connections and requests, and for retries.
func Breakers(most, retries int) Object {
	return Object{"thresholds": List{Object{"max_connections": most, "max_pending_requests": most, "max_requests": most, "max_retries": retries}}}
}

// Static is a cluster's endpoints, written in the configuration.
func Static(cluster string, groups []Group) Object {
	localities := List{}
	for _, g := range groups {
		var endpoints List
		for _, e := range g.Endpoints {
			one := Object{"endpoint": Object{"address": Address(e.Addr.String(), e.Port)}}
			if e.Weight > 1 {
				one["load_balancing_weight"] = e.Weight
			}
			endpoints = append(endpoints, one)
		}
		o := Object{"lb_endpoints": endpoints, "locality": Object{"region": g.Region, "zone": g.Cluster}}
		if g.Priority > 0 {
			o["priority"] = g.Priority
		}
		localities = append(localities, o)
	}
	return Object{"cluster_name": cluster, "endpoints": localities}
}
