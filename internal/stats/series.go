package stats

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/windtunnel/windtunnel/internal/hist"
)

// MSER5 finds where a series has settled: the number of leading values to cut
// off so that the standard error of the rest's mean, over batches of five, is
// smallest (White 1997). settled is false where that point lies in the second
// half: the series was still drifting when it ended. Under 50 values nothing
// can be said, and it counts as settled.
func MSER5(x []float64) (cut int, settled bool) {
	const batch = 5
	n := len(x) / batch
	if n < 10 {
		return 0, true
	}
	means := make([]float64, n)
	for i := range means {
		for _, v := range x[i*batch : (i+1)*batch] {
			means[i] += v / batch
		}
	}
	best, at := math.Inf(1), 0
	for d := 0; d <= n-5; d++ {
		rest := means[d:]
		sd := StdDev(rest)
		if score := sd * sd / float64(len(rest)); score < best {
			best, at = score, d
		}
	}
	return at * batch, at <= n/2
}

// PooledQuantile is a quantile of all trials' values together, with the
// percentile interval of 2,000 bootstrap samples over trials: for quantiles
// that one trial alone has too few samples for.
func PooledQuantile(hists []*hist.Histogram, q float64, seed uint64) Estimate {
	const samples = 2000
	e := Estimate{N: len(hists), Method: "pooled over blocks, bootstrap over blocks"}
	if len(hists) == 0 {
		return e
	}
	rng := rand.New(rand.NewPCG(seed, uint64(len(hists))))
	tails := newTails(hists)
	all := make([]int, len(hists))
	for i := range all {
		all[i] = 1
	}
	e.Value = tails.quantile(all, q)
	values := make([]float64, samples)
	for s := range values {
		clear(all)
		for range hists {
			all[rng.IntN(len(hists))]++
		}
		values[s] = tails.quantile(all, q)
	}
	slices.Sort(values)
	e.Lo, e.Hi = values[int(0.025*samples)], values[int(0.975*samples)-1]
	return e
}

// tails is several histograms on one common list of values, so that weighted
// quantiles are cheap.
type tails struct {
	values []float64
	counts [][]uint64 // by value, then by histogram
	total  []uint64
}

func newTails(hists []*hist.Histogram) tails {
	index := map[float64]int{}
	var t tails
	for i, h := range hists {
		for b := range h.Each {
			v := ((b.Low + b.High) / 2).Seconds()
			at, ok := index[v]
			if !ok {
				at = len(t.values)
				index[v] = at
				t.values = append(t.values, v)
				t.counts = append(t.counts, make([]uint64, len(hists)))
			}
			t.counts[at][i] = b.Count
		}
		t.total = append(t.total, h.Count())
	}
	order := make([]int, len(t.values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmpFloat(t.values[a], t.values[b]) })
	sorted := tails{total: t.total}
	for _, i := range order {
		sorted.values, sorted.counts = append(sorted.values, t.values[i]), append(sorted.counts, t.counts[i])
	}
	return sorted
}

// quantile counts histogram i weight[i] times.
func (t tails) quantile(weight []int, q float64) float64 {
	var total uint64
	for i, w := range weight {
		total += uint64(w) * t.total[i]
	}
	beyond := total - min(total, uint64(math.Ceil(q*float64(total))))
	var seen uint64
	for v := len(t.values) - 1; v >= 0; v-- {
		for i, w := range weight {
			seen += uint64(w) * t.counts[v][i]
		}
		if seen > beyond {
			return t.values[v]
		}
	}
	return 0
}
