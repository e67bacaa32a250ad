// Package simulate draws studies whose true effects are known, with the noise
// that real ones have, to prove the statistics by. Nothing of it is ever part of
// a real run. What it draws goes through the same steps as a report: Paired, the
// control's floor, Holm, Judge.
package simulate

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/windtunnel/windtunnel/internal/stats"
)

// The names of what every simulated study has: arms against one baseline.
const (
	Baseline = "baseline"
	Same     = "same" // the baseline's stack under another name: no effect
	Control  = "control"
	Delayed  = "delayed" // every request takes longer by Delay
	Slower   = "slower"  // every request takes longer by Factor, and more CPU
)

// Metrics are those of every simulated study, all primary.
func Metrics() []string {
	return []string{"response.p50", "response.p90", "response.mean", "cpu.total"}
}

// Noise is what moves a trial's numbers besides effects. Shares are of trials or
// requests; the rest are standard deviations of logarithms: 0.02 is about 2 %.
type Noise struct {
	Drift    float64 // from block to block, a random walk that all arms share
	Trial    float64 // from trial to trial
	Modes    float64 // share of trials in a second, slower mode, e.g. another memory layout
	Mode     float64 // how much slower
	Outliers float64 // share of trials that something disturbs, by a quarter on average
	Request  float64 // from request to request
	Memory   float64 // correlation of a request with the one before
	Stalls   float64 // share of requests that take ten times as long
	Requests int     // of a trial; 100 at least, for the 90th percentile
}

// Realistic is noise as bad as on a shared virtual machine.
func Realistic() Noise {
	return Noise{Drift: 0.03, Trial: 0.02, Modes: 0.3, Mode: 0.06, Outliers: 0.05, Request: 0.3, Memory: 0.7, Stalls: 0.01, Requests: 100}
}

// The planted effects.
const (
	Base   = 1e-3   // seconds that a request takes without noise
	Delay  = 200e-6 // seconds
	Factor = 1.1
)

// Values are a study's numbers: by arm, by metric, in block order.
type Values map[string]map[string][]float64

// Draw draws a study of so many blocks.
func Draw(rng *rand.Rand, n Noise, blocks int) Values {
	v := Values{}
	drift := 0.0
	for range blocks {
		drift += n.Drift * rng.NormFloat64()
		for _, arm := range []string{Baseline, Same, Control, Delayed, Slower} {
			if v[arm] == nil {
				v[arm] = map[string][]float64{}
			}
			requests, cpu := n.trial(rng, drift, arm)
			for _, m := range Metrics() {
				v[arm][m] = append(v[arm][m], number(m, requests, cpu))
			}
		}
	}
	return v
}

// trial draws one trial: the response times of its requests, and its CPU.
func (n Noise) trial(rng *rand.Rand, drift float64, arm string) (requests []float64, cpu float64) {
	level := drift + n.Trial*rng.NormFloat64()
	if rng.Float64() < n.Modes {
		level += n.Mode
	}
	if rng.Float64() < n.Outliers {
		level += rng.ExpFloat64() / 4
	}
	factor, delay := 1.0, 0.0
	switch arm {
	case Delayed:
		delay = Delay
	case Slower:
		factor = Factor
	}
	requests = make([]float64, n.Requests)
	noise := rng.NormFloat64()
	fresh := math.Sqrt(1 - n.Memory*n.Memory)
	for i := range requests {
		noise = n.Memory*noise + fresh*rng.NormFloat64()
		took := Base * factor * math.Exp(level+n.Request*noise)
		if rng.Float64() < n.Stalls {
			took *= 10
		}
		requests[i] = took + delay
	}
	cpu = factor * math.Exp(level+n.Trial*rng.NormFloat64())
	slices.Sort(requests)
	return requests, cpu
}

// number is a metric of a trial whose requests are sorted.
func number(name string, requests []float64, cpu float64) float64 {
	rank := func(q float64) float64 { return requests[int(math.Ceil(q*float64(len(requests))))-1] }
	switch name {
	case "response.p50":
		return rank(0.5)
	case "response.p90":
		return rank(0.9)
	case "response.mean":
		return stats.Mean(requests)
	}
	return cpu
}

// Comparison is one arm's metric against the baseline, judged.
type Comparison struct {
	Arm, Metric string
	stats.Comparison
	Floor   float64
	Verdict stats.Verdict
}

// Judge compares arms with the baseline in the first blocks, as reports do: the
// control gives the floor, the other arms' metrics are one family. Where the
// blocks cannot reach 5 % after a correction, there is none.
func Judge(v Values, arms []string, blocks int) ([]Comparison, error) {
	var all []Comparison
	var p []float64
	for _, m := range Metrics() {
		base := v[Baseline][m][:blocks]
		control, err := stats.Paired(base, v[Control][m][:blocks])
		if err != nil {
			return nil, err
		}
		for _, arm := range arms {
			c, err := stats.Paired(base, v[arm][m][:blocks])
			if err != nil {
				return nil, err
			}
			all = append(all, Comparison{Arm: arm, Metric: m, Comparison: c, Floor: stats.Floor(control.Difference)})
			p = append(p, c.P)
		}
	}
	reachable := math.Pow(2, 1-float64(blocks))*float64(len(p)) <= 1-stats.Level
	for i, corrected := range stats.Holm(p) {
		if reachable {
			all[i].P = corrected
		}
		all[i].Verdict = stats.Judge(all[i].Comparison, all[i].Floor, false)
	}
	return all, nil
}

// Narrow is the stop rule: the half-width of every primary ratio's interval is
// under a share of its estimate.
func Narrow(v Values, arms []string, blocks int, width float64) (bool, error) {
	for _, m := range Metrics() {
		for _, arm := range arms {
			r, _, err := stats.PairedRatio(v[Baseline][m][:blocks], v[arm][m][:blocks])
			if err != nil || (r.Hi-r.Lo)/2 > width*r.Value {
				return false, err
			}
		}
	}
	return true, nil
}

// Covers says whether the interval holds what was planted: of a delay the
// difference, of a factor and of nothing the ratio, of latencies as of CPU.
func (c Comparison) Covers() bool {
	switch c.Arm {
	case Delayed:
		truth := Delay
		if c.Metric == "cpu.total" {
			truth = 0
		}
		return c.Difference.Lo <= truth && truth <= c.Difference.Hi
	case Slower:
		return c.Ratio.Lo <= Factor && Factor <= c.Ratio.Hi
	}
	return c.Ratio.Lo <= 1 && 1 <= c.Ratio.Hi
}
