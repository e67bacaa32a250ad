package stats

import "math"

// MSER5 finds where a series has settled: the number of leading values to cut
// off so that the standard error of the rest's mean, over batches of five, is
// smallest (White 1997). settled is false where that point lies in the second
// half: the series was still drifting when it ended. Under 50 values nothing
// can be said, and it counts as settled.
func MSER5(x []float64) (cut int, settled bool) {
	const batch, fewest = 5, 10
	n := len(x) / batch
	if n < fewest {
		return 0, true
	}
	means := make([]float64, n)
	for i := range means {
		means[i] = Mean(x[i*batch : (i+1)*batch])
	}
	best, at := math.Inf(1), 0
	for d := 0; d <= n-fewest/2; d++ {
		rest := means[d:]
		sd := StdDev(rest)
		if score := sd * sd / float64(len(rest)); score < best {
			best, at = score, d
		}
	}
	return at * batch, at <= n/2
}
