package envoy

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/proxy"
)

const (
	filterFault  = "envoy.filters.http.fault"
	messageFault = "envoy.extensions.filters.http.fault.v3.HTTPFault"
	clusterSpans = "spans"
)

// follow changes a sidecar's configuration, as decoded from JSON, to what it is
// under the rules.
func (m *mesh) follow(config object, r model.Rules) error {
	static, _ := config["static_resources"].(object)
	if r.Service == "" {
		return nil // no rules
	}
	clusters, err := m.followClusters(static["clusters"], r)
	if err != nil {
		return err
	}
	static["clusters"] = clusters
	listeners, _ := static["listeners"].(list)
	for _, l := range listeners {
		listener, _ := l.(object)
		name, _ := listener["name"].(string)
		managers(listener, func(manager object) { m.followRequests(manager, name, r) })
		if r.Egress != nil {
			followEgress(listener, name, *r.Egress)
		}
	}
	return nil
}

// followRequests changes how a manager of HTTP treats requests.
func (m *mesh) followRequests(manager object, listener string, r model.Rules) {
	stat, _ := manager["stat_prefix"].(string)
	filters, _ := manager["http_filters"].(list)
	if m.guards(r, listener, stat) {
		filters = append(m.access(r), filters...)
	}
	if len(r.Routes) > 0 && (stat == "outbound_"+r.Service || stat == "waypoint_"+r.Service) {
		followRoutes(manager, r)
		filters = append(list{proxy.Extension(filterFault, messageFault, object{})}, filters...)
	}
	manager["http_filters"] = filters
	if stat == "hbone" {
		return // its requests are connections
	}
	if r.Log {
		manager["access_log"] = list{proxy.Extension("envoy.access_loggers.stdout", "envoy.extensions.access_loggers.stream.v3.StdoutAccessLog", object{})}
	}
	if r.Spans.IsValid() {
		manager["tracing"] = tracing()
	}
}

// managers visits the configurations of all HTTP connection managers.
func managers(config any, visit func(manager object)) {
	switch v := config.(type) {
	case object:
		if kind, _ := v["@type"].(string); strings.HasSuffix(kind, ".HttpConnectionManager") {
			visit(v)
			return
		}
		for _, inner := range v {
			managers(inner, visit)
		}
	case list:
		for _, inner := range v {
			managers(inner, visit)
		}
	}
}

// clone is a copy of what was decoded from JSON.
func clone(v object) (object, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("copying a configuration: %w", err)
	}
	var c object
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, fmt.Errorf("copying a configuration: %w", err)
	}
	return c, nil
}

// subsetName is the cluster of some of a service's pods, as Istio names it, by
// that of all.
func subsetName(cluster, subset string) string {
	return strings.Replace(cluster, "||", "|"+subset+"|", 1)
}

// followClusters adds the subsets, and sets limits.
func (m *mesh) followClusters(was any, r model.Rules) (list, error) {
	s, err := m.service(r.Service)
	if err != nil {
		return nil, err
	}
	all, _ := was.(list)
	there := false
	for _, c := range all {
		base, ok := c.(object)
		name, _ := base["name"].(string)
		there = there || name == blackHole
		if !ok || name != clusterName(s) && !strings.HasPrefix(name, clusterName(s)+"|") {
			continue
		}
		if r.Limit > 0 {
			base["circuit_breakers"] = object{"thresholds": list{object{
				"max_connections": r.Limit, "max_pending_requests": r.Limit, "max_requests": r.Limit, "max_retries": r.Limit,
			}}}
		}
		if r.Eject != nil {
			o := usualOutlier()
			o.Errors, o.BaseEjectionTime, o.MaxEjectionPercent = r.Eject.Failures, proxy.Duration(r.Eject.For.String()), 100
			base["outlier_detection"] = o.envoy()
		}
		for _, version := range slices.Sorted(maps.Keys(r.Subsets)) {
			subset, err := s.subset(base, subsetName(name, version), r.Subsets[version])
			if err != nil {
				return nil, err
			}
			all = append(all, subset)
		}
	}
	if r.Egress != nil && !there {
		all = append(all, object{"name": blackHole, "type": "STATIC", "connect_timeout": "1s"})
	}
	if r.Spans.IsValid() {
		all = append(all, spansCluster(r.Spans))
	}
	return all, nil
}

// subset is a copy of a service's cluster with the endpoints of some pods only.
func (s service) subset(base object, name string, pods []string) (object, error) {
	c, err := clone(base)
	if err != nil {
		return nil, err
	}
	c["name"] = name
	load, _ := c["load_assignment"].(object)
	load["cluster_name"] = name
	localities, _ := load["endpoints"].(list)
	for _, l := range localities {
		locality, _ := l.(object)
		endpoints, _ := locality["lb_endpoints"].(list)
		locality["lb_endpoints"] = slices.DeleteFunc(endpoints, func(e any) bool { return !s.hasEndpoint(e, pods) })
	}
	return c, nil
}

// hasEndpoint says whether an endpoint of the service is one of the pods: by its
// address, or by what the way to it inside an ambient proxy is called.
func (s service) hasEndpoint(endpoint any, pods []string) bool {
	at := func(v any, path ...string) any {
		for _, key := range path {
			o, _ := v.(object)
			v = o[key]
		}
		return v
	}
	addr := at(endpoint, "endpoint", "address", "socket_address", "address")
	inside, _ := at(endpoint, "endpoint", "address", "envoy_internal_address", "endpoint_id").(string)
	for i, a := range s.addrs {
		if (addr == a || strings.HasPrefix(inside, a+":")) && slices.Contains(pods, s.Pods[i]) {
			return true
		}
	}
	return false
}

// followRoutes replaces the routes to a service. Each is made of the one that
// was there, so that what a rule does not say stays as it was.
func followRoutes(manager object, r model.Rules) {
	table, _ := manager["route_config"].(object)
	hosts, _ := table["virtual_hosts"].(list)
	if len(hosts) == 0 {
		return
	}
	host, _ := hosts[0].(object)
	was, _ := host["routes"].(list)
	if len(was) == 0 {
		return
	}
	base, _ := was[len(was)-1].(object)
	var now list
	for _, rule := range r.Routes {
		now = append(now, route(base, rule))
	}
	host["routes"] = now
}

func route(base object, rule model.Route) object {
	prefix := "/"
	if rule.PathPrefix != "" {
		prefix = rule.PathPrefix
	}
	match := object{"prefix": prefix}
	var headers list
	for _, name := range slices.Sorted(maps.Keys(rule.Header)) {
		headers = append(headers, object{"name": name, "string_match": object{"exact": rule.Header[name]}})
	}
	if len(headers) > 0 {
		match["headers"] = headers
	}
	was, _ := base["route"].(object)
	action := object{}
	maps.Copy(action, was)
	cluster, _ := action["cluster"].(string)
	subset := func(name string) string { return subsetName(cluster, name) }
	if len(rule.To) > 0 {
		delete(action, "cluster")
		var weighted list
		for _, w := range rule.To {
			weighted = append(weighted, object{"name": subset(w.Subset), "weight": w.Weight})
		}
		action["weighted_clusters"] = object{"clusters": weighted}
	}
	if rule.Mirror != "" {
		action["request_mirror_policies"] = list{object{"cluster": subset(rule.Mirror)}}
	}
	if rule.Timeout > 0 {
		action["timeout"] = seconds(rule.Timeout)
	}
	if rule.Retries > 0 {
		policy := retries()
		policy["num_retries"], policy["retriable_status_codes"] = rule.Retries, rule.RetryOn
		action["retry_policy"] = policy
	}
	one := object{"match": match, "route": action}
	if fault := injected(rule); fault != nil {
		one["typed_per_filter_config"] = object{filterFault: proxy.Typed(messageFault, fault)}
	}
	return one
}

// injected is the fault of a route; nil: none.
func injected(rule model.Route) object {
	fault, always := object{}, object{"numerator": 100, "denominator": "HUNDRED"}
	if rule.Delay > 0 {
		fault["delay"] = object{"fixed_delay": seconds(rule.Delay), "percentage": always}
	}
	if rule.Abort > 0 {
		fault["abort"] = object{"http_status": rule.Abort, "percentage": always}
	}
	if len(fault) == 0 {
		return nil
	}
	return fault
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s" }

// access are the filters that let requests in by the identity which the client
// has proved.
func (m *mesh) access(r model.Rules) (filters list) {
	add := func(name, action string, roles []string) {
		if len(roles) == 0 {
			return
		}
		var principals list
		for _, role := range roles {
			principals = append(principals, object{"authenticated": object{"principal_name": object{"exact": m.identity(role)}}})
		}
		filters = append(filters, proxy.Extension(name, "envoy.extensions.filters.http.rbac.v3.RBAC", object{"rules": object{
			"action": action, "policies": object{"rule": object{"permissions": list{object{"any": true}}, "principals": principals}},
		}}))
	}
	add("deny", "DENY", r.Deny)
	add("allow", "ALLOW", r.Allow)
	return filters
}

// followEgress lets connections out to the allowed addresses only, where a
// listener is one of those that pods' connections go out through.
func followEgress(listener object, name string, e model.Egress) {
	_, pod, node := strings.Cut(name, "outbound|")
	if name != "virtualOutbound" && !node {
		return
	}
	out := "PassthroughCluster"
	if node {
		out += "|" + pod
	}
	chains, _ := listener["filter_chains"].(list)
	for _, addr := range e.Allowed {
		chains = append(chains, object{
			"filter_chain_match": proxy.Match(addr.Port(), addr.Addr().String()), "filters": list{proxy.TCPProxy("egress", out, nil)},
		})
	}
	listener["filter_chains"] = chains
	listener["default_filter_chain"] = object{"filters": list{proxy.TCPProxy(blackHole, blackHole, nil)}}
}

// tracing tells Zipkin about every request, and carries trace contexts in
// W3C's form, too.
func tracing() object {
	return object{
		"provider": proxy.Extension("envoy.tracers.zipkin", "envoy.config.trace.v3.ZipkinConfig", object{
			"collector_cluster": clusterSpans, "collector_endpoint": "/api/v2/spans", "collector_endpoint_version": "HTTP_JSON",
			"trace_context_option": "USE_B3_WITH_W3C_PROPAGATION", "trace_id_128bit": true, "shared_span_context": false,
		}),
		"random_sampling": object{"value": 100},
	}
}

func spansCluster(at netip.AddrPort) object {
	return object{
		"name": clusterSpans, "type": "STATIC", "connect_timeout": "1s", "upstream_bind_config": ownMark(),
		"load_assignment": object{"cluster_name": clusterSpans, "endpoints": list{
			object{"lb_endpoints": list{object{"endpoint": object{"address": proxy.Address(at.Addr().String(), at.Port())}}}},
		}},
	}
}
