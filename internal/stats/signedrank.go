package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

const (
	methodSignedRank = "Hodges-Lehmann, Wilcoxon signed ranks"
	// exactUpTo is the largest sample for which the distribution of signed ranks
	// is computed exactly; beyond it, the normal approximation is good.
	exactUpTo = 50
)

// HodgesLehmann is the median of all pairwise (Walsh) averages: the estimate
// that belongs to Wilcoxon's signed ranks. One outlier hardly moves it. NaN if
// there is no value.
func HodgesLehmann(x []float64) float64 { return median(walsh(x)) }

// SignedRank estimates the centre of x by Hodges-Lehmann, with the interval
// from Wilcoxon's signed-rank distribution: exact up to 50 values. It assumes
// that values scatter symmetrically, which differences of two like trials do.
// Level 0.95 needs six values: with fewer, the error is a *TooFewError.
func SignedRank(x []float64, level float64) (Estimate, error) {
	if err := finite(x); err != nil {
		return Estimate{}, err
	}
	k := criticalRank(len(x), 1-level)
	if k == 0 {
		return Estimate{}, &TooFewError{fmt.Sprintf("an interval of %.4g %%", level*100), needed(level), len(x), "blocks"}
	}
	w := walsh(x)
	return Estimate{Value: median(w), Lo: w[k-1], Hi: w[len(w)-k], Level: level, N: len(x), Method: methodSignedRank}, nil
}

// needed is the smallest sample that gives an interval of the level: the one in
// which the smallest possible p-value, 2/2^n, is under 1-level.
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

// rankSumCDF returns P(S <= s) for s = 0 to the sum of the ranks, where S is the
// sum of a random half of them: every rank is in or out with probability 1/2.
func rankSumCDF(ranks []int) []float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	p := make([]float64, total+1)
	p[0] = 1
	for _, r := range ranks {
		for s := total; s >= 0; s-- {
			p[s] /= 2
			if s >= r {
				p[s] += p[s-r] / 2
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
	if n > exactUpTo {
		mean, sd := signedRankMoments(n)
		return max(int(math.Floor(mean-0.5+sd*NormalQuantile(alpha/2)))+1, 0)
	}
	ranks := make([]int, n)
	for i := range ranks {
		ranks[i] = i + 1
	}
	k := 0
	for _, p := range rankSumCDF(ranks) {
		if p > alpha/2*(1+1e-12) {
			break
		}
		k++
	}
	return k
}

// signedRankMoments are those of the rank sum of n values without ties.
func signedRankMoments(n int) (mean, sd float64) {
	f := float64(n)
	return f * (f + 1) / 4, math.Sqrt(f * (f + 1) * (2*f + 1) / 24)
}

// SignedRankP is the two-sided p-value of Wilcoxon's signed-rank test of
// symmetry about zero. Zeros say nothing about the sign and are dropped; with
// nothing left p is 1. Equal magnitudes share the mean of their ranks. Up to 50
// values p is exact, with ties too (the distribution is that of the shared
// ranks); beyond, it is the normal approximation with continuity and tie
// corrections. For small samples with ties R's wilcox.test approximates as well,
// and can give less than the smallest p that is possible.
func SignedRankP(x []float64) float64 {
	d := slices.DeleteFunc(slices.Clone(x), func(v float64) bool { return v == 0 })
	if len(d) == 0 {
		return 1
	}
	ranks, plus, ties := signedRanks(d)
	if len(d) > exactUpTo {
		mean, sd := signedRankMoments(len(d))
		sd = math.Sqrt(sd*sd - ties/48)
		z := max(0, math.Abs(float64(plus)/2-mean)-0.5) / sd
		return math.Erfc(z / math.Sqrt2)
	}
	cdf := rankSumCDF(ranks)
	return min(1, 2*cdf[min(plus, len(cdf)-1-plus)])
}

// signedRanks returns twice the ranks of the magnitudes, so that shared ranks
// are whole; twice the rank sum of the positive values; and the sum of t^3-t
// over groups of t equal magnitudes. It sorts d.
func signedRanks(d []float64) (ranks []int, plus int, ties float64) {
	slices.SortFunc(d, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	for i := 0; i < len(d); {
		j := i
		for j < len(d) && math.Abs(d[j]) == math.Abs(d[i]) {
			j++
		}
		t := float64(j - i)
		ties += t*t*t - t
		for rank := i + 1 + j; i < j; i++ {
			ranks = append(ranks, rank)
			if d[i] > 0 {
				plus += rank
			}
		}
	}
	return ranks, plus, ties
}
