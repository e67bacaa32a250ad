package stats

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

const (
	// MinBootstrap is the number of blocks from which a bootstrap of their mean
	// is offered: under it, such intervals are too narrow.
	MinBootstrap = 20
	// Resamples is the number of bootstrap samples of every interval.
	Resamples = 10_000
)

func generator(seed uint64) *rand.Rand {
	const stream = 0x77696e6474756e6e
	return rand.New(rand.NewPCG(seed, stream)) //nolint:gosec // G404: repeatable on purpose
}

// BCa is the bias-corrected and accelerated bootstrap interval of a statistic
// (Efron 1987). The statistic may reorder the values that it is given. Values
// must be independent: one a trial, never one a request. It needs MinBootstrap
// values.
func BCa(x []float64, statistic func([]float64) float64, seed uint64) (Estimate, error) {
	if err := finite(x); err != nil {
		return Estimate{}, err
	}
	if len(x) < MinBootstrap {
		return Estimate{}, &TooFewError{"a BCa bootstrap", MinBootstrap, len(x), "blocks"}
	}
	return bca(x, statistic, Level, seed), nil
}

func bca(x []float64, statistic func([]float64) float64, level float64, seed uint64) Estimate {
	e := Estimate{Value: statistic(slices.Clone(x)), Level: level, N: len(x), Method: "BCa bootstrap"}
	rng := generator(seed)
	sample, values := make([]float64, len(x)), make([]float64, Resamples)
	below := 0.0
	for i := range values {
		for j := range sample {
			sample[j] = x[rng.IntN(len(x))]
		}
		values[i] = statistic(sample)
		// A value that is hit exactly counts half, as in discrete distributions.
		below += float64(1-cmp.Compare(values[i], e.Value)) / 2
	}
	slices.Sort(values)
	share := min(max(below/Resamples, 1.0/Resamples), 1-1.0/Resamples)
	z0, a := NormalQuantile(share), acceleration(x, statistic)
	end := func(p float64) float64 {
		z := z0 + NormalQuantile(p)
		return percentile(values, normalCDF(z0+z/(1-a*z)))
	}
	e.Lo, e.Hi = end((1-level)/2), end((1+level)/2)
	return e
}

// acceleration is how fast the statistic's standard error changes with its
// value, from the skewness of the jackknife.
func acceleration(x []float64, statistic func([]float64) float64) float64 {
	jack := make([]float64, len(x))
	rest := make([]float64, len(x)-1)
	for i := range x {
		copy(rest, x[:i])
		copy(rest[i:], x[i+1:])
		jack[i] = statistic(rest)
	}
	mean := Mean(jack)
	var square, cube float64
	for _, v := range jack {
		square += (mean - v) * (mean - v)
		cube += (mean - v) * (mean - v) * (mean - v)
	}
	if square == 0 {
		return 0
	}
	return cube / (6 * math.Pow(square, 1.5))
}

// percentile is the p-quantile of sorted values, interpolated.
func percentile(sorted []float64, p float64) float64 {
	at := min(max(p*float64(len(sorted)+1)-1, 0), float64(len(sorted)-1))
	i := int(at)
	if i+1 == len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// MovingBlockBootstrap gives an interval from one run alone, for a statistic of
// a series in time, e.g. the mean latency of every 100 ms. Runs of neighbours
// are drawn together, so that it allows for dependence in time (Kuensch 1989),
// of a length that the series' own correlation sets (Politis and White 2004).
// It says nothing about the next run, and Method says so.
func MovingBlockBootstrap(series []float64, statistic func([]float64) float64, seed uint64) (Estimate, error) {
	if err := finite(series); err != nil {
		return Estimate{}, err
	}
	const fewest = 50
	n := len(series)
	if n < fewest {
		return Estimate{}, &TooFewError{"a bootstrap within one run", fewest, n, "points in time"}
	}
	length := blockLength(series)
	rng := generator(seed)
	sample, values := make([]float64, n+length), make([]float64, Resamples)
	for i := range values {
		for at := 0; at < n; at += length {
			from := rng.IntN(n - length + 1)
			copy(sample[at:], series[from:from+length])
		}
		values[i] = statistic(sample[:n])
	}
	slices.Sort(values)
	return Estimate{
		Value: statistic(slices.Clone(series)), Lo: percentile(values, (1-Level)/2), Hi: percentile(values, (1+Level)/2), Level: Level, N: n,
		Method: fmt.Sprintf("within one run (moving blocks of %d): says nothing about the next", length),
	}, nil
}

// blockLength is the automatic choice of Politis and White (2004), corrected by
// Patton, Politis and White (2009): (2 G^2 / D)^(1/3) n^(1/3), where G and D come
// from the autocovariances up to where they fade, under a flat-top window.
func blockLength(series []float64) int {
	n := float64(len(series))
	r := autocovariances(series, int(math.Ceil(math.Sqrt(n)))+5)
	if r[0] == 0 {
		return 1
	}
	m := min(2*fadedAfter(r, 2*math.Sqrt(math.Log10(n)/n)*r[0]), len(r)-1)
	g, spectrum := 0.0, r[0]
	for k := 1; k <= m; k++ {
		window := min(1, 2*(1-float64(k)/float64(m)))
		spectrum += 2 * window * r[k]
		g += 2 * window * float64(k) * r[k]
	}
	if spectrum == 0 {
		return 1
	}
	length := math.Cbrt(2 * g * g / (4.0 / 3 * spectrum * spectrum) * n)
	return int(math.Ceil(min(max(length, 1), 3*math.Sqrt(n), n/3)))
}

func autocovariances(series []float64, lags int) []float64 {
	mean, n := Mean(series), len(series)
	r := make([]float64, min(lags, n-1)+1)
	for k := range r {
		for i := range n - k {
			r[k] += (series[i] - mean) * (series[i+k] - mean) / float64(n)
		}
	}
	return r
}

// fadedAfter is the lag after which five autocovariances in a row are negligible.
func fadedAfter(r []float64, negligible float64) int {
	last := 0
	for k := 1; k < len(r) && k <= last+5; k++ {
		if math.Abs(r[k]) >= negligible {
			last = k
		}
	}
	return last
}
