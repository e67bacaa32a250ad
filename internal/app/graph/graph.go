// Package graph is an app of several services, made as a study says: who calls
// whom, one after the other or at a time, what a request costs on the way, and
// what goes wrong.
package graph

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"

	"github.com/windtunnel/windtunnel/internal/hop"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Name is the app's name in studies.
const Name = "graph"

// App runs the servers of a graph.
type App struct {
	services []service
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
		Name: Name, Summary: "services that call each other, as the study says: calls, work, delays, errors, pools", Config: Config{},
		New: func(config json.RawMessage) (model.App, error) {
			services, err := parse(config)
			return &App{services: services}, err
		},
	}
}

// CheckLoad refuses what is not HTTP.
func (a *App) CheckLoad(l model.Load) error { return hop.CheckLoad(Name, l) }

// CheckTopology wants every service of the graph in the topology, and no others.
func (a *App) CheckTopology(t model.Topology) error {
	var names []string
	for _, s := range a.services {
		names = append(names, s.Name)
	}
	var p hop.Problems
	p.Services("kind", names, t, "")
	return p.Err()
}

// Deploy starts a server in every pod of every service.
func (a *App) Deploy(ctx context.Context, s model.Site) (model.Endpoints, error) {
	if err := a.CheckTopology(s.Topology()); err != nil {
		return model.Endpoints{}, err
	}
	var servers []hop.Server
	for _, one := range a.services {
		svc, err := s.Service(one.Name)
		if err != nil {
			return model.Endpoints{}, err
		}
		for _, pod := range svc.Pods {
			servers = append(servers, hop.Server{Service: one.Name, Pod: pod, Calls: one.callees(), Config: one})
		}
	}
	if len(servers) == 0 {
		return model.Endpoints{}, errors.New("deploying graph: no service has pods")
	}
	var err error
	if a.deployed, err = hop.Deploy(ctx, s, Name, servers, hop.Direct(s)); err != nil {
		return model.Endpoints{}, err
	}
	all, err := a.deployed.Backends()
	return model.Endpoints{Service: a.services[0].Name, Backends: all}, err
}

// Connect tells the servers where the others are.
func (a *App) Connect(ctx context.Context, s model.Site, front func(service string) []netip.AddrPort) error {
	return a.deployed.Connect(ctx, s, hop.Of(front))
}

// callees are the services that a service calls, each once.
func (s *service) callees() []string {
	var all []string
	for _, r := range s.Routes {
		for _, c := range r.Calls {
			if !slices.Contains(all, c.Service) {
				all = append(all, c.Service)
			}
		}
	}
	return all
}
