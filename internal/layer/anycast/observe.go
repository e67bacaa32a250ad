package anycast

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/proxy"
)

const levelHTTP = "L7, HTTP/1.1"

// factChecks and factEndpoints are keys of facts.
const factChecks = "health checks"

func factEndpoints(s service, e *edge) string {
	return "endpoints of " + s.Name + " from the edge of " + e.at.Region
}

// Claims are what the live edges must show.
func (l *Layer) Claims() []model.Claim {
	claims := []model.Claim{
		{Layer: Name, Key: model.FactLevel, Value: levelHTTP},
		{Layer: Name, Key: factChecks, Value: l.config.Health.checks()},
	}
	for _, e := range l.edges {
		for _, s := range l.services {
			groups, err := l.groups(s, e)
			if err == nil { // Deploy has made the same
				claims = append(claims, model.Claim{Layer: Name, Key: factEndpoints(s, e), Value: proxy.Describe(proxy.Rows(groups))})
			}
		}
	}
	return claims
}

// Observe reads every edge's counters and live configuration.
func (l *Layer) Observe(ctx context.Context, _ model.Site) (model.Ledger, error) {
	ledger := l.program.Facts(Name)
	add := func(key, value, source string) {
		ledger.Note(model.Fact{Layer: Name, Key: key, Value: value, Source: source})
	}
	used, retried := 0, uint64(0)
	for _, e := range l.edges {
		if err := e.Await(ctx); err != nil {
			return nil, err
		}
		hosts, err := e.Hosts(ctx)
		if err != nil {
			return nil, err
		}
		for _, s := range l.services {
			l.describe(e, s, hosts, add)
		}
		raw, err := e.Ask(ctx, "/stats")
		if err != nil {
			return nil, err
		}
		requests, n := counted(raw)
		if retried += n; requests > 0 {
			used++
			add(model.FactLevel, levelHTTP, model.SourceCounters)
		}
		checks, err := e.checks(ctx)
		if err != nil {
			return nil, err
		}
		add(factChecks, checks, model.SourceConfig)
		version, err := e.Version(ctx)
		if err != nil {
			return nil, err
		}
		add(model.FactProgram, "Envoy "+version+", configured as an edge like MCI's", model.SourceConfig)
	}
	add("edges in use", strconv.Itoa(used), model.SourceCounters)
	add(model.FactRetries, fmt.Sprintf("up to %d; %d done", retries, retried), model.SourceCounters)
	return ledger, nil
}

// describe adds what an edge's live configuration and counters say of a service.
func (l *Layer) describe(e *edge, s service, hosts []proxy.Host, add func(key, value, source string)) {
	var rows []proxy.Row
	healthy, sent := 0, map[string]uint64{}
	for _, h := range hosts {
		if h.Cluster != clusterName(s) {
			continue
		}
		rows = append(rows, proxy.Row{Priority: h.Priority, Region: h.Region})
		if h.Healthy {
			healthy++
		}
		sent[h.Region] += h.Sent
	}
	key := factEndpoints(s, e)
	add(key, proxy.Describe(rows), model.SourceConfig)
	add("healthy "+key, fmt.Sprintf("%d of %d", healthy, len(rows)), model.SourceCounters)
	for region, n := range sent {
		if n > 0 {
			add("sent to "+key, fmt.Sprintf("%s: %d", region, n), model.SourceCounters)
		}
	}
}

// counted are the requests of clients, and how many were sent again.
func counted(raw []byte) (requests, retried uint64) {
	for name, n := range proxy.Counters(raw) {
		switch {
		case strings.HasPrefix(name, "http."+statPrefix) && strings.HasSuffix(name, ".downstream_rq_total"):
			requests += n
		case strings.HasPrefix(name, "cluster.backend|") && strings.HasSuffix(name, ".upstream_rq_retry"):
			retried += n
		}
	}
	return requests, retried
}

// checks reads the health checks of the live configuration back.
func (e *edge) checks(ctx context.Context) (string, error) {
	raw, err := e.Dump(ctx)
	if err != nil {
		return "", err
	}
	return checksIn(raw)
}

// checksIn reads them from a live configuration; all services have the same.
func checksIn(raw []byte) (string, error) {
	var dump struct {
		Configs []struct {
			Clusters []struct {
				Cluster struct {
					Checks []struct {
						Interval  proxy.Duration `json:"interval"`
						Unhealthy int            `json:"unhealthy_threshold"`
						Healthy   int            `json:"healthy_threshold"`
						HTTP      struct {
							Path string `json:"path"`
						} `json:"http_health_check"`
					} `json:"health_checks"`
				} `json:"cluster"`
			} `json:"static_clusters"`
		} `json:"configs"`
	}
	if err := json.Unmarshal(raw, &dump); err != nil {
		return "", fmt.Errorf("reading an edge's live configuration: %w", err)
	}
	for _, c := range dump.Configs {
		for _, s := range c.Clusters {
			for _, h := range s.Cluster.Checks {
				return Health{Path: h.HTTP.Path, Interval: h.Interval, Unhealthy: h.Unhealthy, Healthy: h.Healthy}.checks(), nil
			}
		}
	}
	return "none", nil
}

// Artefacts are the live configurations.
func (l *Layer) Artefacts(ctx context.Context, _ model.Site) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, e := range l.edges {
		dump, err := e.Dump(ctx)
		if err != nil {
			return nil, err
		}
		files[e.at.Region+".config_dump.json"] = dump
	}
	return files, nil
}
