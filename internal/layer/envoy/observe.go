package envoy

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/proxy"
)

// What sidecars do with a service's traffic.
const (
	levelHTTP = "L7, HTTP"
	levelTCP  = "L4, TCP"
)

// Claims are what Observe, the wire and the app's answers must show.
func (l *Layer) Claims() []model.Claim {
	level := levelTCP
	if slices.ContainsFunc(l.mesh.services, func(s service) bool { return s.http }) {
		level = levelHTTP
	}
	claims := append([]model.Claim{{Layer: Name, Key: model.FactLevel, Value: level}, {Layer: Name, Key: model.FactProxies, Value: "2"}}, l.mesh.planned()...)
	if l.config.MTLS == Disabled {
		return append(claims, model.Claim{Layer: Name, Key: model.FactMTLS, Value: "none"})
	}
	claims = append(claims, model.Claim{Layer: Name, Key: model.FactMTLS, Value: "TLSv1.3"})
	if level == levelHTTP { // at L4 nobody tells the app
		claims = append(claims, model.Claim{Layer: Name, Key: model.FactPeer, Value: l.mesh.identity(l.config.entryRole())})
	}
	if l.onWire && l.edge == nil { // what clients send an ingress is in plaintext
		claims = append(claims, model.Claim{Layer: Name, Key: model.FactWireProtocol, Value: "TLSv1.3"})
	}
	return claims
}

// factHTTP is the key of the fact that says which HTTP was proxied.
const factHTTP = "HTTP version"

// httpVersions are those that there were requests of.
func httpVersions(one, two uint64) (all []string) {
	if one > 0 {
		all = append(all, "HTTP/1.1")
	}
	if two > 0 {
		all = append(all, "HTTP/2")
	}
	return all
}

// facts gathers a ledger in which no fact is twice.
type facts struct{ ledger model.Ledger }

func (f *facts) add(key, value, source string) {
	one := model.Fact{Layer: Name, Key: key, Value: value, Source: source}
	if !slices.Contains(f.ledger, one) {
		f.ledger = append(f.ledger, one)
	}
}

// count adds what counters say, one fact for each value.
func (f *facts) count(key string, values ...string) {
	for _, v := range values {
		f.add(key, v, model.SourceCounters)
	}
}

// Observe reads every sidecar's counters and live configuration.
func (l *Layer) Observe(ctx context.Context, _ model.Site) (model.Ledger, error) {
	f := facts{l.program.Facts(Name)}
	sum := stats{told: map[string]uint64{}}
	inPath := map[string]bool{}
	for _, sc := range l.proxies() {
		st, err := sc.counters(ctx)
		if err != nil {
			return nil, err
		}
		version, err := sc.Version(ctx)
		if err != nil {
			return nil, err
		}
		sum.add(st)
		if st.requests+st.connections > 0 {
			inPath[sc.role] = true
		}
		f.add(model.FactProgram, "Envoy "+version+", configured as "+l.config.mesh()+" does", model.SourceConfig)
	}
	if sum.requests > 0 {
		f.count(model.FactLevel, levelHTTP)
	}
	if sum.connections > 0 {
		f.count(model.FactLevel, levelTCP)
	}
	f.count(factHTTP, httpVersions(sum.http1, sum.http2)...)
	f.count(model.FactProxies, strconv.Itoa(len(inPath)))
	f.count(model.FactMTLS, sum.tlsVersions...)
	if l.config.MTLS == Disabled && len(inPath) > 0 && len(sum.tlsVersions) == 0 {
		f.count(model.FactMTLS, "none")
	}
	f.count("TLS cipher", sum.ciphers...)
	f.count(model.FactRetries, fmt.Sprintf("up to %d; %d done", l.config.retries(), sum.retries))
	f.count(factRequests, l.config.told(sum.told)...)
	if l.config.ejects() {
		f.count("endpoints taken out by outlier detection", strconv.FormatUint(sum.ejections, 10))
	}
	if l.window != nil {
		f.add(factWindow, l.window.String(), model.SourceAnswer)
	}
	f.add("sidecar worker threads", strconv.Itoa(l.config.Concurrency), model.SourceConfig)
	merged, err := l.mesh.merged(ctx)
	return append(f.ledger, merged...), err
}

func (c Config) mesh() string {
	if c.Profile == proxy.Kuma {
		return "Kuma"
	}
	return "Istio"
}

func (c Config) retries() int {
	if c.Profile == proxy.Kuma {
		return kumaRetries
	}
	return istioRetries
}

func (sc *sidecar) counters(ctx context.Context) (stats, error) {
	if err := sc.Await(ctx); err != nil {
		return stats{}, err
	}
	raw, err := sc.Ask(ctx, "/stats")
	st := parseStats(raw)
	st.told = requests(raw)
	return st, err
}

// stats is what matters of a sidecar's counters.
type stats struct {
	requests, connections uint64 // of services: at L7, at L4
	http1, http2          uint64 // requests of that version
	retries, ejections    uint64
	tlsVersions, ciphers  []string
	told                  map[string]uint64 // by Istio's request metrics
}

// add takes another sidecar's into account.
func (s *stats) add(other stats) {
	s.requests, s.connections = s.requests+other.requests, s.connections+other.connections
	s.http1, s.http2 = s.http1+other.http1, s.http2+other.http2
	s.retries, s.ejections = s.retries+other.retries, s.ejections+other.ejections
	s.tlsVersions, s.ciphers = append(s.tlsVersions, other.tlsVersions...), append(s.ciphers, other.ciphers...)
	for name, n := range other.told {
		s.told[name] += n
	}
}

// parseStats reads Envoy's "name: value" lines.
func parseStats(raw []byte) stats {
	var s stats
	for name, n := range proxy.Counters(raw) {
		kind, rest, _ := strings.Cut(name, ".")
		if strings.HasPrefix(rest, "outbound") || kind != "cluster" && strings.HasPrefix(rest, "inbound_") {
			s.count(kind+" "+rest[strings.LastIndexByte(rest, '.')+1:], n)
		}
		if _, v, ok := strings.Cut(name, ".ssl.versions."); ok {
			s.tlsVersions = append(s.tlsVersions, v)
		}
		if _, v, ok := strings.Cut(name, ".ssl.ciphers."); ok {
			s.ciphers = append(s.ciphers, v)
		}
	}
	return s
}

// count adds a counter of a service, by its kind and what it counts.
func (s *stats) count(what string, n uint64) {
	switch what {
	case "http downstream_rq_total":
		s.requests += n
	case "tcp downstream_cx_total":
		s.connections += n
	case "http downstream_rq_http1_total":
		s.http1 += n
	case "http downstream_rq_http2_total":
		s.http2 += n
	case "cluster upstream_rq_retry":
		s.retries += n
	case "cluster ejections_enforced_total":
		s.ejections += n
	}
}

// Artefacts are the live configurations.
func (l *Layer) Artefacts(ctx context.Context, _ model.Site) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, sc := range l.proxies() {
		dump, err := sc.Dump(ctx)
		if err != nil {
			return nil, err
		}
		files[sc.name()+".config_dump.json"] = dump
	}
	return files, nil
}
