package anycast

import (
	"fmt"

	"github.com/windtunnel/windtunnel/internal/proxy"
)

// via marks what has passed an edge.
const via = "1.1 windtunnel-edge"

// bootstrap is an edge's whole configuration: for each service a listener at its
// address, and its endpoints in all clusters by how near they are.
func (l *Layer) bootstrap(e *edge) ([]byte, error) {
	var listeners, clusters proxy.List
	for _, s := range l.services {
		groups, err := l.groups(s, e)
		if err != nil {
			return nil, err
		}
		listeners = append(listeners, proxy.Object{
			"name": s.Name, "address": proxy.Address(s.vip.String(), s.Port),
			"filter_chains": proxy.List{proxy.Object{"filters": proxy.List{httpManager(s)}}},
		})
		clusters = append(clusters, l.cluster(s, groups))
	}
	return proxy.Encode(proxy.Object{
		"node":             proxy.Object{"id": "edge-" + e.at.Region, "cluster": "windtunnel"},
		"admin":            proxy.Object{"address": proxy.Address("127.0.0.1", portAdmin)},
		"static_resources": proxy.Object{"listeners": listeners, "clusters": clusters},
	})
}

// groups are a service's endpoints as an edge sees them.
func (l *Layer) groups(s service, e *edge) ([]proxy.Group, error) {
	return l.places.Endpoints(s.Service, proxy.View{From: e.at, Nearest: true})
}

func clusterName(s service) string { return "backend|" + s.Name }

// httpManager ends the client's connection and balances requests. What could not
// be sent to an endpoint is sent to another, as GKE's load balancers do.
func httpManager(s service) proxy.Object {
	retry := proxy.Object{
		"retry_on": "connect-failure,refused-stream,reset-before-request", "num_retries": retries,
		"retry_priority": proxy.Extension("envoy.retry_priorities.previous_priorities",
			"envoy.extensions.retry.priority.previous_priorities.v3.PreviousPrioritiesConfig", proxy.Object{"update_frequency": 1}),
	}
	route := proxy.Object{"match": proxy.Object{"prefix": "/"}, "route": proxy.Object{"cluster": clusterName(s), "timeout": "30s", "retry_policy": retry}}
	return proxy.Extension("envoy.filters.network.http_connection_manager",
		"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", proxy.Object{
			"stat_prefix": statPrefix + s.Name, "codec_type": "AUTO", "via": via, "use_remote_address": true, "server_header_transformation": "PASS_THROUGH",
			"route_config": proxy.Object{"name": s.Name, "virtual_hosts": proxy.List{
				proxy.Object{"name": s.Name, "domains": proxy.List{"*"}, "routes": proxy.List{route}},
			}},
			"http_filters": proxy.List{proxy.Router()},
		})
}

const (
	statPrefix = "edge_"
	retries    = 1
)

// cluster is a service's endpoints with their health checks. A priority takes
// all requests while at least 72 % of its endpoints are healthy (Envoy's
// overprovisioning factor of 1.4); below, the rest goes to the next.
func (l *Layer) cluster(s service, groups []proxy.Group) proxy.Object {
	h := l.config.Health
	return proxy.Object{
		"name": clusterName(s), "type": "STATIC", "lb_policy": "ROUND_ROBIN", "connect_timeout": "5s", "circuit_breakers": proxy.Unlimited(),
		"load_assignment":  proxy.Static(clusterName(s), groups),
		"common_lb_config": proxy.Object{"healthy_panic_threshold": proxy.Object{"value": 0}},
		"health_checks": proxy.List{proxy.Object{
			"interval": h.Interval.JSON(), "timeout": h.Timeout.JSON(), "unhealthy_threshold": h.Unhealthy, "healthy_threshold": h.Healthy,
			// without traffic endpoints are checked as often
			"no_traffic_interval": h.Interval.JSON(), "initial_jitter": "0.1s",
			"http_health_check": proxy.Object{"path": h.Path, "host": s.Name},
		}},
	}
}

// checks is how the health of endpoints is checked, in one line.
func (h Health) checks() string {
	every, err := h.Interval.Value()
	if err != nil {
		return "none"
	}
	return fmt.Sprintf("GET %s every %s, %d failures in a row take out, %d successes bring back", h.Path, every, h.Unhealthy, h.Healthy)
}
