package ingest

import (
	"errors"
	"fmt"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
)

// maxPoints bounds a Spectrum; HdrHistogram's own have a few hundred.
const maxPoints = 1 << 20

// Spectrum is a distribution as HdrHistogram prints it: values, and how many
// were at most that.
type Spectrum struct {
	value time.Duration
	count uint64
	n     int
	out   *hist.Histogram
}

// NewSpectrum records into a histogram.
func NewSpectrum(out *hist.Histogram) *Spectrum { return &Spectrum{out: out} }

// Coarse is what a Spectrum cannot tell.
const Coarse = "latencies are known at the points of a percentile spectrum: what lies between two counts as the higher one"

// Add takes the next point: n values are at most v.
func (s *Spectrum) Add(v time.Duration, n uint64) error {
	if n < s.count || v < s.value {
		return errors.New("the percentile spectrum does not ascend")
	}
	if s.n++; s.n > maxPoints {
		return fmt.Errorf("the percentile spectrum has more than %d points", maxPoints)
	}
	s.out.RecordN(int64(v), n-s.count)
	s.value, s.count = v, n
	return nil
}
