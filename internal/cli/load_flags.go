package cli

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/study"
)

// problems are all that is wrong with a command, to be said at once.
type problems []error

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

// text is a flag whose value is read later, so that all problems can be told
// at once; its kind is what the help calls the value.
type text struct{ value, kind string }

func (t *text) String() string     { return t.value }
func (t *text) Set(s string) error { t.value = s; return nil }
func (t *text) Type() string       { return t.kind }

// loadFlags are the flags of `load` as they were given.
type loadFlags struct {
	rate, duration, warmup, timeout text
	connections                     int
	method                          string
	http2, json, own                bool
	seed                            uint64
}

func (f *loadFlags) define(s *pflag.FlagSet) {
	s.SortFlags = false
	f.rate = text{"", "rate"}
	f.duration, f.timeout, f.warmup = text{"10s", "duration"}, text{"5s", "duration"}, text{"", "duration"}
	s.Var(&f.rate, "rate", "requests per second, over all connections; none: closed loop")
	s.IntVarP(&f.connections, "connections", "c", 32, "connections")
	s.Var(&f.duration, "duration", "how long to measure")
	s.Var(&f.warmup, "warmup", "how long to load before that (default a tenth of the duration, at most 2s)")
	s.Var(&f.timeout, "timeout", "how long one request may take, from when it was sent")
	s.StringVarP(&f.method, "method", "X", "", "HTTP method")
	s.BoolVar(&f.http2, "http2", false, "HTTP/2 instead of HTTP/1.1")
	s.BoolVar(&f.json, "json", false, "print one JSON object")
	s.BoolVar(&f.own, "i-own-this-target", false, "load a target outside private, loopback and link-local addresses")
	s.Uint64Var(&f.seed, "seed", 1, "seed of what is random")
}

// load is the load that the flags ask for, but for its protocol.
func (f *loadFlags) load(p *problems) model.Load {
	l := model.Load{
		Name: "load", Arrival: model.ArrivalClosed, Connections: f.connections,
		Duration: f.time("duration", f.duration, p), Timeout: f.time("timeout", f.timeout, p),
	}
	if f.rate.value != "" {
		r, err := study.ParseRate(f.rate.value)
		if err != nil {
			p.add("--rate: %w", err)
		}
		l.Arrival, l.Rate = model.ArrivalOpen, float64(r)
	}
	if l.Connections < 1 || l.Connections > maxConnections {
		p.add("--connections: %d is not from 1 to %d", l.Connections, maxConnections)
	}
	return l
}

// maxConnections is as many as one address has ports for.
const maxConnections = 60_000

func (f *loadFlags) time(name string, t text, p *problems) time.Duration {
	d, err := study.ParseDuration(t.value)
	switch {
	case err != nil:
		p.add("--%s: %w", name, err)
	case d == 0 && name != "warmup":
		p.add("--%s: must be above 0", name)
	}
	return time.Duration(d)
}

// warmupOf is a tenth of the duration, at most 2 s, where nothing else is asked.
func (f *loadFlags) warmupOf(d time.Duration, p *problems) time.Duration {
	if f.warmup.value == "" {
		return min(d/10, 2*time.Second)
	}
	return f.time("warmup", f.warmup, p)
}
