package stats

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/windtunnel/windtunnel/internal/hist"
)

// PooledQuantile is a quantile in seconds of all trials' values together, with
// a percentile interval of a bootstrap over trials: for quantiles that one trial
// alone has too few samples for. Ask QuantileAllowed of the sum first. With few
// trials the plain percentile interval is too narrow; it is widened as Student's
// t is against the normal distribution (Hesterberg 2015, expanded percentile).
// With one trial there is no interval: Lo and Hi are the value.
func PooledQuantile(hists []*hist.Histogram, q float64, seed uint64) Estimate {
	e := Estimate{Level: Level, N: len(hists), Method: "pooled over blocks, expanded percentile bootstrap over blocks"}
	if len(hists) == 0 {
		return e
	}
	p := newPool(hists)
	weight := make([]uint64, len(hists))
	for i := range weight {
		weight[i] = 1
	}
	e.Value = p.quantile(weight, q)
	e.Lo, e.Hi = e.Value, e.Value
	if len(hists) == 1 {
		return e
	}
	rng := generator(seed)
	values := make([]float64, Resamples)
	for s := range values {
		clear(weight)
		for range hists {
			weight[rng.IntN(len(hists))]++
		}
		values[s] = p.quantile(weight, q)
	}
	slices.Sort(values)
	n := float64(len(hists))
	tail := normalCDF(StudentQuantile((1-Level)/2, len(hists)-1) * math.Sqrt(n/(n-1)))
	e.Lo, e.Hi = percentile(values, tail), percentile(values, 1-tail)
	return e
}

// pool is several histograms on one list of values, so that quantiles of any
// mixture of them are a binary search.
type pool struct {
	values []float64  // seconds, ascending
	upTo   [][]uint64 // by histogram: how many of its values are <= values[i]
	totals []uint64
}

func newPool(hists []*hist.Histogram) pool {
	counts := map[hist.Bucket][]uint64{} // by bucket, its Count left out
	for i, h := range hists {
		for b := range h.Each {
			n := b.Count
			b.Count = 0
			if counts[b] == nil {
				counts[b] = make([]uint64, len(hists))
			}
			counts[b][i] = n
		}
	}
	buckets := make([]hist.Bucket, 0, len(counts))
	for b := range counts {
		buckets = append(buckets, b)
	}
	slices.SortFunc(buckets, func(a, b hist.Bucket) int { return cmp.Compare(a.Low, b.Low) })
	p := pool{values: make([]float64, len(buckets)), upTo: make([][]uint64, len(hists)), totals: make([]uint64, len(hists))}
	for i := range hists {
		p.upTo[i] = make([]uint64, len(buckets))
		for at, b := range buckets {
			p.values[at] = ((b.Low + b.High) / 2).Seconds()
			p.totals[i] += counts[b][i]
			p.upTo[i][at] = p.totals[i]
		}
	}
	return p
}

// quantile counts histogram i weight[i] times; 0 if that is no value at all.
func (p pool) quantile(weight []uint64, q float64) float64 {
	var total uint64
	for i, w := range weight {
		total += w * p.totals[i]
	}
	if total == 0 {
		return 0
	}
	// As in hist.Histogram.Quantile.
	rank := min(uint64(max(math.Ceil(q*float64(total)*(1-4e-16)), 1)), total)
	return p.values[sort.Search(len(p.values), func(at int) bool {
		var n uint64
		for i, w := range weight {
			n += w * p.upTo[i][at]
		}
		return n >= rank
	})]
}
