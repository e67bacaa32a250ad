// Package stats judges repeated trials: paired estimates with intervals, the
// noise floor of an A/A control, equivalence, corrections for many comparisons.
// It computes and nothing else; what is random is fixed by a seed.
// docs/method.md says what is used when, with sources.
package stats

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Level is the confidence level of all intervals unless another is named.
const Level = 0.95

// Estimate is a number with an interval. N counts the trials, pairs or, within
// one run, values that it rests on. The interval covers the true value with at
// least Level; Method names the rule that chose it.
type Estimate struct {
	Value  float64
	Lo, Hi float64
	Level  float64
	N      int
	Method string
}

// exp turns an estimate of a log ratio into one of the ratio.
func (e Estimate) exp(method string) Estimate {
	e.Value, e.Lo, e.Hi, e.Method = math.Exp(e.Value), math.Exp(e.Lo), math.Exp(e.Hi), method
	return e
}

// TooFewError says that there are not enough values for what was asked.
type TooFewError struct {
	What       string // what needs more, e.g. "an interval of 95 %"
	Need, Have int
	Of         string // "blocks" or "points in time"
}

// Error says what needs how many, and how many there are.
func (e *TooFewError) Error() string {
	return fmt.Sprintf("%s needs %d %s: there are %d", e.What, e.Need, e.Of, e.Have)
}

// NotPositiveError says why there is no ratio: a block, counted from 0, in which
// an arm's value is zero or negative.
type NotPositiveError struct {
	Block             int
	Baseline, Variant float64
}

// Error names the pair and its values.
func (e *NotPositiveError) Error() string {
	return fmt.Sprintf("no ratio: the pair at %d is %g against %g, and both must be positive", e.Block, e.Variant, e.Baseline)
}

// What callers may branch on, beside the types above.
var (
	// ErrUnpaired says that the two arms do not have the same number of values.
	ErrUnpaired = errors.New("the two arms are not paired")
	// ErrNotFinite says that a value is NaN or infinite.
	ErrNotFinite = errors.New("a value is not a finite number")
)

func finite(x []float64) error {
	for i, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%w: %v at %d", ErrNotFinite, v, i)
		}
	}
	return nil
}

// Mean is the arithmetic mean; NaN if there is no value.
func Mean(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// StdDev is the sample standard deviation; 0 for fewer than two values.
func StdDev(x []float64) float64 {
	if len(x) < 2 {
		return 0
	}
	mean, sum := Mean(x), 0.0
	for _, v := range x {
		sum += (v - mean) * (v - mean)
	}
	return math.Sqrt(sum / float64(len(x)-1))
}

func median(sorted []float64) float64 {
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Holm corrects the p-values of one family, in their order (Holm 1979): with
// what it returns compared to 5 %, the chance of any false positive in the
// family is at most 5 %.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	out := make([]float64, len(p))
	worst := 0.0
	for rank, i := range order {
		worst = max(worst, min(1, p[i]*float64(len(p)-rank)))
		out[i] = worst
	}
	return out
}

// RuleOfThree is the lower 95 % bound of a success share when all n succeeded:
// 1 - 3/n (Hanley and Lippman-Hand 1983); 0 under three.
func RuleOfThree(n uint64) float64 {
	if n < 3 {
		return 0
	}
	return 1 - 3/float64(n)
}

// QuantileAllowed says whether n samples carry the q-quantile: ten beyond it,
// which is 1,000 for p99 and 10,000 for p99.9.
func QuantileAllowed(n uint64, q float64) bool {
	return float64(n)*(1-q) >= 10-1e-6 // 1-q is not exact
}
