// Package stall is the fault in which servers hang: their processes stop, their
// connections stay, and nobody answers.
package stall

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Fault suspends the pods of a selection.
type Fault struct{ config model.Selection }

// Plugin is the catalog entry.
func Plugin() model.Plugin[model.Fault] {
	return model.Plugin[model.Fault]{
		Name: "stall", Summary: "Stops all processes of pods without ending them (SIGSTOP); heal lets them go on.", Config: model.Selection{}, New: New,
	}
}

// New reads the configuration.
func New(config json.RawMessage) (model.Fault, error) {
	var f Fault
	if err := model.ReadConfig(config, &f.config); err != nil {
		return nil, err
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

// CheckTarget is nil: whoever can be killed can be stopped.
func (Fault) CheckTarget(string) error { return nil }

// Inject suspends. A pod that cannot be suspended leaves none suspended.
func (f Fault) Inject(ctx context.Context, s model.Site) (heal func(context.Context) error, err error) {
	names, err := f.config.PodsOf(s.Topology())
	if err != nil {
		return nil, err
	}
	var resume model.Heals
	for _, name := range names {
		again, err := suspend(ctx, s, name)
		if err != nil {
			return nil, errors.Join(err, resume.Heal(context.WithoutCancel(ctx)))
		}
		resume = append(resume, again)
	}
	return resume.Heal, nil
}

func suspend(ctx context.Context, s model.Site, name string) (resume func(context.Context) error, err error) {
	pod, err := s.Pod(name)
	if err != nil {
		return nil, err
	}
	m, ok := pod.(model.Mortal)
	if !ok {
		return nil, &model.UnsupportedError{What: "the fault stall", Missing: "this target's pods cannot be suspended from here"}
	}
	return m.Suspend(ctx)
}
