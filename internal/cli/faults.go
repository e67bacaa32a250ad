package cli

import (
	"fmt"
	"slices"

	"github.com/windtunnel/windtunnel/internal/model"
)

// fault makes a fault of a scenario.
func (a *app) fault(ref model.PluginRef) (model.Fault, error) {
	i := slices.IndexFunc(a.catalog.Faults, func(p model.Plugin[model.Fault]) bool { return p.Name == ref.Kind })
	if i < 0 {
		return nil, wrong(fmt.Errorf("no fault %q; known: %s", ref.Kind, names(a.catalog.Faults, func(p model.Plugin[model.Fault]) string { return p.Name })))
	}
	return a.catalog.Faults[i].New(ref.Config)
}
