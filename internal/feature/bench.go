package feature

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Bench is a site with a stack and scouts, ready for checks.
type Bench struct {
	site   model.Site
	layers []model.Layer
	svc    model.Service
	scouts map[string]*scout // by place; outside servers by their identity
	addrs  map[To][]netip.AddrPort
	undo   []func(context.Context) error
	bursts int
}

// outsiders are the servers outside the mesh, by their ports.
func outsiders() map[uint16]string {
	return map[uint16]string{portGood: "outside-allowed", portBad: "outside-refused", portSpans: "collector"}
}

// Open deploys a stack on a site of Topology and starts scouts. The Bench is
// to be closed also where there is an error; the site is the caller's.
func Open(ctx context.Context, site model.Site, layers []model.Layer) (*Bench, error) {
	b := &Bench{site: site, scouts: map[string]*scout{}, addrs: map[To][]netip.AddrPort{}}
	var err error
	if b.svc, err = site.Service(Service); err != nil {
		return b, err
	}
	if err := b.startScouts(ctx); err != nil {
		return b, err
	}
	for _, l := range layers {
		if r, ok := l.(model.Router); ok {
			r.Routable()
		}
		remove, err := l.Deploy(ctx, site)
		if err != nil {
			return b, fmt.Errorf("deploying the stack: %w", err)
		}
		b.undo, b.layers = append(b.undo, remove), append(b.layers, l)
	}
	if err := b.findAddresses(); err != nil {
		return b, err
	}
	for _, from := range []string{Client, Stranger} {
		if err := b.ready(ctx, from); err != nil {
			return b, err
		}
	}
	return b, nil
}

// Close removes the stack and ends the scouts.
func (b *Bench) Close(ctx context.Context) error {
	var errs []error
	for _, undo := range slices.Backward(b.undo) {
		errs = append(errs, undo(ctx))
	}
	b.undo = nil
	for _, p := range b.scouts {
		errs = append(errs, p.running.Stop(ctx))
	}
	return errors.Join(errs...)
}

func (b *Bench) startScouts(ctx context.Context) error {
	for _, name := range append([]string{Client, Stranger}, Pods()...) {
		pod, err := b.site.Pod(name)
		if err != nil {
			return err
		}
		if b.scouts[name], err = startScout(ctx, pod, name, Command); err != nil {
			return err
		}
		if slices.Contains(Pods(), name) {
			if err := b.scouts[name].serve(ctx, portTarget, name); err != nil {
				return err
			}
		}
	}
	node, err := b.outside()
	if err != nil {
		return err
	}
	if b.scouts[Outside], err = startScout(ctx, node, Outside, Command); err != nil {
		return err
	}
	for port, name := range outsiders() {
		if b.scouts[name], err = startScout(ctx, node, name, name); err != nil {
			return err
		}
		if err := b.scouts[name].serve(ctx, port, name); err != nil {
			return err
		}
	}
	return nil
}

// outside is a place that no layer has a proxy for.
func (b *Bench) outside() (model.Starter, error) {
	if nodes, ok := b.site.(model.NodeSite); ok {
		ns, err := nodes.Node(Outside)
		if err != nil {
			return nil, err
		}
		if starter, ok := ns.(model.Starter); ok {
			return starter, nil
		}
	}
	return nil, &model.UnsupportedError{What: "checking features", Missing: "this target has no place outside the mesh for a process", Hint: "use the lab"}
}

// findAddresses finds where everything is that bursts are sent to.
func (b *Bench) findAddresses() error {
	for _, name := range Pods() {
		pod, err := b.site.Pod(name)
		if err != nil {
			return err
		}
		b.addrs[ToPods] = append(b.addrs[ToPods], netip.AddrPortFrom(pod.Addr(), portTarget))
	}
	b.addrs[ToService] = b.addrs[ToPods]
	b.addrs[ToFront] = []netip.AddrPort{netip.AddrPortFrom(b.svc.VIP, b.svc.Port)}
	for _, l := range b.layers {
		if f, ok := l.(model.Fronter); ok {
			if at := f.Front(b.svc); len(at) > 0 {
				b.addrs[ToService], b.addrs[ToFront] = at, at
			}
		}
	}
	wired, ok := b.site.(model.WiredSite)
	if !ok {
		return &model.UnsupportedError{What: "checking features", Missing: "this target does not tell its nodes' addresses", Hint: "use the lab"}
	}
	for _, w := range wired.Wiring() {
		switch w.Node {
		case gatewayOn:
			b.addrs[ToDoor] = []netip.AddrPort{netip.AddrPortFrom(w.Addr, portDoor)}
		case Outside:
			b.addrs[ToAllowed] = []netip.AddrPort{netip.AddrPortFrom(w.Addr, portGood)}
			b.addrs[ToRefused] = []netip.AddrPort{netip.AddrPortFrom(w.Addr, portBad)}
		}
	}
	return nil
}

// ready waits until a client is answered through the stack, by every pod's way.
func (b *Bench) ready(ctx context.Context, from string) error {
	const streak, pause = 20, 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		replies, err := b.burst(ctx, Burst{From: from, To: ToService, Count: streak, Path: "/", Fresh: true})
		if err != nil {
			return err
		}
		bad := slices.IndexFunc(replies, func(r Reply) bool { return r.Status != statusOK })
		if bad < 0 {
			return nil
		}
		if wait(ctx, pause); ctx.Err() != nil {
			return fmt.Errorf("the service does not answer %s through the stack: %s", from, replies[bad])
		}
	}
}

// String says what became of a request.
func (r Reply) String() string {
	if r.Error != "" {
		return r.Error
	}
	return fmt.Sprintf("status %d by %q", r.Status, r.From)
}

// burst sends one.
func (b *Bench) burst(ctx context.Context, one Burst) ([]Reply, error) {
	b.bursts++
	if one.Host == "" {
		one.Host = Service
	}
	s := sending{Burst: one, Name: b.burstName(), Targets: b.addrs[one.To], Timeout: patience}
	a, err := b.scouts[one.From].do(ctx, order{Send: &s})
	return a.Replies, err
}

// burstName begins the names of the requests of the last burst.
func (b *Bench) burstName() string { return fmt.Sprintf("wt-burst-%d", b.bursts) }

// logs are the ends of what all processes but scouts have printed.
func (b *Bench) logs() []byte {
	site, ok := b.site.(model.LoggedSite)
	if !ok {
		return nil
	}
	var all []byte
	for name, log := range site.Logs() {
		if !strings.HasSuffix(name, "/"+Command) {
			all = append(all, log...)
		}
	}
	return all
}

// Programs are those that the layers say did the work.
func (b *Bench) Programs(ctx context.Context) ([]string, error) {
	var all []string
	for _, l := range b.layers {
		o, ok := l.(model.Observer)
		if !ok {
			continue
		}
		ledger, err := o.Observe(ctx, b.site)
		if err != nil {
			return nil, err
		}
		for _, f := range ledger {
			if f.Key == model.FactProgram && !slices.Contains(all, f.Value) {
				all = append(all, f.Value)
			}
		}
	}
	return all, nil
}
