package envoy

import (
	"context"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/proxy"
)

var _ model.Tracer = (*Layer)(nil)

// Trace has the sidecars log traced requests, from the next Deploy on.
func (l *Layer) Trace() { l.traced = true }

// Spans are what the sidecars have logged so far; at L4 nothing.
func (l *Layer) Spans(context.Context) ([]model.Span, error) {
	var all []model.Span
	for _, sc := range l.mesh.sidecars {
		if !l.mesh.logs() {
			break
		}
		spans, err := sc.Spans(ofStat)
		if err != nil {
			return nil, err
		}
		all = append(all, spans...)
	}
	return all, nil
}

// logs says whether there is a service of which requests are seen.
func (m *mesh) logs() bool {
	for _, s := range m.services {
		if s.http {
			return true
		}
	}
	return false
}

// ofStat says what an HTTP connection manager's stat prefix stands for.
func ofStat(stat string) (service string, inbound, known bool) {
	if service, known = strings.CutPrefix(stat, "inbound_"); known {
		return service, true, true
	}
	service, known = strings.CutPrefix(stat, "outbound_")
	return service, false, known
}

// flags are the sidecars' further arguments.
func (l *Layer) flags() []string {
	if !l.traced {
		return nil
	}
	return proxy.FlushSpans()
}
