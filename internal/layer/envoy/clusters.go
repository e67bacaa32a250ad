package envoy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/proxy"
)

// istioConnectTimeout is Istio's default (meshConfig.connectTimeout).
const istioConnectTimeout = "10s"

func clusterName(s service) string { return fmt.Sprintf("outbound|%d||%s", s.Port, s.Name) }

// groups are a service's endpoints as a sidecar of a cluster uses them.
func (m *mesh) groups(s service, from *proxy.Cluster) ([]proxy.Group, error) {
	return m.places.Endpoints(s.Service, proxy.View{
		From: from, Nearest: m.config.near(s.Name), Failover: m.config.Failover,
		Local:   slices.Contains(m.config.ClusterLocal, s.Name),
		Gateway: m.config.Profile.GatewayPort(), Beyond: m.config.Profile.Beyond,
	})
}

// outboundCluster is how a sidecar reaches a service.
func (m *mesh) outboundCluster(s service, sc *sidecar) (object, error) {
	groups, err := m.groups(s, m.places.Of(sc.pod.Name()))
	if err != nil {
		return nil, err
	}
	c := object{
		"name": clusterName(s), "type": "STATIC", "lb_policy": m.policy(), "connect_timeout": m.config.connectTimeout().JSON(), "circuit_breakers": proxy.Unlimited(),
		"upstream_bind_config": ownMark(),
		"load_assignment":      proxy.Static(clusterName(s), groups),
	}
	if m.config.Profile == proxy.Kuma {
		c["circuit_breakers"] = proxy.Breakers(kumaMost, kumaMostRetries)
	}
	if o := m.config.outlier(s.Name); o != nil {
		c["outlier_detection"] = o.envoy()
		c["common_lb_config"] = object{"healthy_panic_threshold": object{"value": 0}} // Istio's minHealthPercent
	}
	if s.http {
		c["typed_extension_protocol_options"] = asAsked()
	}
	if m.config.MTLS != Disabled {
		c["transport_socket"] = proxy.Extension("envoy.transport_sockets.tls", "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext", object{
			"sni": m.config.Profile.ServerName(s.Service), "common_tls_context": tlsContext(m.identity("server"), false), // what is offered is what the request came in
		})
	}
	return c, nil
}

// policy is the way of balancing over endpoints that are alike.
func (m *mesh) policy() string {
	if m.config.LoadBalancing == RoundRobin {
		return "ROUND_ROBIN"
	}
	return "LEAST_REQUEST"
}

// envoy is the outlier detection as Istio writes it: by errors in a row only.
func (o *Outlier) envoy() object {
	const always = 100
	c := object{
		"consecutive_5xx": o.Errors, "enforcing_consecutive_5xx": always, "interval": o.Interval.JSON(), "base_ejection_time": o.BaseEjectionTime.JSON(),
		"max_ejection_percent": o.MaxEjectionPercent, "always_eject_one_host": true, "enforcing_success_rate": 0,
	}
	if o.Split {
		c["split_external_local_origin_errors"] = true
		c["consecutive_local_origin_failure"] = o.LocalErrors
		c["enforcing_consecutive_local_origin_failure"] = always
		c["enforcing_local_origin_success_rate"] = 0
	}
	return c
}

// ownMark marks Envoy's own connections, so that the pod's redirection leaves
// them alone.
func ownMark() object {
	const solSocket, soMark = 1, 36
	return object{
		"source_address": object{"address": "0.0.0.0", "port_value": 0},
		"socket_options": list{object{"description": "SO_MARK", "level": solSocket, "name": soMark, "int_value": mark, "state": "STATE_PREBIND"}},
	}
}

func inboundCluster(s service) object {
	name := "inbound|" + s.Name
	c := object{
		"name": name, "type": "STATIC", "connect_timeout": "10s", "circuit_breakers": proxy.Unlimited(), "upstream_bind_config": ownMark(),
		"load_assignment": object{"cluster_name": name, "endpoints": list{
			object{"lb_endpoints": list{object{"endpoint": object{"address": proxy.Address("127.0.0.1", s.TargetPort)}}}},
		}},
	}
	if s.http {
		c["typed_extension_protocol_options"] = asAsked()
	}
	return c
}

func passthroughCluster() object {
	return object{"name": "PassthroughCluster", "type": "ORIGINAL_DST", "lb_policy": "CLUSTER_PROVIDED", "connect_timeout": "10s", "upstream_bind_config": ownMark()}
}

// gatewaysFrom are the gateways that sidecars of a cluster use.
func (m *mesh) gatewaysFrom(c *proxy.Cluster) (map[netip.AddrPort]string, error) {
	used := map[netip.AddrPort]string{}
	for _, s := range m.services {
		groups, err := m.groups(s, c)
		if err != nil {
			return nil, err
		}
		for _, g := range groups {
			if g.ThroughGateway {
				used[netip.AddrPortFrom(g.Endpoints[0].Addr, g.Endpoints[0].Port)] = g.Cluster
			}
		}
	}
	return used, nil
}

// seeGateways makes sure, before traffic is redirected, that the gateways are
// there which sidecars are going to use.
func (m *mesh) seeGateways(ctx context.Context) error {
	const patience = 10 * time.Second
	seen := map[*proxy.Cluster]bool{}
	var errs []error
	for _, sc := range m.sidecars {
		c := m.places.Of(sc.pod.Name())
		if seen[c] {
			continue
		}
		seen[c] = true
		gateways, err := m.gatewaysFrom(c)
		if err != nil {
			return err
		}
		if len(gateways) > 0 && m.config.MTLS == Disabled {
			return proxy.Bad("mtls", "is disabled, but the way from cluster %s to others is through gateways, which tell services apart by TLS", c.Name)
		}
		for addr, cluster := range gateways {
			errs = append(errs, sc.Where.InNetwork(func() error {
				d := net.Dialer{Timeout: patience}
				conn, err := d.DialContext(ctx, "tcp4", addr.String())
				if err != nil {
					return fmt.Errorf("from cluster %s no gateway of cluster %s answers at %s: %w "+
						"(put the layer gateway, with the same profile, below envoy in the stack)", c.Name, cluster, addr, err)
				}
				return conn.Close()
			}))
		}
	}
	return errors.Join(errs...)
}

// several says whether there is more than one cluster, so that it matters which
// endpoints are used first.
func (m *mesh) several() bool { return len(m.places.Clusters) > 1 }

// factEndpoints is the key of the fact that says which endpoints of a service
// the sidecars of a cluster use, and in which order.
func factEndpoints(s service, c *proxy.Cluster) string {
	return "endpoints of " + s.Name + " from " + c.Name
}

// planned are the claims about endpoints.
func (m *mesh) planned() []model.Claim {
	var claims []model.Claim
	seen := map[*proxy.Cluster]bool{}
	for _, sc := range m.sidecars {
		c := m.places.Of(sc.pod.Name())
		if seen[c] || !m.several() {
			continue
		}
		seen[c] = true
		for _, s := range m.services {
			groups, err := m.groups(s, c)
			if err == nil { // Deploy has made the same
				claims = append(claims, model.Claim{Layer: Name, Key: factEndpoints(s, c), Value: proxy.Describe(proxy.Rows(groups))})
			}
		}
	}
	return claims
}

// merged are the same facts, as the live sidecars have them, with how many
// requests each priority has got.
func (m *mesh) merged(ctx context.Context) (model.Ledger, error) {
	if !m.several() {
		return nil, nil
	}
	seen := newSightings(m)
	for _, sc := range m.sidecars {
		hosts, err := sc.Hosts(ctx)
		if err != nil {
			return nil, err
		}
		seen.add(hosts, m.places.Of(sc.pod.Name()), clusterName)
	}
	return seen.ledger(), nil
}

// sightings are the endpoints that live proxies of each cluster have, and what was
// sent to them by region.
type sightings struct {
	mesh  *mesh
	facts model.Ledger
	sent  map[string]map[string]uint64
}

func newSightings(m *mesh) *sightings {
	return &sightings{mesh: m, sent: map[string]map[string]uint64{}}
}

// add takes a proxy's endpoints into account, which it has under such names.
func (v *sightings) add(hosts []proxy.Host, at *proxy.Cluster, name func(service) string) {
	for _, s := range v.mesh.services {
		rows, counts := v.mesh.live(hosts, s, name(s))
		key := factEndpoints(s, at)
		if v.sent[key] == nil {
			v.facts = append(v.facts, model.Fact{Layer: Name, Key: key, Value: proxy.Describe(rows), Source: model.SourceConfig})
			v.sent[key] = map[string]uint64{}
		}
		for region, n := range counts {
			v.sent[key][region] += n
		}
	}
}

func (v *sightings) ledger() model.Ledger {
	ledger := v.facts
	for _, key := range slices.Sorted(maps.Keys(v.sent)) {
		for _, region := range slices.Sorted(maps.Keys(v.sent[key])) {
			ledger = append(ledger, model.Fact{
				Layer: Name, Key: "sent to " + key, Value: region + ": " + strconv.FormatUint(v.sent[key][region], 10), Source: model.SourceCounters,
			})
		}
	}
	return ledger
}

// live are a service's endpoints in one proxy, and what was sent by region.
func (m *mesh) live(hosts []proxy.Host, s service, cluster string) (rows []proxy.Row, sent map[string]uint64) {
	sent = map[string]uint64{}
	for _, h := range hosts {
		if h.Cluster != cluster {
			continue
		}
		gateway := h.Addr.Port() == m.config.Profile.GatewayPort() && h.Addr.Port() != s.TargetPort
		rows = append(rows, proxy.Row{Priority: h.Priority, Region: h.Region, Gateway: gateway})
		if h.Sent > 0 {
			sent[h.Region] += h.Sent
		}
	}
	return rows, sent
}
