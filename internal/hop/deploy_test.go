package hop

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/model"
)

// site is a site in memory of a front and two pods of a database. It notes what
// is started and stopped.
type site struct {
	model.Site
	notes []string
	stuck error
	host  string // of the database, once a layer has given it another
}

func (s *site) Service(name string) (model.Service, error) {
	switch name {
	case "front":
		return model.Service{Name: name, TargetPort: 80, Pods: []string{"front-0"}}, nil
	case "database":
		return model.Service{Name: name, TargetPort: 6379, Pods: []string{"database-0", "database-1"}, Host: s.host}, nil
	case "empty":
		return model.Service{Name: name}, nil
	}
	return model.Service{}, errors.New("no service " + name)
}

func (s *site) Pod(name string) (model.Pod, error) { return &pod{s, name}, nil }

type pod struct {
	*site
	name string
}

func (p *pod) Name() string { return p.name }

func (p *pod) Addr() netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, p.name[len(p.name)-1]}) }

func (p *pod) Start(_ context.Context, proc model.Process) (model.Running, error) {
	var j Job
	if err := json.Unmarshal(proc.Files[jobFile], &j); err != nil {
		return nil, err
	}
	var peers []string
	for _, a := range j.Peers["database"] {
		peers = append(peers, a.String())
	}
	if host := j.Hosts["database"]; host != "" {
		peers = append(peers, "as "+host)
	}
	p.notes = append(p.notes, "start "+p.name+" "+strings.Join(proc.Command, " ")+" on "+j.Listen.String()+" "+strings.Join(peers, " "))
	return &process{p}, nil
}

type process struct{ p *pod }

func (r *process) Done() <-chan struct{}      { return nil }
func (r *process) Err() error                 { return nil }
func (r *process) Stream() io.ReadWriteCloser { return nil }
func (r *process) Stop(context.Context) error {
	r.p.notes = append(r.p.notes, "stop "+r.p.name)
	return r.p.stuck
}

func deployed(t *testing.T, s *site) *Deployment {
	t.Helper()
	d, err := Deploy(t.Context(), s, "app", []Server{{Service: "front", Pod: "front-0", Calls: []string{"database"}}, {Service: "database", Pod: "database-1"}}, Direct(s))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Only servers whose peers are elsewhere than thought, or are asked by another
// name, are started anew.
func TestConnect(t *testing.T) {
	t.Parallel()
	s := &site{}
	d := deployed(t, s)
	vip := netip.MustParseAddrPort("10.96.0.1:80")
	at := []netip.AddrPort{netip.MustParseAddrPort("10.0.0.48:6379"), netip.MustParseAddrPort("10.0.0.49:6379")}
	for _, front := range [][]netip.AddrPort{at, {vip}, {vip}} {
		if err := d.Connect(t.Context(), s, Of(func(string) []netip.AddrPort { return front })); err != nil {
			t.Fatal(err)
		}
	}
	// A mesh routes by the name that its cluster has for the service.
	s.host = "database-7"
	for range 2 {
		if err := d.Connect(t.Context(), s, Of(func(string) []netip.AddrPort { return []netip.AddrPort{vip} })); err != nil {
			t.Fatal(err)
		}
	}
	const command = " {self} app-server app {dir}/server.json on 0.0.0.0:"
	want := []string{
		"start front-0" + command + "80 10.0.0.48:6379 10.0.0.49:6379", "start database-1" + command + "6379 ",
		"stop front-0", "start front-0" + command + "80 10.96.0.1:80",
		"stop front-0", "start front-0" + command + "80 10.96.0.1:80 as database-7",
	}
	if diff := cmp.Diff(want, s.notes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	backends, err := d.Backends()
	if err != nil || len(backends) != 2 || backends[1].Identity != "database-1" || backends[1].Addr.String() != "10.0.0.49:6379" {
		t.Errorf("%+v, %v", backends, err)
	}
}

func TestConnectFails(t *testing.T) {
	t.Parallel()
	s := &site{stuck: errors.New("stuck")}
	d := deployed(t, s)
	for want, err := range map[string]error{
		"service database, which pod front-0 calls, has no address": d.Connect(t.Context(), s, Of(func(string) []netip.AddrPort { return nil })),
		"were not deployed on this site":                            d.Connect(t.Context(), &site{}, Direct(s)),
		"telling app in pod front-0 where its peers are: stuck":     d.Connect(t.Context(), s, Of(func(string) []netip.AddrPort { return make([]netip.AddrPort, 1) })),
		"not deployed": (*Deployment)(nil).Connect(t.Context(), s, nil),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for want, server := range map[string]Server{
		"no service stranger": {Service: "front", Pod: "front-0", Calls: []string{"stranger"}},
		"has no address":      {Service: "front", Pod: "front-0", Calls: []string{"empty"}},
	} {
		if _, err := Deploy(t.Context(), s, "app", []Server{server}, Direct(s)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestServicesOfATopology(t *testing.T) {
	t.Parallel()
	var p Problems
	p.Services("kind", []string{"a", "b"}, model.Topology{Services: []model.Service{{Name: "b"}, {Name: "a"}}}, " (hint)")
	p.Services("kind", []string{"a", "b"}, model.Topology{Services: []model.Service{{Name: "a"}, {Name: "c"}}}, " (hint)")
	want := "kind serves exactly the services a, b, and the topology has a, c (hint)"
	if err := p.Err(); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

func TestCheckLoad(t *testing.T) {
	t.Parallel()
	for protocol, ok := range map[string]bool{"http1": true, "http2": true, "icmp": true, "grpc": false, "tcp": false, "udp": false} {
		err := CheckLoad("graph", model.Load{Protocol: protocol})
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "the app graph speaks HTTP only") {
			t.Errorf("%s: %v", protocol, err)
		}
	}
	if err := CheckLoad("graph", model.Load{Protocol: "tcp", Driver: "iperf3"}); err != nil {
		t.Errorf("a tool that brings its own server: %v", err)
	}
}
