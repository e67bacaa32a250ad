package vegeta

import (
	"math"
	"slices"
	"time"
)

// digest estimates quantiles as vegeta's reports do, so that what others have
// printed with them can be found again from the results: a merging t-digest
// (T. Dunning) with a compression of 100, to which vegeta hands latencies of
// successes and failures alike. Between the middles of two clusters it
// interpolates. Exact quantiles are those of LoadResult's histograms.
type digest struct {
	merged, fresh []cluster
	weight        float64 // of the merged ones
	min, max      float64
}

type cluster struct{ mean, weight float64 }

const (
	compression = 100
	maxMerged   = 2 * compression
	maxFresh    = 8 * compression
)

func (d *digest) add(latency time.Duration) {
	v := float64(latency)
	if len(d.fresh) == 0 && len(d.merged) == 0 {
		d.min, d.max = v, v
	}
	d.min, d.max = min(d.min, v), max(d.max, v)
	d.fresh = append(d.fresh, cluster{v, 1})
	if len(d.fresh) > maxFresh || len(d.merged) > maxMerged {
		d.merge()
	}
}

// merge joins neighbours as long as a cluster's share of all values stays
// within one step of the scale, which is finer at both ends.
func (d *digest) merge() {
	if len(d.fresh) == 0 {
		return
	}
	for _, c := range d.fresh {
		d.weight += c.weight
	}
	all := slices.Concat(d.fresh, d.merged)
	slices.SortStableFunc(all, func(a, b cluster) int {
		switch {
		case a.mean < b.mean:
			return -1
		case a.mean > b.mean:
			return 1
		}
		return 0
	})
	out := []cluster{all[0]}
	before := all[0].weight
	limit := d.weight * share(1)
	for _, c := range all[1:] {
		if last := &out[len(out)-1]; before+c.weight <= limit {
			last.weight += c.weight
			last.mean += c.weight * (c.mean - last.mean) / last.weight
		} else {
			step := compression * (math.Asin(2*before/d.weight-1) + math.Pi/2) / math.Pi
			limit = d.weight * share(step+1)
			out = append(out, c)
		}
		before += c.weight
	}
	d.merged, d.fresh = out, d.fresh[:0]
}

// share is the share of values below a step of the scale.
func share(step float64) float64 {
	return (math.Sin(min(step, compression)*math.Pi/compression-math.Pi/2) + 1) / 2
}

func (d *digest) quantile(q float64) time.Duration {
	d.merge()
	if len(d.merged) == 0 {
		return 0
	}
	rank := q * d.weight
	lower, at := d.min, 0.0 // the middle of the cluster before
	var before float64
	for _, c := range d.merged {
		middle := before + c.weight/2
		if rank <= middle {
			v := lower
			if middle > at {
				v += (c.mean - lower) * (rank - at) / (middle - at)
			}
			return time.Duration(v)
		}
		lower, at, before = c.mean, middle, before+c.weight
	}
	return time.Duration(d.max)
}
