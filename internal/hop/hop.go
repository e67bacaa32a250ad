// Package hop is what apps of several services are made of: servers that call
// each other over HTTP/1.1 and say on every answer who they are and whom they
// have asked.
//
// A server is this program in a pod. It is told everything by a file, which it
// is started with: so one that was killed and is started again knows as much.
// Which addresses its peers have is known only when the stack is there
// (model.Connector): servers for which these differ from the pods' own are then
// started anew.
package hop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Command is the hidden command that the pods' processes are:
// windtunnel app-server APP FILE.
const Command = "app-server"

// jobFile is what a server is started with, in its private folder.
const jobFile = "server.json"

// Headers of answers: who answers; the path of the request: that server, and
// then those that it has asked, each followed by those that it has asked; who
// the client has proved to be, as a sidecar has told the server by the last.
const (
	HeaderIdentity = "X-Windtunnel-Identity"
	HeaderHops     = "X-Windtunnel-Hops"
	HeaderPeer     = "X-Windtunnel-Peer"
	headerXFCC     = "X-Forwarded-Client-Cert"
)

// Server is one process of an app, wanted in a pod.
type Server struct {
	Service string
	Pod     string
	Calls   []string // services that it calls
	Config  any      // what the app has to tell it besides
}

// Job is all that a server is told.
type Job struct {
	App      string                      `json:"app"`
	Service  string                      `json:"service"`
	Identity string                      `json:"identity"`
	Listen   netip.AddrPort              `json:"listen"`
	Peers    map[string][]netip.AddrPort `json:"peers,omitempty"`
	// Hosts are the names by which peers are asked, where they are not the
	// services' own: meshes route by them.
	Hosts  map[string]string `json:"hosts,omitempty"`
	Config json.RawMessage   `json:"config"`
}

// ReadJob reads what a server is started with.
func ReadJob(data []byte) (Job, error) {
	var j Job
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&j); err != nil {
		return j, fmt.Errorf("reading what the server is to do: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return j, errors.New("reading what the server is to do: there is more after it")
	}
	return j, nil
}

// Front says at which addresses a pod reaches a service.
type Front func(pod, service string) ([]netip.AddrPort, error)

// Direct is the Front of a site without a stack: the pods' own addresses.
func Direct(s model.Site) Front {
	return func(_, service string) ([]netip.AddrPort, error) {
		svc, err := s.Service(service)
		if err != nil {
			return nil, err
		}
		return Addresses(s, svc.Pods, svc.TargetPort)
	}
}

// Addresses are those of pods, with one port.
func Addresses(s model.Site, pods []string, port uint16) ([]netip.AddrPort, error) {
	all := make([]netip.AddrPort, len(pods))
	for i, name := range pods {
		pod, err := s.Pod(name)
		if err != nil {
			return nil, err
		}
		all[i] = netip.AddrPortFrom(pod.Addr(), port)
	}
	return all, nil
}

// Of is a Front that does not depend on who asks.
func Of(front func(service string) []netip.AddrPort) Front {
	return func(_, service string) ([]netip.AddrPort, error) { return front(service), nil }
}

// Deployment are an app's servers on a site.
type Deployment struct {
	site    model.Site
	app     string
	servers []*live
}

// live is a server with its process.
type live struct {
	Server

	job     Job
	process model.Running
}

// Deploy starts servers that reach each other as front says. They end with the
// site.
func Deploy(ctx context.Context, s model.Site, app string, servers []Server, front Front) (*Deployment, error) {
	d := &Deployment{site: s, app: app}
	for _, one := range servers {
		l := &live{Server: one}
		if err := d.start(ctx, l, front); err != nil {
			return d, fmt.Errorf("deploying %s in pod %s: %w", app, one.Pod, err)
		}
		d.servers = append(d.servers, l)
	}
	return d, nil
}

// Backends are the servers as the runner knows them.
func (d *Deployment) Backends() ([]model.Backend, error) {
	var all []model.Backend
	for _, l := range d.servers {
		at, err := Addresses(d.site, []string{l.Pod}, l.job.Listen.Port())
		if err != nil {
			return nil, err
		}
		all = append(all, model.Backend{Pod: l.Pod, Identity: l.job.Identity, Addr: at[0]})
	}
	return all, nil
}

// Connect tells the servers where their peers are. Those that know it already
// are left alone.
func (d *Deployment) Connect(ctx context.Context, s model.Site, front Front) error {
	if d == nil || d.site != s {
		return errors.New("connecting services that were not deployed on this site")
	}
	for _, l := range d.servers {
		peers, hosts, err := l.peers(s, front)
		if err != nil {
			return err
		}
		if maps.EqualFunc(peers, l.job.Peers, slices.Equal) && maps.Equal(hosts, l.job.Hosts) {
			continue
		}
		if err := l.process.Stop(ctx); err != nil {
			return fmt.Errorf("telling %s in pod %s where its peers are: %w", d.app, l.Pod, err)
		}
		if err := d.start(ctx, l, front); err != nil {
			return fmt.Errorf("telling %s in pod %s where its peers are: %w", d.app, l.Pod, err)
		}
	}
	return nil
}

// peers are the addresses of the services that a server calls, and the names by
// which those are asked, where they have others than their own.
func (l *live) peers(s model.Site, front Front) (all map[string][]netip.AddrPort, hosts map[string]string, err error) {
	all, hosts = map[string][]netip.AddrPort{}, map[string]string{}
	for _, name := range l.Calls {
		at, err := front(l.Pod, name)
		if err != nil {
			return nil, nil, err
		}
		if len(at) == 0 {
			return nil, nil, fmt.Errorf("service %s, which pod %s calls, has no address", name, l.Pod)
		}
		all[name] = at
		svc, err := s.Service(name)
		if err != nil {
			return nil, nil, err
		}
		if svc.Host != "" {
			hosts[name] = svc.Host
		}
	}
	return all, hosts, nil
}

func (d *Deployment) start(ctx context.Context, l *live, front Front) error {
	svc, err := d.site.Service(l.Service)
	if err != nil {
		return err
	}
	pod, err := d.site.Pod(l.Pod)
	if err != nil {
		return err
	}
	config, err := json.Marshal(l.Config)
	if err != nil {
		return fmt.Errorf("writing its configuration: %w", err)
	}
	// All addresses, because sidecars reach the app on loopback.
	all := netip.IPv4Unspecified()
	if pod.Addr().Is6() {
		all = netip.IPv6Unspecified()
	}
	l.job = Job{App: d.app, Service: l.Service, Identity: l.Pod, Listen: netip.AddrPortFrom(all, svc.TargetPort), Config: config}
	if l.job.Peers, l.job.Hosts, err = l.peers(d.site, front); err != nil {
		return err
	}
	text, err := json.Marshal(l.job)
	if err != nil {
		return fmt.Errorf("writing what the server is to do: %w", err)
	}
	l.process, err = pod.Start(ctx, model.Process{
		Name: d.app, Component: model.ComponentApp, Files: map[string][]byte{jobFile: text},
		Command: []string{"{self}", Command, d.app, "{dir}/" + jobFile},
	})
	return err
}
