package main

import (
	"math"
	"slices"
	"time"
)

// dispersion says how far arrivals are from the ideal grid of a constant rate:
// points 1/rate apart, of which the k-th arrival should be at the k-th. Only the
// grid's phase is fitted, as the median of the arrivals' distances from it, so
// that bursts do not move it; the rate is the one that was asked for, so that
// whoever sends at another drifts away. The result is the 99th percentile of
// the distances' absolute values.
func dispersion(arrivals []int64, rate float64) time.Duration {
	if len(arrivals) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(arrivals))
	offsets := make([]float64, len(sorted))
	for k, at := range sorted {
		offsets[k] = float64(at-sorted[0]) - float64(k)/rate*1e9
	}
	phase := quantile(offsets, 0.5)
	for k := range offsets {
		offsets[k] = math.Abs(offsets[k] - phase)
	}
	return time.Duration(quantile(offsets, 0.99))
}

// achieved is the mean rate of arrivals, per second: from the first to the last.
func achieved(arrivals []int64) float64 {
	if len(arrivals) < 2 {
		return 0
	}
	span := slices.Max(arrivals) - slices.Min(arrivals)
	return float64(len(arrivals)-1) / (float64(span) / 1e9)
}

// quantile is the smallest value that at least the share q of values are not
// above; it does not change the slice.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}

// stallTruth is the quantile of response times that a constant rate has over a
// time in which the server stands still once, for that long, and else answers
// at once: who is due in the stall waits for its end. It follows from the
// schedule alone.
func stallTruth(rate float64, requests int, stall time.Duration, q float64) time.Duration {
	waits := make([]float64, requests)
	for k := range waits {
		waits[k] = max(0, stall.Seconds()-float64(k)/rate) // the order does not matter
	}
	return time.Duration(quantile(waits, q) * 1e9)
}
