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

// told are the metrics as the ledger has them.
func (c Config) told(metrics map[string]uint64) (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		lines = append(lines, describeMetric(name, metrics[name]))
	}
	if len(lines) == 0 && c.Telemetry == Off {
		lines = []string{"none"}
	}
	return lines
}

// describeMetric is a route's name and what it counted, as the ledger has it.
func describeMetric(name string, n uint64) string {
	reporter, rest, _ := strings.Cut(strings.TrimPrefix(name, "reporter="), ";source=")
	source, destination, _ := strings.Cut(rest, ";destination=")
	return fmt.Sprintf("%s to %s: %d, told by the %s", source, destination, n, reporter)
}
