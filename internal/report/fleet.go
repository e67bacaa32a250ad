package report

import (
	"fmt"
	"math"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Fleet is what the variants would cost a number of pods under a load.
type Fleet struct {
	Pods  int     `json:"pods"`
	Rate  float64 `json:"rate"` // requests per second, of all pods together
	Costs []Cost  `json:"costs"`
	// Assumed is what these numbers take for granted, and how far they reach
	// beyond what was measured.
	Assumed []string `json:"assumed"`
}

// Cost is that of one variant, by one load.
type Cost struct {
	Variant string `json:"variant"`
	Load    string `json:"load"`
	// Cores is the CPU of app, proxies and gateways; ExtraCores what that is more
	// than the baseline's.
	Cores      *Estimate `json:"cores,omitempty"`
	ExtraCores *Estimate `json:"extra_cores,omitempty"`
	Memory     *Estimate `json:"memory,omitempty"` // bytes, of the sidecars
}

const thousand = 1000 // requests that CPU is given per

// fleet turns CPU per 1,000 requests and memory per sidecar into a fleet's; nil
// where the study has none.
func (b *builder) fleet(m *Model) *Fleet {
	if b.study.Fleet == nil {
		return nil
	}
	f := &Fleet{Pods: b.study.Fleet.Pods, Rate: b.study.Fleet.Rate, Costs: []Cost{}, Assumed: []string{}}
	sidecars, lowest := 0, math.Inf(1)
	for _, l := range m.Loads {
		if l.Kind != KindRequests {
			continue
		}
		for _, v := range m.Variants {
			pods := b.sidecars(v.Name, l.Name)
			sidecars = max(sidecars, pods)
			c := f.cost(m, v.Name, l.Name, pods)
			if rate := m.Cell(v.Name, l.Name, "rate"); rate != nil && rate.Estimate != nil && rate.Estimate.Value > 0 {
				lowest = min(lowest, rate.Estimate.Value)
			}
			if c.Cores != nil || c.Memory != nil {
				f.Costs = append(f.Costs, c)
			}
		}
	}
	if len(f.Costs) == 0 {
		f.Assumed = append(f.Assumed, "CPU and memory could not be sampled, or no load is made of requests: there is nothing to extrapolate from.")
		return f
	}
	f.Assumed = append(f.Assumed, assumed(f, lowest, sidecars)...)
	return f
}

// cost scales what was measured of a variant that ran so many sidecars.
func (f *Fleet) cost(m *Model, variant, load string, sidecars int) Cost {
	c := Cost{Variant: variant, Load: load}
	if cell := m.Cell(variant, load, "cpu.total"); cell != nil {
		c.Cores = times(cell.Estimate, f.Rate/thousand)
	}
	if d := m.Comparison(variant, load, "cpu.total"); d != nil {
		c.ExtraCores = times(d.Difference, f.Rate/thousand)
	}
	if cell := m.Cell(variant, load, "memory.sidecar"); cell != nil && sidecars > 0 {
		c.Memory = times(cell.Estimate, float64(f.Pods)/float64(sidecars))
	}
	return c
}

func assumed(f *Fleet, lowest float64, sidecars int) []string {
	all := []string{"Extrapolated: CPU per request is taken to be the same at any rate and on the fleet's CPUs. The intervals are of the measurement, not of this."}
	if !math.IsInf(lowest, 1) {
		all = append(all, fmt.Sprintf("Measured at %s/s and more; %s/s is up to %s times that.", digits(lowest), digits(f.Rate), digits(f.Rate/lowest)))
	}
	if sidecars > 0 {
		all = append(all, fmt.Sprintf("Memory: the peak of %d %s here, for %s pods. A proxy that knows more services needs more, so this is a lower bound.",
			sidecars, plural("sidecar", sidecars), digits(float64(f.Pods))))
	}
	return append(all, "Left out: control planes, and the memory of gateways and nodes, whose number a fleet of pods does not say.")
}

// times scales an estimate; nil stays nil.
func times(e *Estimate, by float64) *Estimate {
	if e == nil {
		return nil
	}
	return &Estimate{Value: e.Value * by, Lo: e.Lo * by, Hi: e.Hi * by, N: e.N, Method: e.Method + ", scaled"}
}

// sidecars is the number of pods in which a variant runs one.
func (b *builder) sidecars(variant, load string) int {
	most := 0
	for _, o := range b.of(variant, load) {
		pods := map[string]bool{}
		for _, u := range metric.Usages(o) {
			if u.Component == string(model.ComponentSidecar) {
				pods[u.Pod] = true
			}
		}
		most = max(most, len(pods))
	}
	return most
}

// FleetTable is what the variants would cost, for the text formats; without rows
// where there is nothing to say.
func FleetTable(m *Model) Table {
	if m.Fleet == nil {
		return Table{}
	}
	t := Table{
		Title:   "What it costs you",
		Caption: fmt.Sprintf("%s pods that get %s requests/s, extrapolated, %.0f %% interval of the measurement", digits(float64(m.Fleet.Pods)), digits(m.Fleet.Rate), m.Run.Level*100),
		Header:  []string{"", "load", "cores", "more than " + m.Run.Baseline, "memory of sidecars"},
		Order:   []int{0, 1, 2, 3, 4},
	}
	for _, c := range m.Fleet.Costs {
		row := []string{c.Variant, c.Load, "-", "-", "-"}
		if c.Cores != nil {
			row[2] = FormatEstimate(metric.UnitCount, *c.Cores)
		}
		if c.ExtraCores != nil {
			row[3] = FormatDifference(metric.UnitCount, *c.ExtraCores)
		}
		if c.Memory != nil {
			row[4] = FormatEstimate(metric.UnitBytes, *c.Memory)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
