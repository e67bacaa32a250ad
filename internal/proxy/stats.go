package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/netip"
	"strconv"
	"strings"
)

// Counters yields the counters and gauges of "/stats" that are not 0, by name.
func Counters(raw []byte) iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		for line := range bytes.Lines(raw) {
			name, value, ok := strings.Cut(strings.TrimSpace(string(line)), ": ")
			n, err := strconv.ParseUint(value, 10, 64)
			if ok && err == nil && n > 0 && !yield(name, n) {
				return
			}
		}
	}
}

// Host is an endpoint of a cluster as a live Envoy has it. The address of one
// that is reached through a listener inside the Envoy is where that sends to.
type Host struct {
	Cluster  string
	Addr     netip.AddrPort
	Region   string
	Priority int
	Healthy  bool   // neither ejected nor failing its health checks
	Sent     uint64 // requests, or connections at L4
}

// Hosts are the endpoints of all clusters, in the Envoy's order.
func (e *Envoy) Hosts(ctx context.Context) ([]Host, error) {
	raw, err := e.Ask(ctx, "/clusters?format=json")
	if err != nil {
		return nil, err
	}
	return ParseHosts(raw)
}

// ParseHosts reads what "/clusters?format=json" says.
func ParseHosts(raw []byte) ([]Host, error) {
	var all struct {
		Clusters []struct {
			Name  string `json:"name"`
			Hosts []struct {
				Address struct {
					Socket struct {
						Address string `json:"address"`
						Port    uint16 `json:"port_value"`
					} `json:"socket_address"`
					Internal struct {
						Endpoint string `json:"endpoint_id"`
					} `json:"envoy_internal_address"`
				} `json:"address"`
				Stats []struct {
					Name  string `json:"name"`
					Value string `json:"value"`
				} `json:"stats"`
				Health struct {
					Ejected bool   `json:"failed_outlier_check"`
					Failed  bool   `json:"failed_active_health_check"`
					EDS     string `json:"eds_health_status"`
				} `json:"health_status"`
				Locality struct {
					Region string `json:"region"`
				} `json:"locality"`
				Priority int `json:"priority"`
			} `json:"host_statuses"`
		} `json:"cluster_statuses"`
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("reading Envoy's clusters: %w", err)
	}
	var hosts []Host
	for _, c := range all.Clusters {
		for _, h := range c.Hosts {
			to, err := netip.ParseAddrPort(h.Address.Internal.Endpoint)
			if err != nil {
				addr, err := netip.ParseAddr(h.Address.Socket.Address)
				if err != nil {
					continue // a pipe: none of ours
				}
				to = netip.AddrPortFrom(addr, h.Address.Socket.Port)
			}
			host := Host{
				Cluster: c.Name, Addr: to, Region: h.Locality.Region,
				Priority: h.Priority, Healthy: !h.Health.Ejected && !h.Health.Failed,
			}
			for _, s := range h.Stats {
				n, err := strconv.ParseUint(s.Value, 10, 64)
				if err == nil && s.Name == "rq_total" {
					host.Sent = n
				}
			}
			hosts = append(hosts, host)
		}
	}
	return hosts, nil
}
