package flow

import "time"

// Sampler is a Series of bounded length: when it is full, every second reading
// is dropped and they come half as often.
type Sampler struct {
	series Series
	every  int64
	next   int64
}

// NewSampler makes one for readings every so often.
func NewSampler(every time.Duration) *Sampler {
	return &Sampler{series: make(Series, 0, maxSamples), every: every.Nanoseconds()}
}

// Due says whether it is time for a reading.
func (s *Sampler) Due(now int64) bool { return now >= s.next }

// Add adds a reading, due or not.
func (s *Sampler) Add(now int64, count uint64) {
	if len(s.series) == maxSamples {
		for i := range maxSamples / 2 {
			s.series[i] = s.series[2*i+1]
		}
		s.series = s.series[:maxSamples/2]
		s.every *= 2
	}
	s.series = append(s.series, Report{At: now, Bytes: count})
	s.next = now + s.every
}

// Series is the readings so far.
func (s *Sampler) Series() Series { return s.series }
