// Package ovs is a network of Open vSwitch that an OpenFlow controller of our
// own programs, built as SONA-CNI is: all that pods send passes a pipeline of
// flow tables, tunnels are chosen by flow, and services are select groups with
// connection tracking. The switches are Debian's Open vSwitch with its
// user-space datapath, so the kernel needs no module.
package ovs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/network"
	"github.com/windtunnel/windtunnel/internal/sys"
	"github.com/windtunnel/windtunnel/internal/sys/packet"
)

// Name is the layer's name in studies.
const Name = "ovs"

// Command is that of this program which is the controller; its argument is the
// plan's file.
const Command = "openflow-controller"

// The tunnels, by the names that Open vSwitch has for them.
const (
	VXLAN  = "vxlan"
	GRE    = "gre"
	GENEVE = "geneve"
)

// sonaMTU is what SONA-CNI gives all pods, whatever the tunnel.
const sonaMTU = "1400"

// Config is the layer's configuration in a study.
type Config struct {
	// MTU of the pods.
	MTU MTU `json:"mtu,omitempty" jsonschema:"oneof_type=string;integer,default=native"`
	// Tunnel is vxlan, gre or geneve.
	Tunnel string `json:"tunnel,omitempty" jsonschema:"enum=vxlan,enum=gre,enum=geneve,default=vxlan"`
	// Services is groups, by which the switches make services of virtual addresses, or none.
	Services string `json:"services,omitempty" jsonschema:"enum=groups,enum=none,default=groups"`
}

// What makes services.
const (
	groups = "groups"
	none   = "none"
)

// MTU is a network layer's, with one more word: sona, for 1400.
type MTU network.MTU

// UnmarshalJSON takes a word or a number.
func (m *MTU) UnmarshalJSON(b []byte) error {
	if string(bytes.Trim(b, `"`)) == "sona" {
		b = []byte(sonaMTU)
	}
	return (*network.MTU)(m).UnmarshalJSON(b)
}

// MarshalJSON is a word or a number.
func (m MTU) MarshalJSON() ([]byte, error) { return network.MTU(m).MarshalJSON() }

// tunnel is how packets look on the wire.
type tunnel struct {
	form     packet.Encapsulation
	overhead int
	headers  string
}

func tunnels() map[string]tunnel {
	return map[string]tunnel{
		VXLAN:  {packet.Encapsulation{Name: packet.VXLAN, VNI: segment, Port: 4789}, 50, "50 bytes (IPv4 20, UDP 8, VXLAN 8, Ethernet 14)"},
		GRE:    {packet.Encapsulation{Name: packet.GRE}, 42, "42 bytes (IPv4 20, GRE 4, key 4, Ethernet 14)"},
		GENEVE: {packet.Encapsulation{Name: packet.GENEVE, VNI: segment, Port: 6081}, 50, "50 bytes (IPv4 20, UDP 8, GENEVE 8, Ethernet 14)"},
	}
}

// Plugin is the catalog entry.
func Plugin() model.Plugin[model.Layer] {
	return model.Plugin[model.Layer]{
		Name:    Name,
		Summary: "network: Open vSwitch in user space with an OpenFlow controller, as SONA-CNI; services are groups",
		Config:  Config{},
		New: func(raw json.RawMessage) (model.Layer, error) {
			c := Config{MTU: MTU(network.Native), Tunnel: VXLAN, Services: groups}
			if err := model.ReadConfig(raw, &c); err != nil {
				return nil, err
			}
			if err := c.check(); err != nil {
				return nil, err
			}
			l := c.layer()
			if c.Services == none {
				return l, nil
			}
			return &Fronted{l}, nil
		},
	}
}

func (c Config) check() error {
	var errs []error
	if _, ok := tunnels()[c.Tunnel]; !ok {
		errs = append(errs, &model.ConfigError{Key: "tunnel", Text: fmt.Sprintf("is %q; it can be %s, %s or %s", c.Tunnel, VXLAN, GRE, GENEVE)})
	}
	if c.Services != groups && c.Services != none {
		errs = append(errs, &model.ConfigError{Key: "services", Text: fmt.Sprintf("is %q; it can be %s or %s", c.Services, groups, none)})
	}
	return errors.Join(errs...)
}

func (c Config) layer() *Layer {
	t := tunnels()[c.Tunnel]
	f := &fabric{config: c, tunnel: t}
	return &Layer{fabric: f, Layer: &network.Layer{
		Name: Name, MTU: network.MTU(c.MTU), Overhead: t.overhead, Headers: t.headers, Wire: f.wire, DataPath: f.dataPath,
		Routes: "OpenFlow 1.3 controller", More: f.more, Form: network.Always(t.form.String()),
	}}
}

// Layer is a network layer.
type Layer struct {
	*network.Layer

	fabric *fabric
}

// Fronted is one that also makes services.
type Fronted struct{ *Layer }

var (
	_ model.Layer    = (*Layer)(nil)
	_ model.Observer = (*Layer)(nil)
	_ model.Fronter  = (*Fronted)(nil)
)

// Front is the service's virtual address, which flows translate.
func (*Fronted) Front(svc model.Service) []netip.AddrPort {
	return []netip.AddrPort{netip.AddrPortFrom(svc.VIP, svc.Port)}
}

// Deploy starts the switches and their controllers.
func (l *Layer) Deploy(ctx context.Context, s model.Site) (remove func(context.Context) error, err error) {
	if err = l.fabric.find(); err != nil {
		return nil, err
	}
	if l.fabric.config.Services == groups {
		if l.fabric.services, err = services(s); err != nil {
			return nil, err
		}
	}
	l.fabric.mortal, _ = s.(model.ComponentMortal) // a site that is none starts no controller again, either
	return l.Layer.Deploy(ctx, s)
}

// services are the site's, with their pods' addresses.
func services(s model.Site) ([]service, error) {
	var all []service
	for _, blueprint := range s.Topology().Services {
		svc, err := s.Service(blueprint.Name)
		if err != nil {
			return nil, err
		}
		out := service{Name: svc.Name, VIP: netip.AddrPortFrom(svc.VIP, svc.Port)}
		for _, name := range svc.Pods {
			p, err := s.Pod(name)
			if err != nil {
				return nil, err
			}
			out.Backends = append(out.Backends, netip.AddrPortFrom(p.Addr(), svc.TargetPort))
		}
		if len(out.Backends) == 0 {
			return nil, fmt.Errorf("service %s has no pods", svc.Name)
		}
		all = append(all, out)
	}
	return all, nil
}

// programs are what the layer needs of Open vSwitch.
type programs struct {
	server, daemon string
	schema         []byte
}

// find looks for Open vSwitch on the search path and where Debian puts it.
func (f *fabric) find() error {
	var missing []string
	for name, path := range map[string]*string{"ovsdb-server": &f.programs.server, "ovs-vswitchd": &f.programs.daemon} {
		for _, place := range []string{name, "/usr/sbin/" + name, "/usr/local/sbin/" + name} {
			if found, err := sys.Look(place); err == nil {
				*path = found
				break
			}
		}
		if *path == "" {
			missing = append(missing, name)
		}
	}
	for _, dir := range []string{"/usr/share", "/usr/local/share"} {
		if schema, err := sys.ReadFile(dir + "/openvswitch/vswitch.ovsschema"); err == nil {
			f.programs.schema = schema
			break
		}
	}
	if f.programs.schema == nil {
		missing = append(missing, "vswitch.ovsschema")
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return &model.UnsupportedError{
			What: "the layer " + Name, Missing: "Open vSwitch is not installed: no " + strings.Join(missing, ", "),
			Hint: "as root: apt-get install openvswitch-switch, of which no service has to run",
		}
	}
	if err := sys.TryTun(); err != nil {
		return &model.UnsupportedError{What: "the layer " + Name, Missing: err.Error(), Hint: "load the kernel's module tun, and let this user open /dev/net/tun"}
	}
	return nil
}
