package gateway

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/proxy"
)

// Observe reads every gateway's counters and live configuration.
func (l *Layer) Observe(ctx context.Context, _ model.Site) (model.Ledger, error) {
	ledger := l.program.Facts(Name)
	seen := map[model.Fact]bool{}
	add := func(key, value, source string) {
		f := model.Fact{Layer: Name, Key: key, Value: value, Source: source}
		if !seen[f] {
			seen[f] = true
			ledger = append(ledger, f)
		}
	}
	used := 0
	for _, g := range l.gateways {
		if err := g.Await(ctx); err != nil {
			return nil, err
		}
		level, err := g.level(ctx)
		if err != nil {
			return nil, err
		}
		add(model.FactLevel, level, model.SourceConfig)
		hosts, err := g.Hosts(ctx)
		if err != nil {
			return nil, err
		}
		services := map[string]bool{}
		for _, h := range hosts {
			services[h.Cluster] = true
		}
		add(g.fact(), fmt.Sprintf("%d, with %d endpoints", len(services), len(hosts)), model.SourceConfig)
		raw, err := g.Ask(ctx, "/stats")
		if err != nil {
			return nil, err
		}
		passed := passed(raw)
		if passed > 0 {
			used++
		}
		add("connections through the gateway of "+g.cluster.Name, strconv.FormatUint(passed, 10), model.SourceCounters)
		version, err := g.Version(ctx)
		if err != nil {
			return nil, err
		}
		add(model.FactProgram, "Envoy "+version+", configured as "+l.config.likeness(), model.SourceConfig)
	}
	add("gateways in use", strconv.Itoa(used), model.SourceCounters)
	return ledger, nil
}

func (c Config) likeness() string {
	if c.Profile == proxy.Kuma {
		return "Kuma's zone ingress"
	}
	return "Istio's east-west gateway"
}

// level says what the live listener does with a connection.
func (g *gateway) level(ctx context.Context) (string, error) {
	dump, err := g.Dump(ctx)
	if err != nil {
		return "", err
	}
	switch {
	case bytes.Contains(dump, []byte("type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext")):
		return "TLS ended", nil
	case bytes.Contains(dump, []byte("type.googleapis.com/"+sniMessage)):
		return level, nil
	}
	return "unknown", nil
}

// passed is how many connections went on to a pod.
func passed(raw []byte) (n uint64) {
	for name, value := range proxy.Counters(raw) {
		if strings.HasPrefix(name, "cluster.") && strings.HasSuffix(name, ".upstream_cx_total") {
			n += value
		}
	}
	return n
}

// Artefacts are the live configurations.
func (l *Layer) Artefacts(ctx context.Context, _ model.Site) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, g := range l.gateways {
		dump, err := g.Dump(ctx)
		if err != nil {
			return nil, err
		}
		files[g.cluster.Name+".config_dump.json"] = dump
	}
	return files, nil
}
