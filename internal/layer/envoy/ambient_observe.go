package envoy

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/proxy"
)

// factHBONE is the key of the fact that says how much was carried so.
const factHBONE = "carried by HBONE"

// Claims are what Observe and the wire must show.
func (l *ambient) Claims() []model.Claim {
	level, proxies := levelTCP, 2
	if l.throughWaypoint() {
		level, proxies = levelHTTP, 3
	}
	claims := []model.Claim{
		{Layer: Name, Key: model.FactLevel, Value: level},
		{Layer: Name, Key: model.FactProxies, Value: strconv.Itoa(proxies)},
		{Layer: Name, Key: model.FactMTLS, Value: "TLSv1.3"},
		{Layer: Name, Key: model.FactPeer, Value: l.mesh.identity(model.RoleClient)},
		{Layer: Name, Key: factHBONE, Value: "all that pods have sent to services"},
	}
	if l.onWire {
		claims = append(claims,
			model.Claim{Layer: Name, Key: model.FactWireProtocol, Value: "TLSv1.3"},
			model.Claim{Layer: Name, Key: model.FactWirePorts, Value: strconv.Itoa(portHBONE)},
		)
	}
	return append(claims, l.mesh.planned()...)
}

// throughWaypoint says whether what is for services passes waypoints.
func (l *ambient) throughWaypoint() bool {
	return len(l.ways) > 0 && slices.ContainsFunc(l.mesh.services, func(s service) bool { return s.http })
}

// carried is what the counters of all proxies add up to.
type carried struct {
	out      uint64            // connections that pods have opened to services
	streams  uint64            // of HBONE, where they end
	plain    uint64            // connections that came to pods in plaintext
	requests uint64            // at waypoints
	retries  uint64            // by them
	peers    map[string]uint64 // streams by who has proved to be their origin
	versions []string
	ciphers  []string
}

// count adds a proxy's "name: value" lines.
func (c *carried) count(raw []byte) {
	for name, n := range proxy.Counters(raw) {
		switch {
		case strings.HasPrefix(name, "tcp.outbound_") && strings.HasSuffix(name, ".downstream_cx_total"):
			c.out += n
		case strings.HasPrefix(name, "tcp.plain_") && strings.HasSuffix(name, ".downstream_cx_total"):
			c.plain += n
		case name == "http.hbone.downstream_rq_total":
			c.streams += n
		case strings.HasPrefix(name, "http.waypoint_") && strings.HasSuffix(name, ".downstream_rq_total"):
			c.requests += n
		case strings.HasPrefix(name, "cluster.outbound") && strings.HasSuffix(name, ".upstream_rq_retry"):
			c.retries += n
		}
		if _, rest, ok := strings.Cut(name, ".peer.policy."); ok {
			if role, allowed := strings.CutSuffix(rest, ".shadow_allowed"); allowed {
				c.peers[role] += n
			}
		}
		if _, v, ok := strings.Cut(name, ".ssl.versions."); ok && !slices.Contains(c.versions, v) {
			c.versions = append(c.versions, v)
		}
		if _, v, ok := strings.Cut(name, ".ssl.ciphers."); ok && !slices.Contains(c.ciphers, v) {
			c.ciphers = append(c.ciphers, v)
		}
	}
}

// Observe reads all proxies' counters and live configurations.
func (l *ambient) Observe(ctx context.Context, _ model.Site) (model.Ledger, error) {
	ledger := l.program.Facts(Name)
	add := func(key, value, source string) {
		f := model.Fact{Layer: Name, Key: key, Value: value, Source: source}
		if !slices.Contains(ledger, f) {
			ledger = append(ledger, f)
		}
	}
	pods, ways := carried{peers: map[string]uint64{}}, carried{peers: map[string]uint64{}}
	told := map[string]uint64{}
	for e, at := range l.proxies() {
		sum := &pods
		if at != "" {
			sum = &ways
		}
		if err := e.Await(ctx); err != nil {
			return nil, err
		}
		raw, err := e.Ask(ctx, "/stats")
		if err != nil {
			return nil, err
		}
		sum.count(raw)
		for name, n := range requests(raw) {
			told[name] += n
		}
		version, err := e.Version(ctx)
		if err != nil {
			return nil, err
		}
		add(model.FactProgram, "Envoy "+version+", configured as Istio's ambient mode works", model.SourceConfig)
	}
	for what, n := range map[string]uint64{levelTCP: pods.out - min(pods.out, ways.streams), levelHTTP: ways.requests} {
		if n > 0 {
			add(model.FactLevel, what, model.SourceCounters)
		}
	}
	passed := 0
	for _, n := range []uint64{pods.out, pods.streams, ways.requests} {
		if n > 0 {
			passed++
		}
	}
	add(model.FactProxies, strconv.Itoa(passed), model.SourceCounters)
	for _, v := range append(pods.versions, ways.versions...) {
		add(model.FactMTLS, v, model.SourceCounters)
	}
	for _, v := range append(pods.ciphers, ways.ciphers...) {
		add("TLS cipher", v, model.SourceCounters)
	}
	entry := pods // where what pods have opened first ends: there they prove who they are
	if l.throughWaypoint() {
		entry = ways
	}
	for _, role := range slices.Sorted(maps.Keys(entry.peers)) {
		add(model.FactPeer, l.mesh.identity(role), model.SourceCounters)
	}
	add(factHBONE, hboneShare(pods, ways), model.SourceCounters)
	add("connections taken in plaintext", strconv.FormatUint(pods.plain, 10), model.SourceCounters)
	add(model.FactRetries, l.retried(ways.retries), model.SourceCounters)
	add("worker threads of each proxy", strconv.Itoa(l.config.Concurrency), model.SourceConfig)
	for _, name := range slices.Sorted(maps.Keys(told)) {
		add(factRequests, describeMetric(name, told[name]), model.SourceCounters)
	}
	endpoints, err := l.endpoints(ctx)
	return append(ledger, endpoints...), err
}

// proxies are all Envoys; waypoints have a name.
func (l *ambient) proxies() map[*proxy.Envoy]string {
	all := map[*proxy.Envoy]string{}
	for _, n := range l.nodes {
		all[&n.Envoy] = ""
	}
	for _, w := range l.ways {
		all[&w.Envoy] = w.at.name
	}
	return all
}

// hboneShare says how much of what pods have opened was carried so. With waypoints
// a connection is a stream to one, and each of its own to pods another.
func hboneShare(pods, ways carried) string {
	switch streams := pods.streams + ways.streams; {
	case pods.out == 0:
		return "nothing yet"
	case streams == 0:
		return "nothing"
	case streams < pods.out:
		return "some of what pods have sent to services"
	}
	return "all that pods have sent to services"
}

func (l *ambient) retried(n uint64) string {
	if !l.throughWaypoint() {
		return "none: at L4 nothing is"
	}
	return "up to " + strconv.Itoa(istioRetries) + " by waypoints; " + strconv.FormatUint(n, 10) + " done"
}

// endpoints are those of every service as the live proxies have them, and how
// much was sent to each region.
func (l *ambient) endpoints(ctx context.Context) (model.Ledger, error) {
	if !l.mesh.several() {
		return nil, nil
	}
	seen := newSightings(l.mesh)
	for _, n := range l.nodes {
		hosts, err := n.Hosts(ctx)
		if err != nil {
			return nil, err
		}
		for _, m := range n.pods {
			seen.add(hosts, m.cluster, func(s service) string { return m.origin().via(s) })
		}
	}
	for _, w := range l.ways {
		hosts, err := w.Hosts(ctx)
		if err != nil {
			return nil, err
		}
		seen.add(hosts, w.at.cluster, w.at.via)
	}
	return seen.ledger(), nil
}

// Artefacts are the live configurations.
func (l *ambient) Artefacts(ctx context.Context, _ model.Site) (map[string][]byte, error) {
	files := map[string][]byte{}
	for e, at := range l.proxies() {
		dump, err := e.Dump(ctx)
		if err != nil {
			return nil, err
		}
		if at == "" {
			at = e.Where.Name()
		}
		files[at+".config_dump.json"] = dump
	}
	return files, nil
}
