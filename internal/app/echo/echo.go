// Package echo is a server made to be measured against: it answers at once,
// says who it is, and costs as little as a server can. HTTP/1.1 and h2c.
package echo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Name is the app's name in studies.
const Name = "echo"

// App runs one echo server in every pod of every service.
type App struct{}

var _ model.App = App{}

// Plugin is the catalog entry.
func Plugin() model.Plugin[model.App] {
	return model.Plugin[model.App]{
		Name:    Name,
		Summary: "our own HTTP/1.1 and h2c server; stamps its identity on every answer",
		New: func(config json.RawMessage) (model.App, error) {
			if len(config) > 0 && string(config) != "{}" && string(config) != "null" {
				return nil, fmt.Errorf("echo takes no configuration besides replicas, not %s", config)
			}
			return App{}, nil
		},
	}
}

// Deploy starts the servers; they end with the site.
func (App) Deploy(ctx context.Context, s model.Site) (model.Endpoints, error) {
	var all model.Endpoints
	for _, blueprint := range s.Topology().Services {
		svc, err := s.Service(blueprint.Name)
		if err != nil {
			return all, err
		}
		all.Service = svc.Name
		for _, name := range svc.Pods {
			b, err := start(ctx, s, name, svc.TargetPort)
			if err != nil {
				return all, fmt.Errorf("echo in %s: %w", name, err)
			}
			all.Backends = append(all.Backends, b)
		}
	}
	if len(all.Backends) == 0 {
		return all, errors.New("echo: the topology has no service with pods")
	}
	return all, nil
}

func start(ctx context.Context, s model.Site, name string, port uint16) (model.Backend, error) {
	pod, err := s.Pod(name)
	if err != nil {
		return model.Backend{}, err
	}
	// The wildcard, because sidecars reach the app on loopback.
	listen := netip.AddrPortFrom(netip.IPv4Unspecified(), port)
	_, err = pod.Start(ctx, model.Process{
		Name: Name, Component: model.ComponentApp,
		Command: []string{"{self}", "echo", "--listen", listen.String(), "--identity", name},
	})
	return model.Backend{Pod: name, Identity: name, Addr: netip.AddrPortFrom(pod.Addr(), port)}, err
}
