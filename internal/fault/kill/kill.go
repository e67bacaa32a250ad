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
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/parallel"
)

// Config is the fault's configuration.
type Config struct {
	model.Selection
	// Components says what is killed there, instead of whole pods.
	Components []model.Component `json:"components,omitempty" jsonschema_description:"Components to kill alone, e.g. gateway or sidecar: in the pods and on the nodes that are named, or everywhere if none are."`
	// Power says that peers are told nothing.
	Power *bool `json:"power,omitempty" jsonschema_description:"Whether the pods are cut off first, as when machines lose their power: peers are told nothing. Without, connections are reset and refused, as when a program crashes. If absent: true where nodes, clusters or regions are named."`
}

// Fault kills the pods of a selection, all at once.
type Fault struct {
	config Config
	power  bool
	killed *killed
}

// killed says of which components processes were killed, and where.
type killed struct {
	mu    sync.Mutex
	facts model.Ledger
}

// Plugin is the catalog entry.
func Plugin() model.Plugin[model.Fault] {
	return model.Plugin[model.Fault]{
		Name: "kill", Summary: "Ends all processes of pods; heal starts them again.", Config: Config{}, New: New,
	}
}

// New reads the configuration.
func New(config json.RawMessage) (model.Fault, error) {
	f := Fault{killed: &killed{}}
	if err := model.ReadConfig(config, &f.config); err != nil {
		return nil, err
	}
	f.power = len(f.config.Nodes)+len(f.config.Clusters)+len(f.config.Regions) > 0
	if f.config.Power != nil {
		f.power = *f.config.Power
	}
	if len(f.config.Components) == 0 {
		return f, f.config.Check()
	}
	if f.config.Power != nil && *f.config.Power {
		return nil, &model.ConfigError{Key: "power", Text: "cuts whole pods off: leave it out where components are killed"}
	}
	known := []model.Component{model.ComponentApp, model.ComponentController, model.ComponentGateway, model.ComponentSidecar}
	for _, c := range f.config.Components {
		if !slices.Contains(known, c) {
			return nil, &model.ConfigError{Key: "components", Text: fmt.Sprintf("has %q; there are app, controller, gateway and sidecar", c)}
		}
	}
	return f, nil
}

// CheckTarget says what real clusters do not have.
func (f Fault) CheckTarget(target string) error {
	if target != model.TargetKube {
		return nil
	}
	switch {
	case len(f.config.Components) > 0:
		return &model.UnsupportedError{
			What: "the fault kill of components on the target kube", Missing: "only our own apps' processes can be ended there", Hint: "name pods, nodes, clusters or regions, without components",
		}
	case f.power:
		return &model.UnsupportedError{
			What: "the fault kill with the loss of power on the target kube", Missing: "pods cannot be cut off without NET_ADMIN", Hint: "say power: false: the processes end as in a crash",
		}
	}
	return nil
}

// Struck are the pods; none where components other than the app are killed.
func (f Fault) Struck(s model.Site) []string {
	if len(f.config.Components) > 0 && !slices.Contains(f.config.Components, model.ComponentApp) {
		return nil
	}
	if f.config.Check() != nil {
		return behind(s.Topology())
	}
	pods, err := f.config.PodsOf(s.Topology())
	if err != nil {
		return nil // Inject has said so
	}
	return pods
}

// behind are the pods of all services, each once.
func behind(t model.Topology) []string {
	var pods []string
	for _, svc := range t.Services {
		for _, p := range svc.Pods {
			if !slices.Contains(pods, p) {
				pods = append(pods, p)
			}
		}
	}
	return pods
}

// places are the pods that are named; with components also the nodes, and
// everything if nothing is named.
func (f Fault) places(t model.Topology) ([]string, error) {
	if len(f.config.Components) == 0 {
		return f.config.PodsOf(t)
	}
	if f.config.Check() != nil {
		return nil, nil //nolint:nilerr // that nothing is named means everywhere here
	}
	whole := f.config.Selection
	whole.Pods = nil
	nodes, err := whole.NodesOf(t)
	if err != nil {
		return nil, err
	}
	pods, err := f.config.PodsOf(t)
	if err != nil && len(nodes) == 0 {
		return nil, err
	}
	return append(pods, nodes...), nil // a node with clients only may have a gateway
}

// Inject kills. A pod that cannot be killed leaves none killed.
func (f Fault) Inject(ctx context.Context, s model.Site) (heal func(context.Context) error, err error) {
	if len(f.config.Components) > 0 {
		return f.components(ctx, s)
	}
	names, err := f.config.PodsOf(s.Topology())
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var revive model.Heals
	err = parallel.Each(names, func(name string) error {
		again, failure := kill(ctx, s, name, f.power)
		if failure != nil {
			return failure
		}
		mu.Lock()
		defer mu.Unlock()
		revive = append(revive, again)
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, revive.Heal(context.WithoutCancel(ctx)))
	}
	return revive.Heal, nil
}

// components kills some of them and leaves the rest alone.
func (f Fault) components(ctx context.Context, s model.Site) (heal func(context.Context) error, err error) {
	m, ok := s.(model.ComponentMortal)
	if !ok {
		return nil, &model.UnsupportedError{What: "the fault kill of components", Missing: "this target's processes cannot be killed one by one from here", Hint: "name pods without components"}
	}
	where, err := f.places(s.Topology())
	if err != nil {
		return nil, err
	}
	var facts model.Ledger
	var revive model.Heals
	for _, c := range f.config.Components {
		struck, again, err := m.KillComponent(ctx, c, where)
		if err != nil {
			return nil, errors.Join(err, revive.Heal(context.WithoutCancel(ctx)))
		}
		revive = append(revive, again)
		facts = append(facts, model.Fact{Layer: "fault", Key: "killed " + string(c), Value: "in " + strings.Join(struck, ", "), Source: model.SourceConfig})
	}
	f.killed.mu.Lock()
	defer f.killed.mu.Unlock()
	f.killed.facts = facts
	return revive.Heal, nil
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

// Observe says where components were killed; of whole pods it looks whether their
// servers still take connections, from a node's point of view where the target
// has nodes.
func (f Fault) Observe(ctx context.Context, s model.Site) (model.Ledger, error) {
	if len(f.config.Components) > 0 {
		f.killed.mu.Lock()
		defer f.killed.mu.Unlock()
		return f.killed.facts, nil
	}
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
