package hop

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// PoolConfig is Pool in a study.
type PoolConfig struct {
	Connections int    `json:"connections,omitempty" jsonschema:"minimum=0,maximum=10000,default=0" jsonschema_description:"The most connections from one server to one service at a time; further requests wait. 0: no bound."`
	Idle        *int   `json:"idle,omitempty" jsonschema:"minimum=0,maximum=10000,default=100" jsonschema_description:"The most of them that are kept idle. The one that was used last is taken first."`
	IdleTimeout string `json:"idle_timeout,omitempty" jsonschema:"default=90s" jsonschema_description:"How long an idle connection is kept, at most 1h."`
	Fresh       bool   `json:"fresh,omitempty" jsonschema:"default=false" jsonschema_description:"Whether each call opens a connection of its own."`
}

const (
	maxConnections = 10_000
	usualIdle      = 100
	usualTimeout   = 90 * time.Second
)

// Problems collects what is wrong with a configuration, key by key.
type Problems []error

// Add says what is wrong with a key.
func (p *Problems) Add(key, format string, args ...any) {
	*p = append(*p, &model.ConfigError{Key: key, Text: fmt.Sprintf(format, args...)})
}

// Err is all of it; nil: nothing is wrong.
func (p *Problems) Err() error { return errors.Join(*p...) }

// Read checks the pool's keys, which stand below at.
func (c PoolConfig) Read(p *Problems, at string) Pool {
	pool := Pool{Connections: c.Connections, Idle: usualIdle, IdleTimeout: p.Span(at+".idle_timeout", c.IdleTimeout, usualTimeout, time.Hour), Fresh: c.Fresh}
	if c.Connections < 0 || c.Connections > maxConnections {
		p.Add(at+".connections", "is %d; it can be 0 (no bound) to %d", c.Connections, maxConnections)
	}
	if c.Idle != nil {
		if pool.Idle = *c.Idle; pool.Idle < 0 || pool.Idle > maxConnections {
			p.Add(at+".idle", "is %d; it can be 0 to %d", pool.Idle, maxConnections)
		}
	}
	return pool
}

// Span reads a time; usual is what an absent one is.
func (p *Problems) Span(key, text string, usual, most time.Duration) time.Duration {
	if text == "" {
		return usual
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > most {
		p.Add(key, "is %q; it must be a time such as 200us, at most %s", text, most)
	}
	return d
}

// Share reads a share such as 1%, and returns it as 0 to 1.
func (p *Problems) Share(key, text string) float64 {
	if text == "" {
		return 0
	}
	const percent = 100
	number, ok := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !ok || err != nil || !(v >= 0 && v <= percent) {
		p.Add(key, "is %q; it must be a share such as 1%%", text)
		return 0
	}
	return v / percent
}

// Services checks that a topology has exactly the services that an app serves;
// hint says how to get them.
func (p *Problems) Services(key string, wanted []string, t model.Topology, hint string) {
	var there []string
	for _, s := range t.Services {
		there = append(there, s.Name)
	}
	if !slices.Equal(slices.Sorted(slices.Values(there)), slices.Sorted(slices.Values(wanted))) {
		p.Add(key, "serves exactly the services %s, and the topology has %s%s", strings.Join(wanted, ", "), strings.Join(there, ", "), hint)
	}
}

// CheckLoad refuses loads of protocols that no server of this package speaks.
func CheckLoad(app string, l model.Load) error {
	foreign := l.Protocol == "grpc" || l.Driver == "" && (l.Protocol == "tcp" || l.Protocol == "udp")
	if !foreign {
		return nil
	}
	return fmt.Errorf("is %s, and the app %s speaks HTTP only: load it with http1 or http2", l.Protocol, app)
}
