package runner

import (
	"context"
	"maps"
	"strings"

	"github.com/windtunnel/windtunnel/internal/driver"
	"github.com/windtunnel/windtunnel/internal/model"
)

// drive lets an outside tool send the load, in the place of the agent, which
// has gated it. What the tool has written is kept as it is.
func (m *measuring) drive(ctx context.Context, l model.Load) (*model.LoadResult, error) {
	d, err := m.Driver(l.Driver)
	if err != nil {
		return nil, err
	}
	o, err := driver.Execute(ctx, d, m.site, m.direct(), driver.Job{
		Load: l, Targets: m.targets, Host: m.host, Warmup: m.Plan.Study.Design.Warmup,
	}, func(w model.Window) { m.opened(ctx, w) })
	maps.Copy(m.files, o.Files)
	if err != nil {
		return nil, err
	}
	tool := o.Load.Tool
	m.out.Ledger = append(m.out.Ledger, model.Fact{
		Layer: "generator", Key: model.FactProgram, Value: strings.TrimSpace(tool.Name + ": " + tool.Version), Source: model.SourceProgram,
	})
	return o.Load, nil
}

// direct is the pod that the load goes to; empty where it goes to an address
// that stands for several, behind which no other server can be put.
func (m *measuring) direct() string {
	for _, b := range m.out.Endpoints.Backends {
		if len(m.targets) == 1 && b.Addr == m.targets[0] {
			return b.Pod
		}
	}
	return ""
}
