// Package ingest turns what other tools have measured into our own results.
// Each tool is a folder below with a README and a Format, its catalog entry,
// which recognises and reads all that the tool writes; Open finds the right one.
// Those that drivers use also have
//
//	Read(r io.Reader, about ingest.About) (*model.LoadResult, error)
//
// Readers are strict, name what is wrong and where, and take bounded memory
// whatever they are given. They invent nothing: a result has a distribution
// only where the format has one, response times only where it tells when
// requests were due, and says in model.Tool.Notes what is missing or derived.
package ingest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/model"
)

// About is what is known of a load besides the tool's output. All of it may be
// left out; what the tool itself says goes first.
type About struct {
	Arrival     model.Arrival
	Rate        float64 // asked, per second
	Connections int
	Duration    time.Duration
	// From and To are the measured window, by the wall clock; a request belongs
	// to it by when it was due, or sent if that is all that is known. Zero:
	// everything is measured. Only formats of requests with times can be cut.
	From, To time.Time
}

// Notes that several formats have in common.
const (
	NoDue   = "response times: the tool does not tell when requests were due"
	NoBytes = "bytes: the tool does not tell"
	Mixed   = "failures are in the distribution: the tool does not keep them apart"
	// FiguresOnly is of summaries; see model.Tool.Figures.
	FiguresOnly = "distribution: only the figures that the tool printed are known; they can neither be merged with others nor checked"
	// NoRequests is of what has a distribution, but no single requests.
	NoRequests = "single requests: the format has totals only; order, failures at the start and changes over time cannot be told"
)

// NewResult is an empty result of a tool; its histograms exist.
func NewResult(tool string, about About, basis model.Basis) *model.LoadResult {
	return &model.LoadResult{
		Arrival: about.Arrival, Connections: about.Connections, Rate: about.Rate, Elapsed: about.Duration,
		Failed: map[model.Cause]uint64{}, Statuses: map[int]uint64{},
		Response: &hist.Histogram{}, Service: &hist.Histogram{}, FailedResponse: &hist.Histogram{}, Lateness: &hist.Histogram{},
		Tool: &model.Tool{Name: tool, Basis: basis, Figures: map[string]time.Duration{}},
	}
}

// Spread records n values that are known to lie from lo to hi, evenly: what is
// usual where only a bucket's bounds and count are known.
func Spread(h *hist.Histogram, lo, hi time.Duration, n uint64) {
	steps := min(n, 1000) //nolint:mnd // finer than the histogram itself, for a bucket that is twice its start
	upTo := func(i uint64) uint64 { return n/steps*i + n%steps*i/steps }
	for i := range steps {
		at := lo + time.Duration(float64(hi-lo)*(float64(i)+0.5)/float64(steps)) //nolint:mnd // the middle of the step
		h.RecordN(int64(at), upTo(i+1)-upTo(i))
	}
}

// Seconds is a duration that a tool gives as a number of seconds. What no
// duration can hold is an error.
func Seconds(s float64) (time.Duration, error) {
	const most = 1e9 // 31 years
	if !(s >= 0 && s <= most) {
		return 0, fmt.Errorf("%g s is no time that a load can take", s)
	}
	return time.Duration(s*float64(time.Second) + 0.5), nil //nolint:mnd // rounded
}

// CauseOf sorts the text of an error of a Go program (vegeta, k6, fortio); false
// if it says nothing that is known.
func CauseOf(text string) (model.Cause, bool) {
	lower := strings.ToLower(text)
	for _, c := range []struct {
		cause model.Cause
		marks []string
	}{
		{model.CauseTimeout, []string{"timeout", "deadline exceeded", "timed out"}},
		{model.CauseRefused, []string{"connection refused"}},
		{model.CauseReset, []string{"connection reset", "broken pipe"}},
		{model.CauseTLS, []string{"tls:", "x509", "certificate"}},
		{model.CauseConnect, []string{"no such host", "no route", "unreachable", "dial ", "cannot assign", "lookup "}},
		{model.CauseProtocol, []string{"malformed", "protocol error", "stream error", "bad content-length"}},
		{model.CauseClosed, []string{"eof", "closed"}},
	} {
		for _, mark := range c.marks {
			if strings.Contains(lower, mark) {
				return c.cause, true
			}
		}
	}
	return model.CauseProtocol, false
}

const (
	maxLine     = 1 << 20
	maxProblems = 10
)

// Problems collects what is wrong with an input, each with its place, up to a
// readable number.
type Problems struct {
	errs []error
	more int
}

// Add adds one; nil is none.
func (p *Problems) Add(err error) {
	switch {
	case err == nil:
	case len(p.errs) < maxProblems:
		p.errs = append(p.errs, err)
	default:
		p.more++
	}
}

// Err is all of them, or nil.
func (p *Problems) Err() error {
	if p.more > 0 {
		return errors.Join(append(p.errs, fmt.Errorf("and %d more", p.more))...)
	}
	return errors.Join(p.errs...)
}

// Lines calls each for every line of at most 1 MiB, with its number from 1. What
// it returns is collected; a line that is too long, or a reader that fails, ends it.
func Lines(r io.Reader, each func(line string) error) error {
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, maxLine)
	var bad Problems
	n := 1
	for ; scan.Scan(); n++ {
		if err := each(scan.Text()); err != nil {
			bad.Add(fmt.Errorf("line %d: %w", n, err))
		}
	}
	if err := scan.Err(); err != nil {
		bad.Add(fmt.Errorf("line %d: %w", n, err))
	}
	return bad.Err()
}

// ReadAll reads an input that must be read as a whole, of at most limit bytes.
func ReadAll(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("more than %d bytes: no tool writes that much of it", limit)
	}
	return data, nil
}
