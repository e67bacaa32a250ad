package lab

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// Limit bounds components of all pods, as a container's limits do: all
// processes of a component share its limit.
func (s *site) Limit(limits model.ComponentLimits) (model.Ledger, error) {
	if s.cgroup == nil {
		return nil, &model.UnsupportedError{
			What: "a limit of " + limits.String(), Missing: "no control groups: " + strings.ReplaceAll(s.target.noGroup, "\n", "; "),
			Hint: "as root nothing is needed; else run below a delegated cgroup: systemd-run --user --scope -p Delegate=yes windtunnel ...",
		}
	}
	s.mu.Lock()
	s.limits = maps.Clone(limits)
	s.mu.Unlock()
	var facts model.Ledger
	for _, subject := range s.subjects() {
		_, component, _ := strings.Cut(subject.Name, "/")
		wanted, limited := limits[model.Component(component)]
		if !limited {
			continue
		}
		got, err := limit(subject.Group, wanted)
		if err != nil {
			return nil, fmt.Errorf("limiting %s to %s: %w", subject.Name, wanted, err)
		}
		facts = append(facts, model.Fact{Layer: "limits", Key: component + " of a pod", Value: got.String(), Source: model.SourceConfig})
	}
	return facts, nil
}

// limit sets a limit and reads it back. The kernel rounds, by less than a
// thousandth of a core and a page.
func limit(g *sys.Cgroup, wanted model.Limits) (got model.Limits, err error) {
	if err = g.Limit(wanted.CPU, wanted.Memory); err != nil {
		return got, err
	}
	if got.CPU, got.Memory, err = g.Limits(); err != nil {
		return got, err
	}
	const rounding, page = 0.001, 64 << 10
	if got.CPU > wanted.CPU+rounding || got.CPU < wanted.CPU-rounding || got.Memory > wanted.Memory || got.Memory+page <= wanted.Memory {
		return got, fmt.Errorf("%w: it says %s", errNotKept, got)
	}
	return got, nil
}

var errNotKept = errors.New("the kernel did not take it over")
