// Package partition is the fault in which two parts of the network do not reach
// each other, while each works by itself.
package partition

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Config is the fault's configuration.
type Config struct {
	A Side `json:"a" jsonschema:"required" jsonschema_description:"One side."`
	B Side `json:"b,omitzero" jsonschema_description:"The other side. If absent: everything else."`
}

// Side is a part of the network: whole nodes.
type Side struct {
	Nodes    []string `json:"nodes,omitempty" jsonschema_description:"Nodes, by name."`
	Clusters []string `json:"clusters,omitempty" jsonschema_description:"Clusters: all of their nodes."`
	Regions  []string `json:"regions,omitempty" jsonschema_description:"Regions: all of their nodes."`
}

func (s Side) selection() model.Selection {
	return model.Selection{Nodes: s.Nodes, Clusters: s.Clusters, Regions: s.Regions}
}

func (s Side) empty() bool { return len(s.Nodes)+len(s.Clusters)+len(s.Regions) == 0 }

// Fault severs.
type Fault struct{ config Config }

// Plugin is the catalog entry.
func Plugin() model.Plugin[model.Fault] {
	return model.Plugin[model.Fault]{
		Name: "partition", Summary: "Cuts what goes between two sets of nodes, both ways; heal mends it.", Config: Config{}, New: New,
	}
}

// New reads the configuration.
func New(config json.RawMessage) (model.Fault, error) {
	var f Fault
	if err := model.ReadConfig(config, &f.config); err != nil {
		return nil, err
	}
	if f.config.A.empty() {
		return nil, &model.ConfigError{Key: "a", Text: "names nothing: give nodes, clusters or regions"}
	}
	return f, nil
}

// Inject severs the two sides.
func (f Fault) Inject(ctx context.Context, s model.Site) (heal func(context.Context) error, err error) {
	severer, ok := s.(model.Severer)
	if !ok {
		return nil, &model.UnsupportedError{What: "the fault partition", Missing: "this target's nodes cannot be cut from each other from here"}
	}
	a, b, err := f.sides(s.Topology())
	if err != nil {
		return nil, err
	}
	return severer.Sever(ctx, a, b)
}

// sides are the nodes of both sides.
func (f Fault) sides(t model.Topology) (a, b []string, err error) {
	a, errA := f.config.A.selection().NodesOf(t)
	b, errB := f.config.B.selection().NodesOf(t)
	if err := errors.Join(errA, errB); err != nil {
		return nil, nil, err
	}
	if f.config.B.empty() {
		for _, n := range t.Nodes() {
			if !slices.Contains(a, n.Name) {
				b = append(b, n.Name)
			}
		}
	}
	for _, n := range a {
		if slices.Contains(b, n) {
			return nil, nil, fmt.Errorf("node %s is on both sides", n)
		}
	}
	if len(b) == 0 {
		return nil, nil, errors.New("there is nothing on the other side")
	}
	return a, b, nil
}
