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

// hboneAll is its value: for services a node proxy knows no other way.
const hboneAll = "what pods send to services"

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
		{Layer: Name, Key: factHBONE, Value: hboneAll},
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

// carried is what the counters of several proxies add up to.
type carried struct {
	out      uint64 // connections that pods have opened to services
	streams  uint64 // of HBONE, where they end
	plain    uint64 // connections that came to pods in plaintext
	requests uint64 // at waypoints
	http1    uint64 // requests of that version there
	http2    uint64
	retries  uint64            // by them
	peers    map[string]uint64 // streams by who has proved to be their origin
	told     map[string]uint64 // by Istio's request metrics
	tls      map[string]bool   // versions
	ciphers  map[string]bool
}

func newCarried() *carried {
	return &carried{peers: map[string]uint64{}, told: map[string]uint64{}, tls: map[string]bool{}, ciphers: map[string]bool{}}
}

// add reads a proxy's "name: value" lines.
func (c *carried) add(raw []byte) {
	for _, counter := range []struct {
		prefix, suffix string
		sum            *uint64
	}{
		{"tcp.outbound_", ".downstream_cx_total", &c.out},
		{"tcp.plain_", ".downstream_cx_total", &c.plain},
		{"http.hbone", ".downstream_rq_total", &c.streams},
		{"http.waypoint_", ".downstream_rq_total", &c.requests},
		{"http.waypoint_", ".downstream_rq_http1_total", &c.http1},
		{"http.waypoint_", ".downstream_rq_http2_total", &c.http2},
		{"cluster.outbound", ".upstream_rq_retry", &c.retries},
	} {
		for name, n := range proxy.Counters(raw) {
			if strings.HasPrefix(name, counter.prefix) && strings.HasSuffix(name, counter.suffix) {
				*counter.sum += n
			}
		}
	}
	for name, n := range proxy.Counters(raw) {
		if _, rest, ok := strings.Cut(name, ".peer.policy."); ok {
			if role, allowed := strings.CutSuffix(rest, ".shadow_allowed"); allowed {
				c.peers[role] += n
			}
		}
		if _, v, ok := strings.Cut(name, ".ssl.versions."); ok {
			c.tls[v] = true
		}
		if _, v, ok := strings.Cut(name, ".ssl.ciphers."); ok {
			c.ciphers[v] = true
		}
	}
	for name, n := range requests(raw) {
		c.told[name] += n
	}
}

// Observe reads all proxies' counters and live configurations.
func (l *ambient) Observe(ctx context.Context, _ model.Site) (model.Ledger, error) {
	f := facts{l.program.Facts(Name)}
	pods, ways := newCarried(), newCarried()
	for e, at := range l.proxies() {
		sum := pods
		if at != "" {
			sum = ways
		}
		if err := e.Await(ctx); err != nil {
			return nil, err
		}
		raw, err := e.Ask(ctx, "/stats")
		if err != nil {
			return nil, err
		}
		sum.add(raw)
		version, err := e.Version(ctx)
		if err != nil {
			return nil, err
		}
		f.add(model.FactProgram, "Envoy "+version+", configured as Istio's ambient mode works", model.SourceConfig)
	}
	l.path(&f, pods, ways)
	maps.Copy(pods.tls, ways.tls)
	maps.Copy(pods.ciphers, ways.ciphers)
	f.count(model.FactMTLS, slices.Sorted(maps.Keys(pods.tls))...)
	f.count("TLS cipher", slices.Sorted(maps.Keys(pods.ciphers))...)
	f.count("connections taken in plaintext", strconv.FormatUint(pods.plain, 10))
	f.count(model.FactRetries, l.retried(ways.retries))
	f.count(factRequests, l.config.told(ways.told)...)
	f.add("worker threads of each proxy", strconv.Itoa(l.config.Concurrency), model.SourceConfig)
	endpoints, err := l.endpoints(ctx)
	return append(f.ledger, endpoints...), err
}

// path tells what is between a client and a server: what of it has counted
// anything.
func (l *ambient) path(f *facts, pods, ways *carried) {
	if pods.out > ways.streams {
		f.count(model.FactLevel, levelTCP)
	}
	if ways.requests > 0 {
		f.count(model.FactLevel, levelHTTP)
	}
	f.count(factHTTP, httpVersions(ways.http1, ways.http2)...)
	passed := 0
	for _, n := range []uint64{pods.out, pods.streams, ways.requests} {
		if n > 0 {
			passed++
		}
	}
	f.count(model.FactProxies, strconv.Itoa(passed))
	entry := pods // where what pods have opened first ends: there they prove who they are
	if l.throughWaypoint() {
		entry = ways
	}
	for _, role := range slices.Sorted(maps.Keys(entry.peers)) {
		f.count(model.FactPeer, l.mesh.identity(role))
	}
	share := hboneAll
	if pods.out == 0 || pods.streams+ways.streams == 0 {
		share = "nothing"
	}
	f.count(factHBONE, share)
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
