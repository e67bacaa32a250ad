package stats

import (
	"errors"
	"math"
)

// Comparison is a variant against the baseline, paired by block.
type Comparison struct {
	Difference Estimate // variant - baseline
	Ratio      Estimate // variant / baseline; N is 0 where values are not positive
	P          float64  // two-sided, of the differences
	// Detectable is the smallest true difference that these blocks would have
	// shown with 80 % probability, from the differences' own scatter.
	Detectable float64
}

// ErrUnpaired says that the two arms do not have the same number of values.
var ErrUnpaired = errors.New("the two arms are not paired")

// Paired compares values that stand at the same index because they come from
// the same block. Ratios are estimated on the log scale.
func Paired(baseline, variant []float64) (Comparison, error) {
	if len(baseline) != len(variant) {
		return Comparison{}, ErrUnpaired
	}
	diff := make([]float64, len(baseline))
	logs := make([]float64, len(baseline))
	positive := true
	for i := range baseline {
		diff[i] = variant[i] - baseline[i]
		positive = positive && baseline[i] > 0 && variant[i] > 0
		logs[i] = math.Log(variant[i] / baseline[i])
	}
	d, err := SignedRank(diff, Level)
	if err != nil {
		return Comparison{}, err
	}
	c := Comparison{Difference: d, P: SignedRankP(diff), Detectable: Detectable(StdDev(diff), len(diff))}
	if positive {
		r, err := SignedRank(logs, Level)
		if err != nil {
			return Comparison{}, err
		}
		c.Ratio = Estimate{math.Exp(r.Value), math.Exp(r.Lo), math.Exp(r.Hi), r.N, r.Method + " of log ratios"}
	}
	return c, nil
}

// Floor is the noise floor that an A/A control shows: the wider end of its
// interval, as an absolute difference.
func Floor(control Estimate) float64 {
	return max(math.Abs(control.Lo), math.Abs(control.Hi))
}

// Shown says whether a difference is one: its interval does not hold zero and
// the estimate lies outside the noise floor.
func Shown(difference Estimate, floor float64) bool {
	return (difference.Lo > 0 || difference.Hi < 0) && math.Abs(difference.Value) > floor
}

// Equivalent claims equivalence by two one-sided signed-rank tests at 5 %: the
// 90 % interval of the ratio lies inside [1-margin, 1/(1-margin)].
func Equivalent(baseline, variant []float64, margin float64) bool {
	logs := make([]float64, 0, len(baseline))
	for i := range baseline {
		if i >= len(variant) || baseline[i] <= 0 || variant[i] <= 0 {
			return false
		}
		logs = append(logs, math.Log(variant[i]/baseline[i]))
	}
	r, err := SignedRank(logs, 0.90)
	limit := -math.Log(1 - margin)
	return err == nil && margin > 0 && margin < 1 && r.Lo > -limit && r.Hi < limit
}

// StdDev is the sample standard deviation.
func StdDev(x []float64) float64 {
	if len(x) < 2 {
		return 0
	}
	var mean, sum float64
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		sum += (v - mean) * (v - mean)
	}
	return math.Sqrt(sum / float64(len(x)-1))
}

// Detectable is the smallest difference that n pairs with this scatter show
// with 80 % probability at the 5 % level: (t_.975 + t_.80) sd / sqrt(n).
func Detectable(sd float64, n int) float64 {
	if n < 2 {
		return math.Inf(1)
	}
	return (tQuantile(0.975, n-1) + tQuantile(0.80, n-1)) * sd / math.Sqrt(float64(n))
}

// tQuantile inverts Student's t distribution by bisection on its CDF.
func tQuantile(p float64, df int) float64 {
	lo, hi := -100.0, 100.0
	for range 200 {
		mid := (lo + hi) / 2
		if tCDF(mid, df) < p {
			lo = mid
		} else {
			hi = mid
		}
	}
	return (lo + hi) / 2
}

// tCDF is Student's t distribution for whole degrees of freedom, by its finite
// trigonometric series (Abramowitz and Stegun 26.7.3 and 26.7.4).
func tCDF(t float64, df int) float64 {
	theta := math.Atan(t / math.Sqrt(float64(df)))
	sin, cos := math.Sincos(theta)
	var a float64
	if df%2 == 1 {
		term := cos
		for k := 3; k <= df; k += 2 {
			a += term
			term *= cos * cos * float64(k-1) / float64(k)
		}
		a = 2 / math.Pi * (theta + sin*a)
	} else {
		term := 1.0
		for k := 2; k <= df; k += 2 {
			a += term
			term *= cos * cos * float64(k-1) / float64(k)
		}
		a *= sin
	}
	return 0.5 + a/2
}
