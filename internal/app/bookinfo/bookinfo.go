// Package bookinfo is Istio's sample application Bookinfo: a page about a book
// that is put together from details, reviews and ratings. It has the routes,
// calls, timeouts and answers of the original, written anew as one program.
package bookinfo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/hop"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Name is the app's name in studies.
const Name = "bookinfo"

// The services; productpage is the one that users ask.
const (
	productpage = "productpage"
	details     = "details"
	reviews     = "reviews"
	ratings     = "ratings"
)

func services() []string { return []string{productpage, details, reviews, ratings} }

// Config is the app's configuration in a study.
type Config struct {
	Mode    string         `json:"mode,omitempty" jsonschema:"enum=honest,enum=original,default=honest" jsonschema_description:"honest: a page on which something is missing has status 503. original: it has status 200, as Bookinfo answers."`
	Reviews []string       `json:"reviews,omitempty" jsonschema:"minItems=1,maxItems=100" jsonschema_description:"Versions of reviews, v1, v2 or v3; its pods have them in turn. If absent: [v1, v2, v3]."`
	Pool    hop.PoolConfig `json:"pool,omitzero" jsonschema_description:"The connections that each server keeps to each service it calls. fresh: true is as the original's product page."`
}

// settings are the Config as servers are told it.
type settings struct {
	Honest bool `json:"honest"`
	// Plain pages look alike whatever version of reviews has answered.
	Plain bool     `json:"plain"`
	Pool  hop.Pool `json:"pool"`
	// Version of a server of reviews: 1, 2 or 3.
	Version int `json:"version,omitempty"`
}

// App runs the four services.
type App struct {
	settings settings
	versions []int // of reviews, in turn
	deployed *hop.Deployment
}

var (
	_ model.App             = (*App)(nil)
	_ model.Connector       = (*App)(nil)
	_ model.TopologyChecker = (*App)(nil)
	_ model.LoadChecker     = (*App)(nil)
)

// Plugin is the catalog entry.
func Plugin() model.Plugin[model.App] {
	return model.Plugin[model.App]{
		Name: Name, Summary: "Istio's sample Bookinfo: productpage, details, reviews in three versions, ratings", Config: Config{},
		New: func(config json.RawMessage) (model.App, error) {
			a, err := parse(config)
			return a, err
		},
	}
}

func parse(raw json.RawMessage) (*App, error) {
	var c Config
	if err := model.ReadConfig(raw, &c); err != nil {
		return nil, err
	}
	var p hop.Problems
	a := &App{settings: settings{Honest: c.Mode != "original", Pool: c.Pool.Read(&p, "pool")}}
	if c.Mode != "" && c.Mode != "honest" && c.Mode != "original" {
		p.Add("mode", "is %q; it can be honest or original", c.Mode)
	}
	if c.Reviews == nil {
		c.Reviews = []string{"v1", "v2", "v3"}
	}
	if len(c.Reviews) == 0 {
		p.Add("reviews", "names no version; they are v1, v2, v3")
	}
	for i, v := range c.Reviews {
		n := slices.Index([]string{"v1", "v2", "v3"}, v) + 1
		if n == 0 {
			p.Add("reviews["+strconv.Itoa(i)+"]", "is %q; it can be v1, v2 or v3", v)
		}
		a.settings.Plain = a.settings.Plain || v != c.Reviews[0]
		a.versions = append(a.versions, n)
	}
	return a, p.Err()
}

// CheckLoad refuses what is not HTTP.
func (a *App) CheckLoad(l model.Load) error { return hop.CheckLoad(Name, l) }

// CheckTopology wants the four services, a pod of reviews for every version,
// and no other service.
func (a *App) CheckTopology(t model.Topology) error {
	var p hop.Problems
	p.Services("kind", services(), t, "; topology: {preset: bookinfo} has them")
	for _, s := range t.Services {
		if s.Name == reviews && len(s.Pods) < len(a.versions) {
			p.Add("reviews", "has %d versions, and the topology %d pods for them: some would not run", len(a.versions), len(s.Pods))
		}
	}
	return p.Err()
}

// callees are the services that a server calls.
func callees(service string, version int) []string {
	switch {
	case service == productpage:
		return []string{details, reviews, ratings}
	case service == reviews && version > 1:
		return []string{ratings}
	}
	return nil
}

// Deploy starts a server in every pod.
func (a *App) Deploy(ctx context.Context, s model.Site) (model.Endpoints, error) {
	if err := a.CheckTopology(s.Topology()); err != nil {
		return model.Endpoints{}, fmt.Errorf("deploying bookinfo: %w", err)
	}
	var servers []hop.Server
	for _, name := range services() {
		svc, err := s.Service(name)
		if err != nil {
			return model.Endpoints{}, err
		}
		for i, pod := range svc.Pods {
			own := a.settings
			if name == reviews {
				own.Version = a.versions[i%len(a.versions)]
			}
			servers = append(servers, hop.Server{Service: name, Pod: pod, Calls: callees(name, own.Version), Config: own})
		}
	}
	var err error
	if a.deployed, err = hop.Deploy(ctx, s, Name, servers, hop.Direct(s)); err != nil {
		return model.Endpoints{}, err
	}
	all, err := a.deployed.Backends()
	return model.Endpoints{Service: productpage, Backends: all}, err
}

// Connect tells the servers where the others are.
func (a *App) Connect(ctx context.Context, s model.Site, front func(service string) []netip.AddrPort) error {
	return a.deployed.Connect(ctx, s, hop.Of(front))
}
