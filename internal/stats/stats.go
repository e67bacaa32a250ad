// Package stats judges repeated trials: paired estimates with intervals, the
// noise floor of an A/A control, corrections for many comparisons. It computes
// and nothing else. docs/method.md says what is used when, with sources.
package stats

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Level is the confidence level of all intervals unless another is named.
const Level = 0.95

// Estimate is a number with an interval. N counts the trials or pairs that it
// rests on; Method names the rule that chose the interval.
type Estimate struct {
	Value  float64
	Lo, Hi float64
	N      int
	Method string
}

// ErrTooFew says that there are not enough blocks for an interval.
var ErrTooFew = errors.New("too few blocks")

// HodgesLehmann is the median of all pairwise (Walsh) averages: the estimate
// that belongs to Wilcoxon's signed ranks. One outlier hardly moves it.
func HodgesLehmann(x []float64) float64 { return median(walsh(x)) }

// SignedRank estimates the centre of x by Hodges-Lehmann, with the exact
// interval from Wilcoxon's signed-rank distribution. Level 0.95 needs six
// values; with fewer the error wraps ErrTooFew and says how many are needed.
func SignedRank(x []float64, level float64) (Estimate, error) {
	n := len(x)
	k := criticalRank(n, 1-level)
	if k == 0 {
		return Estimate{}, fmt.Errorf("%w: %d, an interval of %.0f %% needs %d", ErrTooFew, n, level*100, needed(level))
	}
	w := walsh(x)
	return Estimate{
		Value: median(w), Lo: w[k-1], Hi: w[len(w)-k], N: n,
		Method: "Hodges-Lehmann, Wilcoxon signed ranks",
	}, nil
}

// needed is the smallest sample that gives an interval of the level.
func needed(level float64) int {
	return int(math.Ceil(1 - math.Log2(1-level)))
}

// walsh returns the sorted averages of all pairs, each value with itself too.
func walsh(x []float64) []float64 {
	w := make([]float64, 0, len(x)*(len(x)+1)/2)
	for i := range x {
		for j := i; j < len(x); j++ {
			w = append(w, (x[i]+x[j])/2)
		}
	}
	slices.Sort(w)
	return w
}

func median(sorted []float64) float64 {
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// signedRankCDF returns P(W+ <= w) for w = 0..n(n+1)/2 under the hypothesis of
// symmetry about zero, by counting subsets of the ranks 1..n.
func signedRankCDF(n int) []float64 {
	total := n * (n + 1) / 2
	p := make([]float64, total+1)
	p[0] = 1
	for rank := 1; rank <= n; rank++ {
		for s := total; s >= 0; s-- {
			p[s] /= 2
			if s >= rank {
				p[s] += p[s-rank] / 2
			}
		}
	}
	for s := 1; s <= total; s++ {
		p[s] += p[s-1]
	}
	return p
}

// criticalRank is the largest k for which the interval from the k-th smallest
// to the k-th largest Walsh average covers with at least 1-alpha; 0 if none.
func criticalRank(n int, alpha float64) int {
	if n == 0 {
		return 0
	}
	k := 0
	for w, p := range signedRankCDF(n) {
		if p > alpha/2*(1+1e-12) {
			break
		}
		k = w + 1
	}
	return k
}

// SignedRankP is the two-sided p-value of Wilcoxon's signed-rank test of
// symmetry about zero: exact up to 50 values without ties, else by the normal
// approximation with continuity and tie corrections. Zeros are dropped; with
// nothing left p is 1.
func SignedRankP(x []float64) float64 {
	d := slices.DeleteFunc(slices.Clone(x), func(v float64) bool { return v == 0 })
	n := len(d)
	if n == 0 {
		return 1
	}
	slices.SortFunc(d, func(a, b float64) int { return cmpAbs(a, b) })
	var plus, ties float64
	for i := 0; i < n; {
		j := i
		for j < n && math.Abs(d[j]) == math.Abs(d[i]) {
			j++
		}
		rank := float64(i+1+j) / 2
		if t := float64(j - i); t > 1 {
			ties += t*t*t - t
		}
		for ; i < j; i++ {
			if d[i] > 0 {
				plus += rank
			}
		}
	}
	total := float64(n*(n+1)) / 2
	if n <= 50 && ties == 0 {
		return min(1, 2*signedRankCDF(n)[int(min(plus, total-plus))])
	}
	sd := math.Sqrt(float64(n*(n+1)*(2*n+1))/24 - ties/48)
	if sd == 0 {
		return 1
	}
	z := max(0, math.Abs(plus-total/2)-0.5) / sd
	return math.Erfc(z / math.Sqrt2)
}

func cmpAbs(a, b float64) int {
	switch a, b = math.Abs(a), math.Abs(b); {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Holm corrects the p-values of one family, in their order (Holm 1979).
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmpFloat(p[a], p[b]) })
	out := make([]float64, len(p))
	worst := 0.0
	for rank, i := range order {
		worst = max(worst, min(1, p[i]*float64(len(p)-rank)))
		out[i] = worst
	}
	return out
}

func cmpFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// RuleOfThree is the lower 95 % bound of a success share when all n succeeded.
func RuleOfThree(n uint64) float64 {
	if n < 3 {
		return 0
	}
	return 1 - 3/float64(n)
}

// QuantileAllowed says whether n samples carry the q-quantile: ten beyond it.
func QuantileAllowed(n uint64, q float64) bool {
	return float64(n)*(1-q) >= 10-1e-6
}
