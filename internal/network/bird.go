package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// Announced are the addresses that nodes announce besides the range of their pods.
type Announced map[*Node][]netip.Addr

// Speak makes a layer take its routes from BGP. wire does what the layer does
// besides, and says what is announced; overhead is what its headers take of the
// underlay's MTU, which the routes then say, too.
func (l *Layer) Speak(c RouteConfig, overhead int, wire func(ctx context.Context, s *Site) (Announced, error)) {
	var b *speakers
	l.Wire = func(ctx context.Context, s *Site) error {
		announced, err := wire(ctx, s)
		if err != nil {
			return err
		}
		pathMTU := 0
		if overhead > 0 {
			pathMTU = s.MTU - overhead
		}
		b, err = s.learnRoutes(ctx, c, pathMTU, announced)
		return err
	}
	l.Needs = func() error {
		_, err := findBIRD(l.Name)
		return err
	}
	l.Learnt = func() (string, error) { return b.routes() }
	l.More = func(*Site) (model.Ledger, error) { return b.ledger(), nil }
}

// ServiceAddrs are the virtual addresses of the services that have pods on each node.
func (s *Site) ServiceAddrs() (Announced, error) {
	out := Announced{}
	for _, blueprint := range s.site.Topology().Services {
		svc, err := s.site.Service(blueprint.Name)
		if err != nil {
			return nil, err
		}
		for _, n := range s.Nodes {
			if slices.ContainsFunc(n.Ends, func(p *Pod) bool { return slices.Contains(svc.Pods, p.Name) }) {
				out[n] = append(out[n], svc.VIP)
			}
		}
	}
	return out, nil
}

// speakers are the nodes' BGP daemons.
type speakers struct {
	config    RouteConfig
	site      *Site
	program   string
	announced Announced
	running   []model.Running
	version   string
}

// learnRoutes replaces the routes to other nodes' pods by those that BIRD on
// every node learns from the others. pathMTU, if not 0, is entered with them.
func (s *Site) learnRoutes(ctx context.Context, c RouteConfig, pathMTU int, announced Announced) (*speakers, error) {
	program, err := findBIRD(s.Layer)
	if err != nil {
		return nil, err
	}
	out := &speakers{config: c, site: s, announced: announced, program: program}
	if err = s.Each(ctx, s.forgetRoutes); err != nil {
		return nil, err
	}
	if err = s.Each(ctx, s.spread); err != nil {
		return nil, err
	}
	s.OnUndo(func() error {
		s.endRevived(context.WithoutCancel(ctx))
		return nil
	})
	if out.version, err = out.ask(ctx, s.Nodes[0]); err != nil {
		return nil, err
	}
	err = s.Each(ctx, func(n *Node) error {
		config, failure := out.configure(n, pathMTU)
		if failure != nil {
			return failure
		}
		return out.start(ctx, n, config)
	})
	if err != nil {
		return nil, err
	}
	return out, s.Each(ctx, func(n *Node) error { return out.converged(ctx, n) })
}

// findBIRD looks for the program on the search path and where Debian puts it.
func findBIRD(layer string) (string, error) {
	for _, place := range []string{"bird", "/usr/sbin/bird", "/usr/local/sbin/bird"} {
		if found, err := sys.Look(place); err == nil {
			return found, nil
		}
	}
	return "", &model.UnsupportedError{
		What: "the layer " + layer + " with routes: " + BGP, Missing: "BIRD is not installed: no program bird",
		Hint: "as root: apt-get install bird2, of which no service has to run",
	}
}

// forgetRoutes removes a node's routes to the others' pods. Their return begins
// with the removal of what a daemon has left that could not clean up any more.
func (s *Site) forgetRoutes(n *Node) error {
	each := func(f func(sys.RouteVia) error) error {
		var errs []error
		for _, to := range s.Others(n) {
			errs = append(errs, f(sys.RouteVia{To: to.Range, Via: to.Addr, Device: n.Underlay}))
		}
		return errors.Join(errs...)
	}
	return s.Change(n.Space,
		func(net *sys.Net) error { return each(net.DeleteRoute) },
		func(net *sys.Net) error {
			return errors.Join(net.DeleteRoutesBy(sys.RoutesOfBIRD), each(net.ReplaceRoute))
		})
}

// spread makes a node take one of several equal ways for each connection: the
// kernel's own choice is one for each pair of addresses.
func (s *Site) spread(n *Node) error {
	const key, byConnection = "net/ipv4/fib_multipath_hash_policy", "1"
	before := ""
	return s.Change(n.Space, func(*sys.Net) (err error) {
		if before, err = sys.ReadSysctl(key); err != nil {
			return err
		}
		return sys.WriteSysctl(key, byConnection)
	}, func(*sys.Net) error { return sys.WriteSysctl(key, before) })
}

// endRevived ends daemons that a fault has killed and started again: they are
// not those that were started here. Mostly there are none, which is an error to
// a fault and none here; the site's own end would end them, too.
func (s *Site) endRevived(ctx context.Context) {
	if m, ok := s.site.(model.ComponentMortal); ok {
		_, _, _ = m.KillComponent(ctx, model.ComponentController, nil)
	}
}

// system is the autonomous system of all nodes: Calico's number, of the private ones.
const system = 64512

// configuration is BIRD's. A daemon exports to the kernel what it has learnt,
// and to the others what it has itself; so there are no other ways than direct
// ones. Equal ways to an announced address are all used. A session that is new
// can be silent until BIRD gets up for something else (its loop waits for up to 3 s
// with updates to be sent); looking at devices every second makes it get up.
const configuration = `log stderr { remote, warning, error, auth, fatal, bug };
router id {{.Addr}};
protocol device { scan time 1; }
protocol static own {
	ipv4;
	route {{.Range}} blackhole;
{{- range .Announced}}
	route {{.}}/32 blackhole;
{{- end}}
}
protocol kernel {
	metric 0;
	merge paths on;
	ipv4 {
		import none;
		export filter {
			if source != RTS_BGP then reject;
{{- if .PathMTU}}
			krt_mtu = {{.PathMTU}};
{{- end}}
			accept;
		};
	};
}
{{- if .BFD}}
protocol bfd {
	interface "{{.Underlay}}" { interval {{.BFD}} ms; multiplier {{.Misses}}; };
}
{{- end}}
{{- range .Peers}}
protocol bgp {
	local {{$.Addr}} as {{$.System}};
	neighbor {{.Addr}} as {{$.System}};
	direct;
	interface "{{$.Underlay}}";
	graceful restart off;
	hold time {{$.Hold}};
	connect delay time 1;
	connect retry time 1;
	error wait time 1, 1;
{{- if $.BFD}}
	bfd on;
{{- end}}
	ipv4 {
		import all;
		export where proto = "own";
		next hop self;
	};
}
{{- end}}
`

// configure writes a node's configuration.
func (b *speakers) configure(n *Node, pathMTU int) ([]byte, error) {
	t, err := template.New("bird.conf").Parse(configuration)
	if err != nil {
		return nil, fmt.Errorf("reading the template of BIRD's configuration: %w", err)
	}
	var out strings.Builder
	err = t.Execute(&out, map[string]any{
		"Addr": n.Addr, "Range": n.Range, "Underlay": n.Underlay, "Announced": b.announced[n], "Peers": b.site.Others(n),
		"System": system, "PathMTU": pathMTU, "BFD": b.config.bfd().Milliseconds(), "Misses": bfdMisses, "Hold": int(b.config.hold().Seconds()),
	})
	if err != nil {
		return nil, fmt.Errorf("writing BIRD's configuration: %w", err)
	}
	return []byte(out.String()), nil
}

// start starts a node's daemon. All that it writes is in its private folder.
func (b *speakers) start(ctx context.Context, n *Node, config []byte) error {
	const file, socket = "bird.conf", "bird.ctl"
	running, err := b.run(ctx, n, model.Process{
		Name: "bird", Component: model.ComponentController, Files: map[string][]byte{file: config},
		Command: []string{b.program, "-f", "-c", "{dir}/" + file, "-s", "{dir}/" + socket},
	})
	if err != nil {
		return err
	}
	b.running = append(b.running, running)
	b.site.OnUndo(func() error { return running.Stop(context.WithoutCancel(ctx)) })
	return nil
}

func (b *speakers) run(ctx context.Context, n *Node, p model.Process) (model.Running, error) {
	node, ok := n.Space.(model.Starter)
	if !ok {
		return nil, &model.UnsupportedError{What: "the layer " + b.site.Layer + " with routes: " + BGP, Missing: "this target's nodes have no room for processes"}
	}
	return node.Start(ctx, p)
}

// ask asks the program which one it is; "" where the site keeps no logs.
func (b *speakers) ask(ctx context.Context, n *Node) (string, error) {
	const name = "bird-version"
	running, err := b.run(ctx, n, model.Process{Name: name, Component: model.ComponentController, Command: []string{b.program, "--version"}})
	if err != nil {
		return "", err
	}
	select {
	case <-running.Done():
	case <-ctx.Done():
	}
	if err := running.Stop(context.WithoutCancel(ctx)); err != nil {
		return "", fmt.Errorf("asking %s for its version: %w", b.program, err)
	}
	logged, ok := b.site.site.(model.LoggedSite)
	if !ok {
		return "", nil
	}
	return strings.Replace(strings.TrimSpace(string(logged.Logs()[n.Node+"/"+name])), "BIRD version ", "BIRD ", 1), nil
}

// converged waits until a node has learnt all routes.
func (b *speakers) converged(ctx context.Context, n *Node) error {
	const patience, pause = 60 * time.Second, 20 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		missing, err := b.missing(n)
		if err != nil || len(missing) == 0 {
			return err
		}
		for _, r := range b.running {
			select {
			case <-r.Done():
				return fmt.Errorf("waiting for the routes to %v: a BGP daemon has ended: %w", missing, r.Err())
			default:
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until the routes to %v are learnt: %w", missing, ctx.Err())
		case <-tick.C:
		}
	}
}

// missing are the destinations that a node has not learnt, or no longer has.
func (b *speakers) missing(n *Node) ([]netip.Prefix, error) {
	wanted := map[netip.Prefix]bool{}
	for _, other := range b.site.Others(n) {
		wanted[other.Range] = true
		for _, a := range b.announced[other] {
			wanted[Host(a)] = true
		}
	}
	for _, a := range b.announced[n] { // it has that itself
		delete(wanted, Host(a))
	}
	err := In(n.Space, func(net *sys.Net) error {
		learnt, err := net.RoutesBy(sys.RoutesOfBIRD)
		for _, p := range learnt {
			delete(wanted, p)
		}
		return err
	})
	var missing []netip.Prefix
	for p := range wanted {
		missing = append(missing, p)
	}
	return missing, err
}

// routes is what the routes come from, if all of them are there. After a fault
// that has not been healed yet they need not be.
func (b *speakers) routes() (string, error) {
	gone := 0
	for _, n := range b.site.Nodes {
		missing, err := b.missing(n)
		if err != nil {
			return "", fmt.Errorf("node %s: %w", n.Node, err)
		}
		gone += len(missing)
	}
	if gone > 0 {
		return fmt.Sprintf("%s; %d are missing", b.config.describe(), gone), nil
	}
	return b.config.describe(), nil
}

// ledger says what the daemons are.
func (b *speakers) ledger() model.Ledger {
	return model.Ledger{{Layer: b.site.Layer, Key: model.FactProgram, Value: b.version, Source: model.SourceProgram}}
}
