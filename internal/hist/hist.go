// Package hist records latencies: a histogram of fixed memory that neither
// allocates nor rounds away tails, merges exactly, and is stored in the
// HdrHistogram V2 format that other tools read.
//
// The layout is HdrHistogram's with a lowest discernible value of 1 ns, three
// significant digits and a highest value of one hour: the relative error is at
// most 1/1024, under 0.1 %.
package hist

import (
	"math"
	"math/bits"
	"time"
)

const (
	subBits   = 11           // log2 of the sub-buckets of a bucket
	subCount  = 1 << subBits // values 0..2047 are exact
	halfCount = subCount / 2 // each further bucket adds half as many
	subMask   = subCount - 1
	buckets   = 32 // 2048 ns << 31 is the first power above an hour
	slots     = (buckets + 1) * halfCount
)

// Highest is the largest value that is told from larger ones; what is above it
// is counted at Highest, and Max keeps the exact value.
const Highest = int64(time.Hour)

// Histogram counts durations in nanoseconds. The zero value is empty and
// ready. It is not safe for concurrent use: give each thread its own and Merge.
type Histogram struct {
	counts   [slots]uint64
	count    uint64
	sum      float64
	min, max int64
}

// index returns the slot of a value from 0 to Highest.
func index(v int64) int {
	bucket := bits.Len64(uint64(v)|subMask) - subBits //nolint:gosec // G115: v is never negative
	return bucket<<(subBits-1) + int(v>>uint(bucket))
}

// bounds returns the smallest and the largest value of a slot.
func bounds(i int) (lo, hi int64) {
	bucket := max(i>>(subBits-1)-1, 0)
	sub := int64(i) - int64(bucket)<<(subBits-1)
	lo = sub << uint(bucket)
	return lo, lo + int64(1)<<uint(bucket) - 1
}

// Record counts one value. Negative values count as zero.
func (h *Histogram) Record(v int64) { h.RecordN(v, 1) }

// RecordN counts n equal values.
func (h *Histogram) RecordN(v int64, n uint64) {
	if n == 0 {
		return
	}
	v = max(v, 0)
	if h.count == 0 || v < h.min {
		h.min = v
	}
	h.max = max(h.max, v)
	h.counts[index(min(v, Highest))] += n
	h.count += n
	h.sum += float64(v) * float64(n)
}

// Merge adds all of o's values. It is exact: the same as having recorded them
// here. (The sum is a float64: exact up to 2^53 ns, 104 days of waiting.)
func (h *Histogram) Merge(o *Histogram) {
	if o == nil || o.count == 0 {
		return
	}
	if h.count == 0 || o.min < h.min {
		h.min = o.min
	}
	h.max = max(h.max, o.max)
	for i, c := range o.counts[:] { // a slice: ranging over the array would copy it
		h.counts[i] += c
	}
	h.count += o.count
	h.sum += o.sum
}

// Reset empties the histogram.
func (h *Histogram) Reset() { *h = Histogram{} }

// Count is the number of values.
func (h *Histogram) Count() uint64 { return h.count }

// Min is the smallest value, exactly; 0 if there is none.
func (h *Histogram) Min() time.Duration { return time.Duration(h.min) }

// Max is the largest value, exactly; 0 if there is none.
func (h *Histogram) Max() time.Duration { return time.Duration(h.max) }

// Mean is the exact mean; 0 if there is no value.
func (h *Histogram) Mean() time.Duration {
	if h.count == 0 {
		return 0
	}
	return time.Duration(math.Round(h.sum / float64(h.count)))
}

// Quantile returns the value below or at which the share q (0 to 1) of the
// values lies: the smallest recorded value v with count(<= v) >= ceil(q n), to
// the histogram's resolution (the middle of its slot, kept within Min and Max).
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.count == 0 {
		return 0
	}
	// The last bits are taken off first: 0.07 * 100 is a little over 7.
	rank := uint64(max(math.Ceil(q*float64(h.count)*(1-4e-16)), 1))
	rank = min(rank, h.count)
	var seen uint64
	for i := range h.counts {
		seen += h.counts[i]
		if seen >= rank {
			lo, hi := bounds(i)
			return time.Duration(min(max((lo+hi)/2, h.min), h.max))
		}
	}
	return h.Max()
}

// Above is the number of values in slots entirely above v: those that are
// larger by more than the resolution.
func (h *Histogram) Above(v time.Duration) uint64 {
	var n uint64
	for i := index(min(max(int64(v), 0), Highest)) + 1; i < slots; i++ {
		n += h.counts[i]
	}
	return n
}

// Bucket is a run of equal values as Each reports it.
type Bucket struct {
	Low, High time.Duration
	Count     uint64
}

// Each calls yield for every slot that holds values, ascending, until it
// returns false. It is an iter.Seq[Bucket].
func (h *Histogram) Each(yield func(Bucket) bool) {
	for i, c := range h.counts[:] {
		if c == 0 {
			continue
		}
		lo, hi := bounds(i)
		if !yield(Bucket{time.Duration(lo), time.Duration(hi), c}) {
			return
		}
	}
}
