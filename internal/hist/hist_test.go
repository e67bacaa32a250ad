package hist

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// latencies returns n values over the whole range, log-uniform, with clusters.
func latencies(seed uint64, n int) []int64 {
	rng := rand.New(rand.NewPCG(seed, 1))
	v := make([]int64, n)
	for i := range v {
		switch rng.IntN(10) {
		case 0:
			v[i] = rng.Int64N(2 * subCount)
		case 1:
			v[i] = 1_000_000
		default:
			v[i] = int64(math.Exp(rng.Float64() * math.Log(float64(Highest))))
		}
	}
	return v
}

func of(values ...int64) *Histogram {
	h := &Histogram{}
	for _, v := range values {
		h.Record(v)
	}
	return h
}

func TestSlotsCoverTheRangeWithoutGaps(t *testing.T) {
	t.Parallel()
	next := int64(0)
	for i := range slots {
		lo, hi := bounds(i)
		if lo != next {
			t.Fatalf("slot %d starts at %d, want %d", i, lo, next)
		}
		for _, v := range []int64{lo, hi} {
			if v <= Highest && index(v) != i {
				t.Fatalf("index(%d) = %d, want %d", v, index(v), i)
			}
		}
		if float64(hi-lo) > float64(lo)/1024 {
			t.Fatalf("slot %d, %d to %d, is wider than 1/1024", i, lo, hi)
		}
		next = hi + 1
	}
	if next <= Highest {
		t.Fatalf("the last slot ends at %d, below an hour", next-1)
	}
}

func TestRecord(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		values         []int64
		min, max, mean time.Duration
		p50, p99       time.Duration
	}{
		{name: "nothing"},
		{name: "one", values: []int64{5}, min: 5, max: 5, mean: 5, p50: 5, p99: 5},
		{name: "negative counts as zero", values: []int64{-5, 4}, max: 4, mean: 2, p99: 4},
		{name: "the median of four is the second", values: []int64{40, 10, 30, 20}, min: 10, max: 40, mean: 25, p50: 20, p99: 40},
		{name: "over an hour keeps the exact maximum", values: []int64{1, 2 * Highest}, min: 1, max: 2 * time.Hour, mean: time.Hour + 1, p50: 1, p99: 1_099_511_627_775*3 + 300_000_000_000},
		{name: "equal large values", values: []int64{123_456_789, 123_456_789}, min: 123_456_789, max: 123_456_789, mean: 123_456_789, p50: 123_456_789, p99: 123_456_789},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := of(tt.values...)
			if got, want := h.Count(), uint64(len(tt.values)); got != want {
				t.Errorf("count %d, want %d", got, want)
			}
			got := []time.Duration{h.Min(), h.Max(), h.Mean(), h.Quantile(0.5)}
			want := []time.Duration{tt.min, tt.max, tt.mean, tt.p50}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("min, max, mean, median (-want +got):\n%s", diff)
			}
			if got := h.Quantile(0.99); math.Abs(float64(got-tt.p99)) > float64(tt.p99)/10 {
				t.Errorf("p99 %d, want about %d", got, tt.p99)
			}
		})
	}
}

func TestQuantileIsWithinATenthOfAPercent(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		values := latencies(seed, 20_000)
		h := of(values...)
		slices.Sort(values)
		for _, permille := range []int{0, 1, 10, 70, 250, 500, 700, 900, 990, 999, 1000} {
			rank := max((permille*len(values)+999)/1000, 1) // in whole numbers: the definition
			want := values[rank-1]
			got := int64(h.Quantile(float64(permille) / 1000))
			if math.Abs(float64(got-want)) > float64(want)/1000 {
				t.Errorf("seed %d: quantile %d/1000 = %d, want %d", seed, permille, got, want)
			}
		}
		if int64(h.Quantile(0)) < values[0] || int64(h.Quantile(1)) > values[len(values)-1] {
			t.Errorf("seed %d: a quantile lies outside the values", seed)
		}
	}
}

// Ranks such as 0.07*100 = 7.000000000000001 must not spill into the next value.
func TestQuantileRankIsExact(t *testing.T) {
	t.Parallel()
	h := &Histogram{}
	for v := range int64(1000) {
		h.Record(v + 1)
	}
	for permille := 1; permille <= 1000; permille++ {
		if got := int(h.Quantile(float64(permille) / 1000)); got != permille {
			t.Errorf("quantile %d/1000 of 1 to 1000 is %d", permille, got)
		}
	}
	for _, q := range []float64{-1, 2, math.Inf(1), math.Inf(-1), math.NaN()} {
		if got := h.Quantile(q); got < 1 || got > 1000 {
			t.Errorf("quantile %v = %d is none of the values", q, got)
		}
	}
}

func TestMergeIsTheSameAsRecordingTogether(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		values := latencies(seed, 5000)
		together := of(values...)
		merged := &Histogram{}
		for part := range slices.Chunk(values, 700) {
			merged.Merge(of(part...))
		}
		merged.Merge(nil)
		merged.Merge(&Histogram{})
		if *merged != *together {
			t.Errorf("seed %d: merged and together differ", seed)
		}
		merged.Merge(merged)
		for _, v := range values {
			together.RecordN(v, 1)
		}
		if *merged != *together {
			t.Errorf("seed %d: merged with itself is not twice the same", seed)
		}
	}
}

func TestRecordNAndReset(t *testing.T) {
	t.Parallel()
	n, h := of(7, 7, 7, 1_000_000), &Histogram{}
	h.RecordN(7, 3)
	h.RecordN(1_000_000, 1)
	h.RecordN(99, 0)
	if *h != *n {
		t.Error("RecordN(v, n) is not n times Record(v)")
	}
	h.Reset()
	if *h != (Histogram{}) {
		t.Error("Reset leaves something")
	}
}

func TestAboveAndEach(t *testing.T) {
	t.Parallel()
	h := of(1, 2, 2, 3000, 3001, Highest+1)
	for v, want := range map[time.Duration]uint64{-1: 6, 0: 6, 1: 5, 2: 3, 2999: 3, 3000: 1, time.Hour: 0, 2 * time.Hour: 0} {
		if got := h.Above(v); got != want {
			t.Errorf("above %d: %d, want %d", v, got, want)
		}
	}
	var got []Bucket
	for b := range h.Each {
		got = append(got, b)
		if len(got) == 3 {
			break
		}
	}
	want := []Bucket{{1, 1, 1}, {2, 2, 2}, {3000, 3001, 2}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("buckets (-want +got):\n%s", diff)
	}
}

func TestCellsAreMonotoneAndInverse(t *testing.T) {
	t.Parallel()
	next := time.Duration(0)
	for c := range uint32(Cells) {
		lo, hi := CellBounds(c)
		if lo != next || Cell(lo) != c {
			t.Fatalf("cell %d starts at %d (cell %d), want %d", c, lo, Cell(lo), next)
		}
		if c < Cells-1 && Cell(hi) != c {
			t.Fatalf("cell %d ends at %d, which is in cell %d", c, hi, Cell(hi))
		}
		if lo >= 16 && float64(hi-lo+1) > float64(lo)*0.125 {
			t.Fatalf("cell %d, %d to %d, is wider than an eighth", c, lo, hi)
		}
		next = hi + 1
	}
	for v, want := range map[time.Duration]uint32{-1: 0, 0: 0, 15: 15, 16: 16, time.Hour: Cells - 1, math.MaxInt64: Cells - 1} {
		if got := Cell(v); got != want {
			t.Errorf("cell of %d is %d, want %d", v, got, want)
		}
	}
	if lo, hi := CellBounds(math.MaxUint32); lo > time.Hour || hi < time.Hour {
		t.Errorf("the last cell is %d to %d", lo, hi)
	}
}

func TestRecordingAllocatesNothing(t *testing.T) { //nolint:paralleltest // AllocsPerRun refuses it
	h, o := &Histogram{}, of(1, 2, 3)
	v := int64(1)
	if n := testing.AllocsPerRun(1000, func() { h.Record(v); v += 997 }); n != 0 {
		t.Errorf("Record allocates %v times", n)
	}
	if n := testing.AllocsPerRun(10, func() { h.Merge(o); _ = h.Quantile(0.99); h.Reset() }); n != 0 {
		t.Errorf("Merge, Quantile and Reset allocate %v times", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	h, values := &Histogram{}, latencies(1, 1<<12)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		h.Record(values[i&(1<<12-1)])
	}
}
