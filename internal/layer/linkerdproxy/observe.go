package linkerdproxy

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	prometheus "github.com/prometheus/common/model"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/proxy"
)

// What sidecars do with a service's traffic. Between each other they speak TLS
// 1.3 only.
const (
	levelHTTP = "L7, HTTP"
	levelTCP  = "L4, TCP"
	tls13     = "TLSv1.3"
)

// Claims are what Observe and the wire must show.
func (l *Layer) Claims() []model.Claim {
	level := levelTCP
	if slices.ContainsFunc(l.services, func(s service) bool { return !s.opaque }) {
		level = levelHTTP
	}
	claim := func(key, value string) model.Claim { return model.Claim{Layer: Name, Key: key, Value: value} }
	claims := []model.Claim{claim(model.FactLevel, level), claim(model.FactProxies, "2"), claim(model.FactMTLS, tls13), claim(model.FactPeer, identity(model.RoleClient))}
	if l.flat.OnWire {
		claims = append(claims, claim(model.FactWireProtocol, tls13))
	}
	return claims
}

// Observe reads every sidecar's own metrics.
func (l *Layer) Observe(ctx context.Context, _ model.Site) (model.Ledger, error) {
	ledger := l.program.Facts(Name)
	add := func(key, value, source string) {
		ledger.Note(model.Fact{Layer: Name, Key: key, Value: value, Source: source})
	}
	used := map[string]bool{}
	for _, sc := range l.sidecars {
		c, err := sc.read(ctx)
		if err != nil {
			return nil, fmt.Errorf("the linkerd2-proxy in %s: %w", sc.Pod.Name(), err)
		}
		add(model.FactProgram, "linkerd2-proxy "+c.version+", told what to do by Windtunnel", model.SourceConfig)
		for direction, level := range c.levels() {
			used[direction] = true
			add(model.FactLevel, level, model.SourceCounters)
		}
		for _, peer := range c.peers {
			add(model.FactPeer, peer, model.SourceCounters)
			add(model.FactMTLS, tls13, model.SourceCounters)
		}
		if c.plain > 0 {
			add(model.FactMTLS, "none", model.SourceCounters)
		}
	}
	add(model.FactProxies, strconv.Itoa(len(used)), model.SourceCounters)
	add(model.FactBalancing, "Linkerd: the better of two, by peak EWMA of latency", model.SourceConfig)
	add(model.FactRetries, "none", model.SourceConfig)
	add("sidecar worker threads", strconv.Itoa(l.config.Concurrency), model.SourceConfig)
	add("default inbound policy", string(l.config.Policy), model.SourceConfig)
	return ledger, nil
}

func (sc *sidecar) read(ctx context.Context) (counters, error) {
	if err := sc.await(ctx, nil); err != nil {
		return counters{}, err
	}
	raw, err := sc.ask(ctx, "/metrics")
	if err != nil {
		return counters{}, err
	}
	return parseMetrics(raw)
}

// levels say of each direction that was used at which level that was.
func (c counters) levels() map[string]string {
	all := map[string]string{}
	for direction, n := range c.connections {
		if n > 0 {
			all[direction] = levelTCP
		}
	}
	for direction, n := range c.requests {
		if n > 0 {
			all[direction] = levelHTTP
		}
	}
	return all
}

// counters are what matters of a proxy's metrics. Directions are Linkerd's:
// inbound and outbound.
type counters struct {
	version     string
	requests    map[string]float64
	connections map[string]float64
	plain       float64  // of requests and connections that came in, those without mutual TLS
	peers       []string // whose requests and connections came in
}

// parseMetrics reads a proxy's metrics, without those of its own admin interface.
func parseMetrics(raw []byte) (c counters, err error) {
	c = counters{version: "of a version that it does not tell", requests: map[string]float64{}, connections: map[string]float64{}}
	parser := expfmt.NewTextParser(prometheus.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(known(raw)))
	if err != nil {
		return c, fmt.Errorf("reading its metrics: %w", err)
	}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			label := labelsOf(m)
			switch {
			case name == metricBuild:
				if v := label["version"]; v != "" {
					c.version = v
				}
			case strings.HasSuffix(label["target_addr"], ":"+strconv.Itoa(portAdmin)):
			case name == metricRequests:
				c.requests[label["direction"]] += value(m)
				c.came(label, value(m))
			case name == metricConnections && label["peer"] == "src":
				c.connections[label["direction"]] += value(m)
				c.came(label, value(m))
			}
		}
	}
	slices.Sort(c.peers)
	return c, nil
}

// The metrics that are read.
const (
	metricBuild       = "proxy_build_info"
	metricRequests    = "request_total"
	metricConnections = "tcp_open_total"
)

// known are the lines of those alone: the rest is partly in OpenMetrics' format,
// and need not be understood.
func known(raw []byte) (lines []byte) {
	for line := range bytes.Lines(raw) {
		name, _, labelled := bytes.Cut(line, []byte("{"))
		if n := string(name); labelled && (n == metricBuild || n == metricRequests || n == metricConnections) {
			lines = append(lines, line...)
		}
	}
	return lines
}

// came notes by whom something was sent into the pod.
func (c *counters) came(label map[string]string, n float64) {
	if label["direction"] != "inbound" || n == 0 {
		return
	}
	if label["tls"] != "true" {
		c.plain += n
	} else if id := label["client_id"]; id != "" && !slices.Contains(c.peers, id) {
		c.peers = append(c.peers, id)
	}
}

func labelsOf(m *dto.Metric) map[string]string {
	all := map[string]string{}
	for _, l := range m.GetLabel() {
		all[l.GetName()] = l.GetValue()
	}
	return all
}

// value is a metric's; the lines that say of which type it is are left out.
func value(m *dto.Metric) float64 { return m.GetUntyped().GetValue() }

// ask asks the proxy's admin interface, from inside the pod.
func (sc *sidecar) ask(ctx context.Context, path string) (body []byte, err error) {
	if body, err = proxy.Get(ctx, sc.Where, portAdmin, path, patience); err != nil {
		return nil, fmt.Errorf("asking it for %s: %w", path, err)
	}
	return body, nil
}

// Artefacts are the proxies' metrics: they have no configuration to dump.
func (l *Layer) Artefacts(ctx context.Context, _ model.Site) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, sc := range l.sidecars {
		raw, err := sc.ask(ctx, "/metrics")
		if err != nil {
			return nil, fmt.Errorf("the linkerd2-proxy in %s: %w", sc.Pod.Name(), err)
		}
		files[sc.Pod.Name()+".metrics.txt"] = raw
	}
	return files, nil
}
