// Package kill is the fault that ends pods: a program that crashes, or machines
// that lose their power.
package kill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Config is the fault's configuration.
type Config struct {
	model.Selection
	// Power says that peers are told nothing.
	Power *bool `json:"power,omitempty" jsonschema_description:"Whether the pods are cut off first, as when machines lose their power: peers are told nothing. Without, connections are reset and refused, as when a program crashes. If absent: true where nodes, clusters or regions are named."`
}

// Fault kills the pods of a selection, all at once.
type Fault struct {
	config Config
	power  bool
}

// Plugin is the catalog entry.
func Plugin() model.Plugin[model.Fault] {
	return model.Plugin[model.Fault]{
		Name: "kill", Summary: "Ends all processes of pods; heal starts them again.", Config: Config{}, New: New,
	}
}

// New reads the configuration.
func New(config json.RawMessage) (model.Fault, error) {
	f := Fault{}
	if err := model.ReadConfig(config, &f.config); err != nil {
		return nil, err
	}
	f.power = len(f.config.Nodes)+len(f.config.Clusters)+len(f.config.Regions) > 0
	if f.config.Power != nil {
		f.power = *f.config.Power
	}
	return f, f.config.Check()
}

// Struck are the pods.
func (f Fault) Struck(s model.Site) []string {
	pods, err := f.config.PodsOf(s.Topology())
	if err != nil {
		return nil // Inject has said so
	}
	return pods
}

// Inject kills. A pod that cannot be killed leaves none killed.
func (f Fault) Inject(ctx context.Context, s model.Site) (heal func(context.Context) error, err error) {
	names, err := f.config.PodsOf(s.Topology())
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var revive []func(context.Context) error
	heal = func(ctx context.Context) error {
		var errs []error
		for _, again := range revive {
			errs = append(errs, again(ctx))
		}
		return errors.Join(errs...)
	}
	var all sync.WaitGroup
	errs := make([]error, len(names))
	for i, name := range names {
		all.Go(func() {
			again, err := kill(ctx, s, name, f.power)
			mu.Lock()
			defer mu.Unlock()
			if errs[i] = err; err == nil {
				revive = append(revive, again)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, heal(context.WithoutCancel(ctx)))
	}
	return heal, nil
}

func kill(ctx context.Context, s model.Site, name string, power bool) (revive func(context.Context) error, err error) {
	pod, err := s.Pod(name)
	if err != nil {
		return nil, err
	}
	m, ok := pod.(model.Mortal)
	if !ok {
		return nil, &model.UnsupportedError{What: "the fault kill", Missing: "this target's pods cannot be killed from here"}
	}
	return m.Kill(ctx, power)
}

// Observe looks whether the pods' servers still take connections, from a node's
// point of view where the target has nodes.
func (f Fault) Observe(ctx context.Context, s model.Site) (model.Ledger, error) {
	nodes, ok := s.(model.NodeSite)
	names, err := f.config.PodsOf(s.Topology())
	if !ok || err != nil {
		return nil, err
	}
	open := 0
	for _, name := range names {
		answers, err := answers(ctx, s, nodes, name)
		if err != nil {
			return nil, err
		}
		if answers {
			open++
		}
	}
	return model.Ledger{{Layer: "fault", Key: "killed pods that still take connections", Value: strconv.Itoa(open), Source: model.SourceWire}}, nil
}

// answers says whether a pod takes a connection at the port of any service
// that it is behind.
func answers(ctx context.Context, s model.Site, nodes model.NodeSite, name string) (bool, error) {
	pod, err := s.Pod(name)
	if err != nil {
		return false, err
	}
	on, err := s.Topology().NodeOf(name)
	if err != nil {
		return false, err
	}
	node, err := nodes.Node(on)
	if err != nil {
		return false, err
	}
	found := false
	for _, svc := range s.Topology().Services {
		for _, p := range svc.Pods {
			if p != name || found {
				continue
			}
			err := node.InNetwork(func() error {
				found = connects(ctx, netip.AddrPortFrom(pod.Addr(), svc.TargetPort))
				return nil
			})
			if err != nil {
				return false, fmt.Errorf("looking at pod %s from node %s: %w", name, on, err)
			}
		}
	}
	return found, nil
}

// patience is how long a dead pod is waited for.
const patience = 200 * time.Millisecond

// connects says whether a connection is taken. An address needs no look-up, so
// that the socket is made on the calling thread, in its namespace.
func connects(ctx context.Context, to netip.AddrPort) bool {
	dialer := net.Dialer{Timeout: patience}
	c, err := dialer.DialContext(ctx, "tcp4", to.String())
	if err != nil {
		return false
	}
	_ = c.Close() // nothing was said over it
	return true
}
