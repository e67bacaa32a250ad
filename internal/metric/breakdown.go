package metric

import (
	"slices"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Shares are where the time of traced requests went, in seconds.
type Shares struct {
	// N is how many requests were broken down, of Traced.
	N, Traced int
	P50, P99  Quantiled
	// AtMedian is the mean total of the requests about the median: from the 45th to
	// the 55th percentile. Their parts' means add up to it.
	AtMedian float64
	Parts    []Share
}

// Share is one part; its quantiles are of the requests that passed it, N of them.
// Quantiles of parts do not add up.
type Share struct {
	Kind          model.PartKind
	Name, Service string
	N             int
	P50, P99      Quantiled
	AtMedian      float64
}

// Quantiled is a quantile, if there are enough values for it: ten beyond it.
type Quantiled struct {
	Value float64
	Known bool
}

const (
	middleFrom, middleTo = 0.45, 0.55
	tail                 = 0.99
)

// SharesOf are those of a breakdown.
func SharesOf(b *model.Breakdown) Shares {
	n := len(b.Total)
	s := Shares{N: n, Traced: b.Traced, P50: quantiled(b.Total, median), P99: quantiled(b.Total, tail)}
	about := middle(b.Total)
	s.AtMedian = meanOf(b.Total, about)
	for _, p := range b.Parts {
		passed := slices.DeleteFunc(slices.Clone(p.Took), func(v int64) bool { return v == model.NoTime })
		s.Parts = append(s.Parts, Share{
			Kind: p.Kind, Name: p.Name, Service: p.Service, N: len(passed),
			P50: quantiled(passed, median), P99: quantiled(passed, tail), AtMedian: meanOf(p.Took, about),
		})
	}
	return s
}

const median = 0.5

// quantiled is a quantile of values in nanoseconds, by nearest rank.
func quantiled(values []int64, q float64) Quantiled {
	const beyond = 10
	n := len(values)
	if n == 0 || q > median && float64(n)*(1-q) < beyond-1e-9 {
		return Quantiled{}
	}
	sorted := slices.Sorted(slices.Values(values))
	return Quantiled{Value: float64(sorted[min(int(q*float64(n)), n-1)]) / nanoseconds, Known: true}
}

// middle are the indexes of the requests about the median; at least one, if
// there are any.
func middle(totals []int64) []int {
	order := make([]int, len(totals))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(min(max(totals[a]-totals[b], -1), 1)) })
	n := float64(len(order))
	from, to := int(middleFrom*n), int(middleTo*n)
	return order[from:max(to, min(from+1, len(order)))]
}

const nanoseconds = 1e9

// meanOf is the mean of some values, in seconds; what was not passed took no time.
func meanOf(values []int64, which []int) float64 {
	if len(which) == 0 {
		return 0
	}
	var sum float64
	for _, i := range which {
		if values[i] != model.NoTime {
			sum += float64(values[i])
		}
	}
	return sum / float64(len(which)) / nanoseconds
}
