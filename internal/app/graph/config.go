package graph

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/hop"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Config is the app's configuration in a study.
type Config struct {
	Services []ServiceConfig `json:"services" jsonschema:"minItems=1,maxItems=100" jsonschema_description:"Every service of the topology, each once."`
}

// ServiceConfig is what the servers of one service do.
type ServiceConfig struct {
	Name   string         `json:"name" jsonschema_description:"A service of the topology; its pods are the replicas."`
	Routes []RouteConfig  `json:"routes,omitempty" jsonschema:"maxItems=100" jsonschema_description:"What is done by path. If absent: / is answered, and nothing more."`
	Pool   hop.PoolConfig `json:"pool,omitzero" jsonschema_description:"The connections that each server keeps to each service it calls."`
}

// RouteConfig is what is done for one path: work, then delay, then calls, then
// the answer.
type RouteConfig struct {
	Path   string       `json:"path,omitempty" jsonschema:"default=/" jsonschema_description:"The path, without query; it must be the same."`
	Work   string       `json:"work,omitempty" jsonschema_description:"CPU time that a request costs, e.g. 200us; at most 10s."`
	Delay  string       `json:"delay,omitempty" jsonschema_description:"How long a request waits, without work; at most 1m."`
	Spread string       `json:"spread,omitempty" jsonschema:"enum=fixed,enum=exponential,default=fixed" jsonschema_description:"Whether work and delay are the same for every request, or random with that mean."`
	Size   *int         `json:"size,omitempty" jsonschema:"minimum=0,maximum=8388608,default=64" jsonschema_description:"Bytes of the answer."`
	Errors string       `json:"errors,omitempty" jsonschema_description:"Share of requests that are answered with status instead, e.g. 1%, evenly spread; they do no work and call nobody."`
	Status int          `json:"status,omitempty" jsonschema:"minimum=400,maximum=599,default=503" jsonschema_description:"What errors are answered with."`
	Order  string       `json:"order,omitempty" jsonschema:"enum=sequential,enum=parallel,default=sequential" jsonschema_description:"Whether calls are made one after the other or all at a time."`
	Calls  []CallConfig `json:"calls,omitempty" jsonschema:"maxItems=100" jsonschema_description:"The calls that a request causes."`
}

// CallConfig is one call.
type CallConfig struct {
	Service  string `json:"service" jsonschema_description:"Who is asked: another service of the graph."`
	Path     string `json:"path,omitempty" jsonschema:"default=/" jsonschema_description:"A path that this service has a route for."`
	Timeout  string `json:"timeout,omitempty" jsonschema:"default=5s" jsonschema_description:"How long one attempt may take, at most 1m."`
	Attempts int    `json:"attempts,omitempty" jsonschema:"minimum=1,maximum=10,default=1" jsonschema_description:"How often it is tried until the status is under 400."`
	Optional bool   `json:"optional,omitempty" jsonschema:"default=false" jsonschema_description:"Whether the request succeeds without it. Else it is answered with 502."`
}

const (
	maxServices    = 100
	maxWork        = 10 * time.Second
	maxTime        = time.Minute
	maxSize        = 8 << 20
	maxAttempts    = 10
	usualSize      = 64
	usualTimeout   = 5 * time.Second
	usualStatus    = 503
	leastStatus    = 400
	greatestStatus = 599
)

// service is a ServiceConfig as its servers are told it.
type service struct {
	Name   string   `json:"name"`
	Routes []route  `json:"routes"`
	Pool   hop.Pool `json:"pool"`
}

type route struct {
	Path        string        `json:"path"`
	Work        time.Duration `json:"work_ns,omitempty"`
	Delay       time.Duration `json:"delay_ns,omitempty"`
	Exponential bool          `json:"exponential,omitempty"`
	Size        int           `json:"size"`
	Errors      float64       `json:"errors,omitempty"`
	Status      int           `json:"status"`
	Parallel    bool          `json:"parallel,omitempty"`
	Calls       []call        `json:"calls,omitempty"`
}

type call struct {
	Service  string        `json:"service"`
	Path     string        `json:"path"`
	Timeout  time.Duration `json:"timeout_ns"`
	Attempts int           `json:"attempts"`
	Optional bool          `json:"optional,omitempty"`
}

// parse reads the configuration and checks that it is a graph without cycles
// whose calls all end at a route.
func parse(raw json.RawMessage) ([]service, error) {
	var c Config
	if err := model.ReadConfig(raw, &c); err != nil {
		return nil, err
	}
	var p hop.Problems
	if len(c.Services) == 0 || len(c.Services) > maxServices {
		p.Add("services", "has %d entries; it can have 1 to %d", len(c.Services), maxServices)
	}
	var all []service
	for i, sc := range c.Services {
		at := "services[" + strconv.Itoa(i) + "]"
		if sc.Name == "" {
			p.Add(at+".name", "is missing: the name of a service of the topology")
		} else if find(all, sc.Name) != nil {
			p.Add(at+".name", "is %q, as that of an earlier one", sc.Name)
		}
		all = append(all, service{Name: sc.Name, Routes: sc.routes(&p, at), Pool: sc.Pool.Read(&p, at+".pool")})
	}
	targets(&p, all)
	if len(p) == 0 {
		cycle(&p, all)
	}
	return all, p.Err()
}

func find(all []service, name string) *service {
	i := slices.IndexFunc(all, func(s service) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

func (s *service) route(path string) *route {
	i := slices.IndexFunc(s.Routes, func(r route) bool { return r.Path == path })
	if i < 0 {
		return nil
	}
	return &s.Routes[i]
}

func (c ServiceConfig) routes(p *hop.Problems, at string) []route {
	if len(c.Routes) == 0 {
		c.Routes = []RouteConfig{{}}
	}
	s := service{}
	for i, rc := range c.Routes {
		here := at + ".routes[" + strconv.Itoa(i) + "]"
		r := rc.read(p, here)
		if s.route(r.Path) != nil {
			p.Add(here+".path", "is %q, as that of an earlier one", r.Path)
		}
		s.Routes = append(s.Routes, r)
	}
	return s.Routes
}

func (c RouteConfig) read(p *hop.Problems, at string) route {
	r := route{
		Path: path(p, at+".path", c.Path), Work: p.Span(at+".work", c.Work, 0, maxWork), Delay: p.Span(at+".delay", c.Delay, 0, maxTime),
		Exponential: choice(p, at+".spread", c.Spread, "fixed", "exponential"), Size: usualSize, Errors: p.Share(at+".errors", c.Errors),
		Status: usualStatus, Parallel: choice(p, at+".order", c.Order, "sequential", "parallel"),
	}
	if c.Size != nil {
		r.Size = *c.Size
	}
	if r.Size < 0 || r.Size > maxSize {
		p.Add(at+".size", "is %d; it can be 0 to %d", r.Size, maxSize)
	}
	if c.Status != 0 {
		r.Status = c.Status
	}
	if r.Status < leastStatus || r.Status > greatestStatus {
		p.Add(at+".status", "is %d; it can be %d to %d", r.Status, leastStatus, greatestStatus)
	}
	for i, cc := range c.Calls {
		r.Calls = append(r.Calls, cc.read(p, at+".calls["+strconv.Itoa(i)+"]"))
	}
	return r
}

func (c CallConfig) read(p *hop.Problems, at string) call {
	one := call{
		Service: c.Service, Path: path(p, at+".path", c.Path), Timeout: p.Span(at+".timeout", c.Timeout, usualTimeout, maxTime),
		Attempts: max(1, c.Attempts), Optional: c.Optional,
	}
	if one.Timeout == 0 {
		p.Add(at+".timeout", "is 0; a call needs some time")
	}
	if c.Attempts < 0 || c.Attempts > maxAttempts {
		p.Add(at+".attempts", "is %d; it can be 1 to %d", c.Attempts, maxAttempts)
	}
	return one
}

// path checks a path; / if there is none.
func path(p *hop.Problems, key, text string) string {
	if text == "" {
		return "/"
	}
	if text[0] != '/' || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || r == '?' || r == '#' || r == '%' }) {
		p.Add(key, "is %q; it must begin with / and have no query, spaces or escapes", text)
	}
	return text
}

// choice says whether the second of two words was chosen.
func choice(p *hop.Problems, key, text, usual, other string) bool {
	if text != "" && text != usual && text != other {
		p.Add(key, "is %q; it can be %s or %s", text, usual, other)
	}
	return text == other
}

// targets checks that every call meets a route.
func targets(p *hop.Problems, all []service) {
	for i := range all {
		for j, r := range all[i].Routes {
			for k, c := range r.Calls {
				at := fmt.Sprintf("services[%d].routes[%d].calls[%d]", i, j, k)
				switch to := find(all, c.Service); {
				case to == nil:
					p.Add(at+".service", "is %q, which is no service of the graph", c.Service)
				case to.route(c.Path) == nil:
					p.Add(at+".path", "is %q, which the service %s has no route for", c.Path, c.Service)
				}
			}
		}
	}
}

// cycle looks for routes that would call themselves without end. Every call
// meets a route.
func cycle(p *hop.Problems, all []service) {
	type at struct{ service, path string }
	done := map[at]bool{}
	var way []string
	var walk func(here at) bool
	walk = func(here at) bool {
		name := here.service + here.path
		if i := slices.Index(way, name); i >= 0 {
			p.Add("services", "call each other without end: %s", strings.Join(append(way[i:], name), " -> "))
			return false
		}
		if done[here] {
			return true
		}
		done[here], way = true, append(way, name)
		for _, c := range find(all, here.service).route(here.path).Calls {
			if !walk(at{c.Service, c.Path}) {
				return false
			}
		}
		way = way[:len(way)-1]
		return true
	}
	for _, s := range all {
		for _, r := range s.Routes {
			if !walk(at{s.Name, r.Path}) {
				return
			}
		}
	}
}
