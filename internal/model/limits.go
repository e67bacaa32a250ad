package model

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Limits bound a process, or a component of a pod, by its cgroup. Zero: no
// limit.
type Limits struct {
	CPU    float64 `json:"cpu,omitempty"`          // cores
	Memory uint64  `json:"memory_bytes,omitempty"` // bytes
}

// ComponentLimits are limits by component, of each pod that has it.
type ComponentLimits map[Component]Limits

// LimitedSite is a site that can bound what components of its pods use: those
// that run and those that start later. The ledger has the limits as they are
// read back from the kernel, of each component that runs.
type LimitedSite interface {
	Limit(limits ComponentLimits) (Ledger, error)
}

// QuotaPeriod is the period of CPU limits, in seconds: of each, a limited
// component may run its share. The kernel's default and Kubernetes'.
const QuotaPeriod = 0.1

// SampleQuotaPeriods is a counter: the periods in which a component ran under a
// CPU limit, those in which it was stopped included.
const SampleQuotaPeriods = "quota_periods"

// SampleMemoryKills is a counter: processes of a component that the kernel has
// killed because its limit left it no memory.
const SampleMemoryKills = "memory_kills"

// LimitsOf are the limits of a trial: the study's, where the variant and then
// the load have none of their own.
func (s Study) LimitsOf(variant, load string) ComponentLimits {
	all := ComponentLimits{}
	all.add(s.Limits)
	for _, v := range s.Variants {
		if v.Name == variant {
			all.add(v.Limits)
		}
	}
	for _, l := range s.Loads {
		if l.Name == load {
			all.add(l.Limits)
		}
	}
	return all
}

// Limited says whether anything of the study has limits.
func (s Study) Limited() bool {
	return len(s.Limits) > 0 || slices.ContainsFunc(s.Variants, func(v Variant) bool { return len(v.Limits) > 0 }) ||
		slices.ContainsFunc(s.Loads, func(l Load) bool { return len(l.Limits) > 0 })
}

// add takes over what is said; what is not stays as it is.
func (c ComponentLimits) add(said ComponentLimits) {
	for component, l := range said {
		now := c[component]
		if l.CPU > 0 {
			now.CPU = l.CPU
		}
		if l.Memory > 0 {
			now.Memory = l.Memory
		}
		c[component] = now
	}
}

// Components are those that have limits, in order.
func (c ComponentLimits) Components() []Component { return slices.Sorted(maps.Keys(c)) }

// String is e.g. "sidecar 150m CPU, 128 MiB".
func (c ComponentLimits) String() string {
	parts := make([]string, 0, len(c))
	for _, component := range c.Components() {
		parts = append(parts, fmt.Sprintf("%s %s", component, c[component]))
	}
	return strings.Join(parts, "; ")
}

// String is e.g. "150m CPU, 128 MiB", in Kubernetes' thousandths of a core.
func (l Limits) String() string {
	const milli, mebi = 1000, 1 << 20
	var parts []string
	if l.CPU > 0 {
		parts = append(parts, strconv.FormatFloat(l.CPU*milli, 'g', 6, 64)+"m CPU") //nolint:mnd // digits
	}
	if l.Memory > 0 {
		parts = append(parts, strconv.FormatFloat(float64(l.Memory)/mebi, 'g', 6, 64)+" MiB") //nolint:mnd // digits
	}
	return strings.Join(parts, ", ")
}
