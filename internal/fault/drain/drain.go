// Package drain is the fault, or rather the chore, in which servers leave their
// service gracefully: first nothing new is sent to them, then they end.
package drain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Config is the fault's configuration.
type Config struct {
	model.Selection

	// Stop is how long after they have left the servers end.
	Stop *string `json:"stop,omitempty" jsonschema_description:"How long after they have left their services the servers end, e.g. 1s, as a preStop sleep does; at most 1m. If absent: they do not end."`
}

// Fault drains. One value is for one injection.
type Fault struct {
	config Config
	stops  bool
	stop   time.Duration
	layers []model.Layer
	kinds  []string

	mu   sync.Mutex
	from []string // layers that have taken endpoints out
}

var (
	_ model.Fault         = (*Fault)(nil)
	_ model.FaultObserver = (*Fault)(nil)
	_ model.Striker       = (*Fault)(nil)
	_ model.StackFault    = (*Fault)(nil)
)

// Plugin is the catalog entry.
func Plugin() model.Plugin[model.Fault] {
	return model.Plugin[model.Fault]{
		Name: "drain", Summary: "Takes servers out of their services' endpoints, and then ends them; heal puts them back.", Config: Config{}, New: New,
	}
}

const longest = time.Minute

// New reads the configuration.
func New(config json.RawMessage) (model.Fault, error) {
	f := &Fault{}
	if err := model.ReadConfig(config, &f.config); err != nil {
		return nil, err
	}
	errs := []error{f.config.Check()}
	if text := f.config.Stop; text != nil {
		var err error
		f.stops = true
		if f.stop, err = time.ParseDuration(*text); err != nil || f.stop < 0 || f.stop > longest {
			errs = append(errs, &model.ConfigError{Key: "stop", Text: fmt.Sprintf("is %q; it must be a time such as 1s, at most %s", *text, longest)})
		}
	}
	return f, errors.Join(errs...)
}

// OnStack is the fault for a stack whose layers hold the endpoints.
func (f *Fault) OnStack(layers []model.Layer, kinds []string) model.Fault {
	return &Fault{config: f.config, stops: f.stops, stop: f.stop, layers: layers, kinds: kinds}
}

// Struck are the pods: nothing new is meant for them.
func (f *Fault) Struck(s model.Site) []string {
	pods, err := f.config.PodsOf(s.Topology())
	if err != nil {
		return nil // Inject has said so
	}
	return pods
}

// Inject takes the pods out of all layers that hold endpoints, the topmost first,
// and lets them end later.
func (f *Fault) Inject(ctx context.Context, s model.Site) (heal func(context.Context) error, err error) {
	pods, err := f.config.PodsOf(s.Topology())
	if err != nil {
		return nil, err
	}
	victims, err := f.victims(s, pods)
	if err != nil {
		return nil, err
	}
	d := &drained{site: s, pods: pods}
	from, err := f.leave(ctx, s, pods, d)
	if err == nil && len(from) == 0 && !f.stops {
		err = &model.UnsupportedError{
			What: "the fault drain", Missing: "no layer of this stack (" + strings.Join(f.kinds, ", ") + ") holds endpoints that pods could be taken out of",
			Hint: "use a stack with nft-service, or give stop: then the servers end, told to nobody",
		}
	}
	if err != nil {
		return nil, errors.Join(err, d.undo(context.WithoutCancel(ctx)))
	}
	f.mu.Lock()
	f.from = from
	f.mu.Unlock()
	if f.stops {
		err = d.endAfter(ctx, f.stop, victims)
	}
	if err != nil {
		return nil, errors.Join(err, d.undo(context.WithoutCancel(ctx)))
	}
	return d.undo, nil
}

// victims are the pods that will end.
func (f *Fault) victims(s model.Site, pods []string) ([]model.Mortal, error) {
	var all []model.Mortal
	for _, name := range pods {
		pod, err := s.Pod(name)
		if err != nil {
			return nil, err
		}
		m, ok := pod.(model.Mortal)
		if !ok && f.stops {
			return nil, &model.UnsupportedError{What: "the fault drain with stop", Missing: "this target's pods cannot be ended from here"}
		}
		all = append(all, m)
	}
	return all, nil
}

// leave takes the pods out of every layer that can do it.
func (f *Fault) leave(ctx context.Context, s model.Site, pods []string, d *drained) (from []string, err error) {
	for i, layer := range slices.Backward(f.layers) {
		l, ok := layer.(model.Drainer)
		if !ok {
			continue
		}
		n, undrain, err := l.Drain(ctx, s, pods)
		if err != nil {
			return nil, fmt.Errorf("draining layer %s: %w", f.kinds[i], err)
		}
		d.undos = append(d.undos, undrain)
		if n > 0 {
			from = append(from, fmt.Sprintf("%s (%d endpoints)", f.kinds[i], n))
		}
	}
	return from, nil
}

// Observe says who has taken the pods out.
func (f *Fault) Observe(context.Context, model.Site) (model.Ledger, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	from := "no layer: nobody is told"
	if len(f.from) > 0 {
		from = strings.Join(f.from, ", ")
	}
	return model.Ledger{{Layer: "fault", Key: "pods taken out of", Value: from, Source: model.SourceConfig}}, nil
}

// drained is what has to be undone.
type drained struct {
	site    model.Site
	pods    []string
	mu      sync.Mutex
	undos   []func(context.Context) error
	timer   *time.Timer
	over    bool // it has been undone: nobody may end any more
	ending  error
	revives []func(context.Context) error
}

// endAfter ends the pods' processes after a time, or at once.
func (d *drained) endAfter(ctx context.Context, after time.Duration, victims []model.Mortal) error {
	if after == 0 {
		d.end(ctx, victims)
		return d.ending
	}
	d.timer = time.AfterFunc(after, func() { d.end(context.WithoutCancel(ctx), victims) })
	return nil
}

func (d *drained) end(ctx context.Context, victims []model.Mortal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range victims {
		if d.over {
			return
		}
		revive, err := v.Kill(ctx, false)
		if err != nil {
			d.ending = errors.Join(d.ending, err)
			continue
		}
		d.revives = append(d.revives, revive)
	}
}

// undo starts the pods' processes again, waits until they listen, and then lets
// layers send there.
func (d *drained) undo(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return nil
	}
	d.over = true
	if d.timer != nil {
		d.timer.Stop()
	}
	errs := []error{d.ending}
	for _, revive := range d.revives {
		errs = append(errs, revive(ctx))
	}
	if len(d.revives) > 0 {
		d.listening(ctx)
	}
	for _, undrain := range d.undos {
		errs = append(errs, undrain(ctx))
	}
	return errors.Join(errs...)
}

// listening waits until the servers take connections, as a readiness probe
// would, but not for long: what does not come back shows in the load.
func (d *drained) listening(ctx context.Context) {
	const patience, pause = 5 * time.Second, 10 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, svc := range d.site.Topology().Services {
		for _, name := range svc.Pods {
			pod, err := d.site.Pod(name)
			ns, ok := pod.(model.Namespace)
			if err != nil || !ok || !slices.Contains(d.pods, name) {
				continue
			}
			tick := time.NewTicker(pause)
			for ctx.Err() == nil && !connects(ctx, ns, svc.TargetPort) {
				<-tick.C
			}
			tick.Stop()
		}
	}
}

// connects says whether the pod's own loopback, which no sidecar takes away,
// takes a connection.
func connects(ctx context.Context, pod model.Namespace, port uint16) bool {
	err := pod.InNetwork(func() error {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp4", netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port).String())
		if err != nil {
			return err
		}
		return c.Close()
	})
	return err == nil
}
