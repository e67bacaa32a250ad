package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

const (
	methodRankSum = "Hodges-Lehmann of two samples, Mann-Whitney"
	// exactRankSum is the largest number of values, of both samples together, for
	// which the distribution of rank sums is computed exactly.
	exactRankSum = 50
)

// Unpaired compares two independent samples, such as the blocks of two runs:
// Hodges-Lehmann's shift, the median of all differences between a value of one
// and a value of the other, with the interval and p-value of Mann and Whitney's
// test. It assumes that the samples differ by a shift, not that they are normal.
// The ratio is the same of the logarithms. 95 % need four values each, or more
// where one has fewer: else the error is a *TooFewError.
func Unpaired(a, b []float64) (Comparison, error) {
	d, err := shift(a, b, Level)
	if err != nil {
		return Comparison{}, err
	}
	c := Comparison{Difference: d, P: RankSumP(a, b), Detectable: detectableShift(a, b)}
	c.Ratio, c.NoRatio = shiftRatio(a, b)
	return c, nil
}

func shiftRatio(a, b []float64) (Estimate, error) {
	la, lb, err := logs(a, b)
	if err != nil {
		return Estimate{}, err
	}
	r, err := shift(la, lb, Level)
	if err != nil {
		return Estimate{}, err
	}
	return r.exp(r.Method + " of logarithms"), nil
}

func logs(a, b []float64) (la, lb []float64, err error) {
	of := func(x []float64) []float64 {
		out := make([]float64, len(x))
		for i, v := range x {
			if v <= 0 && err == nil {
				err = fmt.Errorf("no ratio: a value is %g, and all must be positive", v)
			}
			out[i] = math.Log(v)
		}
		return out
	}
	la, lb = of(a), of(b)
	return la, lb, err
}

func shift(a, b []float64, level float64) (Estimate, error) {
	if err := finite(slices.Concat(a, b)); err != nil {
		return Estimate{}, err
	}
	k := criticalRankSum(len(a), len(b), 1-level)
	if k == 0 {
		return Estimate{}, &TooFewError{fmt.Sprintf("an unpaired interval of %.4g %%", level*100), 4, min(len(a), len(b)), "blocks of each run"}
	}
	d := make([]float64, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			d = append(d, y-x)
		}
	}
	slices.Sort(d)
	return Estimate{Value: median(d), Lo: d[k-1], Hi: d[len(d)-k], Level: level, N: len(a) + len(b), Method: methodRankSum}, nil
}

// criticalRankSum is the largest k for which P(U < k) <= alpha/2: the interval
// runs from the k-th smallest difference to the k-th largest. 0: there is none.
func criticalRankSum(n, m int, alpha float64) int {
	if n == 0 || m == 0 {
		return 0
	}
	if n+m > exactRankSum {
		mean, sd := float64(n*m)/2, math.Sqrt(float64(n*m*(n+m+1))/12)
		return max(0, int(math.Floor(mean+0.5+NormalQuantile(alpha/2)*sd)))
	}
	ranks := make([]int, n+m)
	for i := range ranks {
		ranks[i] = i + 1
	}
	least := n * (n + 1) / 2
	sum := 0.0
	for k, p := range rankSumDistribution(ranks, n)[least:] {
		if sum += p; sum > alpha/2*(1+1e-9) {
			return k
		}
	}
	return 0
}

// RankSumP is Mann and Whitney's two-sided p-value that both samples are of one
// distribution: exact up to 50 values together, with ties too.
func RankSumP(a, b []float64) float64 {
	n, m := len(a), len(b)
	if n == 0 || m == 0 {
		return 1
	}
	ranks, of, ties := sharedRanks(a, b)
	size := float64(n + m)
	mean := float64(n) * (size + 1) // of doubled ranks
	if n+m > exactRankSum {
		variance := float64(n*m) / 12 * (size + 1 - ties/(size*(size-1)))
		if variance <= 0 {
			return 1
		}
		return math.Erfc(max(0, math.Abs(float64(of)-mean)/2-0.5) / math.Sqrt(2*variance))
	}
	p := 0.0
	for sum, share := range rankSumDistribution(ranks, n) {
		if math.Abs(float64(sum)-mean) >= math.Abs(float64(of)-mean) {
			p += share
		}
	}
	return min(1, p)
}

// sharedRanks are twice the ranks of all values, so that shared ones are whole;
// the sum of the first sample's; and the sum of t^3-t over groups of t equal ones.
func sharedRanks(a, b []float64) (ranks []int, ofA int, ties float64) {
	type value struct {
		v     float64
		first bool
	}
	all := make([]value, 0, len(a)+len(b))
	for _, v := range a {
		all = append(all, value{v, true})
	}
	for _, v := range b {
		all = append(all, value{v, false})
	}
	slices.SortFunc(all, func(x, y value) int { return cmp.Compare(x.v, y.v) })
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j].v == all[i].v {
			j++
		}
		t := float64(j - i)
		ties += t*t*t - t
		for rank := i + 1 + j; i < j; i++ {
			ranks = append(ranks, rank)
			if all[i].first {
				ofA += rank
			}
		}
	}
	return ranks, ofA, ties
}

// rankSumDistribution is the chance of each sum of n ranks, drawn at random.
func rankSumDistribution(ranks []int, n int) []float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	ways := make([][]float64, n+1) // by how many were drawn, by their sum
	for i := range ways {
		ways[i] = make([]float64, total+1)
	}
	ways[0][0] = 1
	for i, r := range ranks {
		for drawn := min(i+1, n); drawn >= 1; drawn-- {
			for sum := total; sum >= r; sum-- {
				ways[drawn][sum] += ways[drawn-1][sum-r]
			}
		}
	}
	all := 0.0
	for _, w := range ways[n] {
		all += w
	}
	for i := range ways[n] {
		ways[n][i] /= all
	}
	return ways[n]
}

// SmallestRankSumP is what two samples give that do not overlap: 2 over the
// number of ways to choose one of them.
func SmallestRankSumP(n, m int) float64 {
	choices := 1.0
	for i := 1; i <= n; i++ {
		choices *= float64(m+i) / float64(i)
	}
	return min(1, 2/choices)
}

// detectableShift is MinimumDetectable of two samples: with the standard error
// of a difference of two means.
func detectableShift(a, b []float64) float64 {
	n, m := len(a), len(b)
	if n < 2 || m < 2 {
		return math.Inf(1)
	}
	sa, sb := StdDev(a), StdDev(b)
	df := n + m - 2
	return (StudentQuantile(0.975, df) + StudentQuantile(0.80, df)) * math.Sqrt(sa*sa/float64(n)+sb*sb/float64(m))
}
