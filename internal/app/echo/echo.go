// Package echo is a server made to be measured against: it answers at once,
// says who it is, and costs little. It speaks HTTP/1.1 and h2c on one port.
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
type App struct {
	planted map[string]Plant // by pod
}

var (
	_ model.App      = App{}
	_ model.Portable = App{}
)

// CheckTarget is nil: the server is this program, which is wherever pods are.
func (App) CheckTarget(string) error { return nil }

// Plugin is the catalog entry.
func Plugin() model.Plugin[model.App] {
	return model.Plugin[model.App]{
		Name:    Name,
		Summary: "our own HTTP/1.1 and h2c server; stamps its identity on every answer",
		Config:  Config{},
		New: func(config json.RawMessage) (model.App, error) {
			planted, err := parse(config)
			return App{planted}, err
		},
	}
}

// Deploy starts the servers; they end with the site. It returns before they
// listen: the ready gate waits for that.
func (a App) Deploy(ctx context.Context, s model.Site) (model.Endpoints, error) {
	var all model.Endpoints
	if err := unknownPods(a.planted, s.Topology()); err != nil {
		return all, err
	}
	for _, blueprint := range s.Topology().Services {
		svc, err := s.Service(blueprint.Name)
		if err != nil {
			return all, fmt.Errorf("deploying echo: %w", err)
		}
		all.Service = svc.Name
		for _, name := range svc.Pods {
			b, err := a.start(ctx, s, name, svc.TargetPort)
			if err != nil {
				return all, fmt.Errorf("deploying echo in pod %s: %w", name, err)
			}
			all.Backends = append(all.Backends, b)
		}
	}
	if len(all.Backends) == 0 {
		return all, errors.New("deploying echo: the topology has no service with pods")
	}
	return all, nil
}

func (a App) start(ctx context.Context, s model.Site, name string, port uint16) (model.Backend, error) {
	pod, err := s.Pod(name)
	if err != nil {
		return model.Backend{}, err
	}
	// All addresses, because sidecars reach the app on loopback.
	all := netip.IPv4Unspecified()
	if pod.Addr().Is6() {
		all = netip.IPv6Unspecified()
	}
	_, err = pod.Start(ctx, model.Process{
		Name: Name, Component: model.ComponentApp,
		Command: append([]string{"{self}", "echo", "--listen", netip.AddrPortFrom(all, port).String(), "--identity", name, "--impairable"}, a.planted[name].arguments()...),
	})
	return model.Backend{Pod: name, Identity: name, Addr: netip.AddrPortFrom(pod.Addr(), port)}, err
}
