package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
)

// calibrations are how often each variant meets a load that others are defined
// by: the fewest of which one that went wrong does not move the median.
const calibrations = 3

// calibration lists the trials that find out what relative loads are relative
// to. The control is the baseline once more: it meets the baseline's rates.
func calibration(s model.Study) []model.Trial {
	var trials []model.Trial
	for number := 1; number <= calibrations; number++ {
		var block []model.Trial
		for _, v := range s.Variants {
			for _, l := range s.Loads {
				if !v.Control && referenced(s, l.Name) {
					block = append(block, model.Trial{Block: number, Variant: v.Name, Load: l.Name, Calibration: true})
				}
			}
		}
		// Streams of their own: blocks have those from 1 up.
		order(block, rand.New(rand.NewPCG(s.Design.Seed, math.MaxUint64-uint64(number))), len(trials)) //nolint:gosec // an experiment must be repeatable
		trials = append(trials, block...)
	}
	return trials
}

func referenced(s model.Study, load string) bool {
	return slices.ContainsFunc(s.Loads, func(l model.Load) bool { return l.Relative != nil && l.Relative.Of == load })
}

// Freeze computes the rates of relative loads from the outcomes of the
// calibration: for each variant the median of what was achieved, of these the
// lowest, the highest or its own, and of that the load's share, in whole
// requests per second. Nothing to compute gives no rates.
func (p Plan) Freeze(outcomes []model.Outcome) (model.Frozen, error) {
	var f model.Frozen
	for _, l := range p.Study.Loads {
		if l.Relative == nil {
			continue
		}
		achieved := map[string]float64{}
		for _, v := range p.Study.Variants {
			if v.Control {
				continue
			}
			median, err := medianOf(outcomes, v.Name, l.Relative.Of)
			if err != nil {
				return f, fmt.Errorf("the rate of load %s cannot be found: %w", l.Name, err)
			}
			achieved[v.Name] = median
		}
		for _, v := range p.Study.Variants {
			basis := among(l.Relative.Among, achieved, v, p.Study.Baseline)
			rate := l.Relative.Share * basis
			if rate >= 1 {
				rate = math.Floor(rate)
			}
			f.Rates = append(f.Rates, model.FrozenRate{Load: l.Name, Variant: v.Name, Rate: rate, Basis: basis})
		}
	}
	return f, nil
}

func among(which model.Among, achieved map[string]float64, v model.Variant, baseline string) float64 {
	name := v.Name
	if v.Control {
		name = baseline
	}
	basis := achieved[name]
	for _, rate := range achieved {
		switch which {
		case model.AmongLowest:
			basis = min(basis, rate)
		case model.AmongHighest:
			basis = max(basis, rate)
		case model.AmongOwn:
		}
	}
	return basis
}

// medianOf is the median of what a variant achieved under a load. Trials that
// failed are left out; one that did not is enough.
func medianOf(outcomes []model.Outcome, variant, load string) (float64, error) {
	var rates []float64
	var failures []string
	for i := range outcomes {
		o := &outcomes[i]
		if !o.Trial.Calibration || o.Trial.Variant != variant || o.Trial.Load != load {
			continue
		}
		if rate := achieved(o); rate > 0 {
			rates = append(rates, rate)
		} else if o.Failure != nil {
			failures = append(failures, fmt.Sprintf("calibration trial %d, %s: %s", o.Trial.Index, o.Failure.Step, o.Failure.Error))
		} else {
			failures = append(failures, fmt.Sprintf("calibration trial %d: no request succeeded", o.Trial.Index))
		}
	}
	if len(rates) == 0 {
		return 0, fmt.Errorf("%s achieved nothing under load %s (%s)", variant, load, strings.Join(failures, "; "))
	}
	slices.Sort(rates)
	n := len(rates)
	return (rates[(n-1)/2] + rates[n/2]) / 2, nil
}

// achieved is the rate that a trial found or was answered; 0: none.
func achieved(o *model.Outcome) float64 {
	switch {
	case o.Failure != nil || o.Load == nil:
		return 0
	case o.Search != nil:
		return o.Search.Highest
	}
	return o.Load.Achieved()
}

// RateOf is the rate of a load under a variant: the load's own, or what was
// frozen.
func RateOf(l model.Load, variant string, f model.Frozen) (float64, error) {
	if l.Relative == nil {
		return l.Rate, nil
	}
	for _, r := range f.Rates {
		if r.Load == l.Name && r.Variant == variant {
			return r.Rate, nil
		}
	}
	return 0, fmt.Errorf("load %s has no rate for %s yet: the calibration finds it", l.Name, variant)
}

// Resolve returns the study with the rates that were frozen, of loads that have
// the same rate under every variant, and checks that they are those that follow
// from the calibration's outcomes. Without frozen rates it is the study.
func (p Plan) Resolve(f *model.Frozen, calibration []model.Outcome) (model.Study, error) {
	s := p.Study
	if f == nil {
		return s, nil
	}
	again, err := p.Freeze(calibration)
	if err != nil {
		return s, err
	}
	if !slices.Equal(again.Rates, f.Rates) {
		return s, fmt.Errorf("the frozen rates %v are not those of the calibration, %v", f.Rates, again.Rates)
	}
	s.Loads = slices.Clone(s.Loads)
	for i := range s.Loads {
		l := &s.Loads[i]
		if l.Relative == nil || l.Relative.Among == model.AmongOwn {
			continue
		}
		if l.Rate, err = RateOf(*l, s.Baseline, *f); err != nil {
			return s, err
		}
	}
	return s, nil
}
