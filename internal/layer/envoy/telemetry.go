package envoy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/proxy"
)

// Istio counts and times requests by source and destination, at both ends, in a
// filter that upstream Envoy does not have. Here Envoy's own statistics of routes
// do it: a route for each source, with a name of its own. As with Istio the end
// that receives tells sources apart by the identity that they have proved.

// counted is a route with a name: for requests with such headers; none: for all.
type counted struct {
	name    string
	headers list
}

// factRequests is the key of the facts that say what was told so.
const factRequests = "request metrics"

// unknownSource is who has proved no identity.
const unknownSource = "unknown"

// metricName is a route's; parseMetric reads it.
func metricName(reporter, source, destination string) string {
	return "reporter=" + reporter + ";source=" + source + ";destination=" + destination
}

// reported is what a source's sidecar counts.
func (m *mesh) reported(s service, role string) []counted {
	if m.config.Telemetry != On {
		return nil
	}
	return []counted{{name: metricName("source", role, s.Name)}}
}

// received is what a destination's sidecar counts.
func (m *mesh) received(s service) (all []counted) {
	if m.config.Telemetry != On {
		return nil
	}
	for _, role := range m.roles() {
		if m.config.MTLS == Disabled {
			break
		}
		proved := object{"name": "x-forwarded-client-cert", "string_match": object{"suffix": "URI=" + m.identity(role)}}
		all = append(all, counted{metricName("destination", role, s.Name), list{proved}})
	}
	return append(all, counted{name: metricName("destination", unknownSource, s.Name)})
}

// passed is what a waypoint counts: it tells no sources apart, because they end
// where its stream of HBONE does.
func (m *mesh) passed(s service) []counted {
	if m.config.Telemetry != On {
		return nil
	}
	return []counted{{name: metricName("waypoint", unknownSource, s.Name)}}
}

// requests are counted by route name, from Envoy's statistics.
func requests(raw []byte) map[string]uint64 {
	all := map[string]uint64{}
	for name, n := range proxy.Counters(raw) {
		rest, whole := strings.CutSuffix(name, ".upstream_rq_completed")
		if _, metric, ok := strings.Cut(rest, ".route.reporter="); ok && whole {
			all["reporter="+metric] += n
		}
	}
	return all
}

// told are the metrics as the ledger has them: who has counted what, and how much
// only where two ends do not agree, so that trials which are alike read alike.
func (c Config) told(metrics map[string]uint64) (lines []string) {
	pairs := map[string]map[string]uint64{} // by source and destination, by reporter
	for name, n := range metrics {
		reporter, rest, _ := strings.Cut(strings.TrimPrefix(name, "reporter="), ";source=")
		pair := strings.Replace(rest, ";destination=", " to ", 1)
		if pairs[pair] == nil {
			pairs[pair] = map[string]uint64{}
		}
		pairs[pair][reporter] += n
	}
	for _, pair := range slices.Sorted(maps.Keys(pairs)) {
		lines = append(lines, pair+agreed(pairs[pair]))
	}
	if len(lines) == 0 && c.Telemetry == Off {
		lines = []string{"none"}
	}
	return lines
}

// agreed says who has counted the requests of a source and a destination.
func agreed(by map[string]uint64) string {
	reporters := slices.Sorted(maps.Keys(by))
	switch {
	case len(reporters) == 1:
		return ", told by the " + reporters[0]
	case by[reporters[0]] == by[reporters[1]]:
		return ", told by both ends alike"
	}
	return fmt.Sprintf(": the %s tells of %d, the %s of %d", reporters[0], by[reporters[0]], reporters[1], by[reporters[1]])
}
