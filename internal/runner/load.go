package runner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/driver"
	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/search"
)

// Above these the load generator itself is what a probe found the limit of.
const (
	generatorLateness = 5 * time.Millisecond // p99 on an idle core is under 0.25 ms
	generatorIdle     = 0.05                 // share of the window; less and requests queue in the generator
)

// loadLimit bounds the time that a load takes; of a search, the most that it
// can.
func (t *trial) loadLimit() time.Duration {
	around := t.Plan.Study.Design.Warmup + t.load.Timeout + loadGrace
	if t.load.Driver != "" {
		around += driver.Limit()
	}
	if t.load.Search == nil {
		return around + t.load.Duration
	}
	probes, confirmations := search.Most(*t.load.Search)
	return time.Duration(probes)*(around+t.load.Search.Probe) + time.Duration(confirmations)*(around+t.load.Duration)
}

func (t *trial) runLoad(ctx context.Context) error {
	if err := t.limit(); err != nil {
		return fmt.Errorf("limiting components: %w", err)
	}
	if t.Placement != nil {
		var err error
		if t.out.CPUs.Before, err = t.Placement.Settle(ctx); err != nil {
			return err
		}
		defer func() { t.out.CPUs.After = t.Placement.Distance() }()
	}
	if t.load.Search != nil {
		return t.search(ctx)
	}
	m, err := t.measure(ctx, t.load, t.Seed, true)
	t.out.Load, t.out.Window, t.out.Samples = m.load, m.window, m.samples
	return err
}

// search looks for the highest rate that holds. What the trial keeps is of the
// last confirmation, as if it had been the only load; the probes are told beside it.
func (t *trial) search(ctx context.Context) error {
	t.out.Search = &model.SearchResult{}
	var last measured
	var probes []model.SearchProbe
	for {
		step := search.Next(*t.load.Search, probes)
		if step.Rate == 0 {
			*t.out.Search = step.Result
			break
		}
		what := "probe"
		if step.Confirm {
			what = "confirmation"
		}
		t.Progress.Step(t.Trial, fmt.Sprintf("%s %d: %g/s%s", what, len(probes)+1, step.Rate, again(probes, step)))
		l := t.load
		l.Rate, l.Search = step.Rate, nil
		if !step.Confirm {
			l.Duration = t.load.Search.Probe
		}
		m, err := t.measure(ctx, l, t.Seed+uint64(len(probes)), step.Confirm)
		if err != nil {
			return fmt.Errorf("%s %d at %g/s: %w", what, len(probes)+1, step.Rate, err)
		}
		last = m
		p := judge(l, t.load.Search.Objectives, m.load)
		p.Confirms = step.Confirm
		probes = append(probes, p)
		t.out.Search.Probes = probes
	}
	if t.out.Search.Highest == 0 {
		return noRate(probes)
	}
	t.out.Load, t.out.Window, t.out.Samples = last.load, last.window, last.samples
	return nil
}

// again says that a step tries what has failed already.
func again(probes []model.SearchProbe, step search.Step) string {
	if slices.ContainsFunc(probes, func(p model.SearchProbe) bool { return p.Rate == step.Rate && p.Confirms == step.Confirm && !p.Held }) {
		return ", again"
	}
	return ""
}

// noRate says what was tried by a search that found nothing.
func noRate(probes []model.SearchProbe) error {
	last := probes[len(probes)-1]
	failed := map[float64]int{}
	for _, p := range probes {
		if !p.Held {
			failed[p.Rate]++
		}
	}
	var tried []string
	for _, rate := range slices.Backward(slices.Sorted(maps.Keys(failed))) {
		tried = append(tried, fmt.Sprintf("%g/s (%d)", rate, failed[rate]))
	}
	return fmt.Errorf("no rate holds: at %g/s, the lowest that was tried, %s; not held were, and how often: %s",
		last.Rate, last.Why, strings.Join(tried, ", "))
}

// judge says whether a load's result holds all objectives, and whether it is
// the system's at all.
func judge(l model.Load, objectives []model.Objective, r *model.LoadResult) model.SearchProbe {
	p := model.SearchProbe{Rate: l.Rate, Held: true, Values: map[string]float64{}}
	o := model.Outcome{Load: r}
	for _, want := range objectives {
		v, err := metric.Of(&o, want.Metric)
		why := ""
		if err != nil {
			why = err.Error()
		} else {
			p.Values[want.Metric] = v
			if !holds(v, want) {
				why = fmt.Sprintf("%s was %.4g, asked was %s", want.Metric, v, want.Text)
			}
		}
		if why != "" && p.Held {
			p.Held, p.Why = false, why
		}
	}
	if why := overtaxed(l, r); why != "" {
		p.Held, p.Generator, p.Why = false, true, "generator limit reached: "+why
	}
	return p
}

func holds(v float64, o model.Objective) bool {
	switch o.Op {
	case "<":
		return v < o.Value
	case "<=":
		return v <= o.Value
	case ">":
		return v > o.Value
	}
	return v >= o.Value
}

// overtaxed says in what way the generator could not keep up; "" if it could.
// What watches the clock is never idle.
func overtaxed(l model.Load, r *model.LoadResult) string {
	if r.Tool != nil {
		return "" // an outside tool does not tell
	}
	bound := generatorLateness + l.Coalesce
	if r.Lateness != nil && r.Lateness.Count() > 0 {
		if p99 := r.Lateness.Quantile(0.99); p99 > bound {
			return fmt.Sprintf("it sent %s late at p99, %s is allowed", p99.Round(time.Microsecond), bound)
		}
	}
	if l.Spin == 0 && r.Workers > 0 && r.GeneratorIdle < generatorIdle {
		return fmt.Sprintf("it was idle for %.1f %% of the window", r.GeneratorIdle*100)
	}
	return ""
}
