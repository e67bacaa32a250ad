package stats

import "math"

// MinimumDetectable is the smallest difference that so many pairs, whose
// differences have the standard deviation sd, show with 80 % probability at the
// 5 % level: (t_.975 + t_.80) sd / sqrt(blocks). Infinite under two blocks.
func MinimumDetectable(sd float64, blocks int) float64 {
	return MinimumDetectableAt(sd, blocks, 1-Level)
}

// MinimumDetectableAt is MinimumDetectable at another level than 5 %: that of
// one comparison among many.
func MinimumDetectableAt(sd float64, blocks int, alpha float64) float64 {
	if blocks < 2 {
		return math.Inf(1)
	}
	df := blocks - 1
	return (StudentQuantile(1-alpha/2, df) + StudentQuantile(0.80, df)) * sd / math.Sqrt(float64(blocks))
}

// BlocksFor is the smallest number of blocks, from fewest to most, of which
// MinimumDetectableAt is at most the effect and signed ranks can reach alpha at
// all. ok is false if most are not enough.
func BlocksFor(sd, effect, alpha float64, fewest, most int) (blocks int, ok bool) {
	for n := max(2, fewest); n <= most; n++ {
		if math.Pow(2, 1-float64(n)) <= alpha && MinimumDetectableAt(sd, n, alpha) <= effect {
			return n, true
		}
	}
	return most, false
}

// NormalQuantile inverts the standard normal distribution.
func NormalQuantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

func normalCDF(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }

// StudentQuantile inverts Student's t distribution with df >= 1 degrees of
// freedom, by bisection.
func StudentQuantile(p float64, df int) float64 {
	switch {
	case math.IsNaN(p) || p < 0 || p > 1 || df < 1:
		return math.NaN()
	case p == 0 || p == 1:
		return math.Inf(int(2*p - 1))
	case p < 0.5:
		return -StudentQuantile(1-p, df)
	}
	lo, hi := 0.0, 1.0
	for studentCDF(hi, df) < p && hi < 1e300 {
		hi *= 2
	}
	for mid := hi / 2; lo < mid && mid < hi; mid = lo + (hi-lo)/2 {
		if studentCDF(mid, df) < p {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// studentCDF is Student's t distribution for whole degrees of freedom, by its
// finite trigonometric series (Abramowitz and Stegun 26.7.3 and 26.7.4).
func studentCDF(t float64, df int) float64 {
	theta := math.Atan(t / math.Sqrt(float64(df)))
	sin, cos := math.Sincos(theta)
	first, term := 2, 1.0
	if df%2 == 1 {
		first, term = 3, cos
	}
	sum := 0.0
	for k := first; k <= df; k += 2 {
		sum += term
		term *= cos * cos * float64(k-1) / float64(k)
	}
	if df%2 == 1 {
		return 0.5 + (theta+sin*sum)/math.Pi
	}
	return 0.5 + sin*sum/2
}
