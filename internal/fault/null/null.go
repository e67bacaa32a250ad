// Package null is the fault that does nothing: a load under it shows what being
// watched for a fault costs by itself.
package null

import (
	"context"
	"encoding/json"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Fault does nothing.
type Fault struct{}

// Plugin is the catalog entry.
func Plugin() model.Plugin[model.Fault] {
	return model.Plugin[model.Fault]{
		Name: "null", Summary: "Nothing: what a load under a fault costs by itself.", Config: struct{}{},
		New: func(config json.RawMessage) (model.Fault, error) {
			return Fault{}, model.ReadConfig(config, &struct{}{})
		},
	}
}

// CheckTarget is nil: nothing works everywhere.
func (Fault) CheckTarget(string) error { return nil }

// Inject does nothing.
func (Fault) Inject(context.Context, model.Site) (heal func(context.Context) error, err error) {
	return func(context.Context) error { return nil }, nil
}
