package runner

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// sampling reads samplers at both edges of the measured window and at equal
// steps between, so that counters need (almost) no interpolation.
type sampling struct {
	samplers []model.Sampler
	every    time.Duration
	cancel   context.CancelFunc
	done     chan struct{}
	order    []string
	series   map[string]*model.Series
	buf      []model.Reading
	// clock is the samplers' clock at the local time read.
	clock int64
	read  time.Time
	end   int64 // of the window
	err   error
}

// lastReading is how long the load's end may come before the reading at the
// window's end: scheduling delay on a busy host.
const lastReading = 250 * time.Millisecond

func newSampling(samplers []model.Sampler, every time.Duration) *sampling {
	return &sampling{samplers: samplers, every: every, done: make(chan struct{}), series: map[string]*model.Series{}}
}

// start returns at once; the readings end with the window or with stop.
func (s *sampling) start(ctx context.Context, w model.Window) {
	s.end = w.End
	ctx, s.cancel = context.WithCancel(ctx)
	go func() {
		defer close(s.done)
		s.once(ctx) // tells the time of the samplers' clock
		for at := w.Start; s.wait(ctx, at); at = min(at+s.every.Nanoseconds(), w.End) {
			s.once(ctx)
			if at == w.End {
				return
			}
		}
	}()
}

// wait returns false if the context ends, or there is no clock to wait by.
func (s *sampling) wait(ctx context.Context, at int64) bool {
	if s.read.IsZero() {
		return false
	}
	timer := time.NewTimer(time.Duration(at-s.clock) - time.Since(s.read))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (s *sampling) once(ctx context.Context) {
	for _, sampler := range s.samplers {
		var err error
		if s.buf, err = sampler.Sample(ctx, s.buf[:0]); err != nil && ctx.Err() == nil {
			s.err = errors.Join(s.err, err)
		}
		s.add(s.buf)
		if _, late := sampler.(model.LateSampler); !late && len(s.buf) > 0 {
			s.clock, s.read = s.buf[len(s.buf)-1].At, time.Now()
		}
	}
}

// add appends readings to their series; one that is not newer than the last is
// the same one, read again.
func (s *sampling) add(readings []model.Reading) {
	for _, r := range readings {
		key := r.Subject + "\x00" + r.Metric
		one := s.series[key]
		if one == nil {
			one = &model.Series{Subject: r.Subject, Metric: r.Metric}
			s.series[key] = one
			s.order = append(s.order, key)
		}
		if n := len(one.At); n > 0 && r.At <= one.At[n-1] {
			continue
		}
		one.At = append(one.At, r.At)
		one.Values = append(one.Values, r.Value)
	}
}

// settleLimit bounds the wait for readings that come late; a kubelet takes them
// every 10 to 15 s.
const settleLimit = 20 * time.Second

// settle waits for the readings that come late.
func (s *sampling) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	for _, sampler := range s.samplers {
		late, ok := sampler.(model.LateSampler)
		if !ok {
			continue
		}
		readings, err := late.Settle(ctx, s.end, nil)
		s.add(readings)
		if err != nil && ctx.Err() == nil {
			s.err = errors.Join(s.err, err)
		}
	}
}

// stop ends the readings and returns them; without a start there are none.
func (s *sampling) stop(ctx context.Context) ([]model.Series, error) {
	if s.cancel == nil {
		return nil, nil
	}
	last := time.NewTimer(lastReading)
	defer last.Stop()
	select {
	case <-s.done: // the reading at the window's end has been taken
	case <-last.C: // the load ended early
	}
	s.cancel()
	<-s.done
	s.settle(ctx)
	var all []model.Series
	for _, key := range s.order {
		all = append(all, thin(*s.series[key]))
	}
	return all, s.err
}

// mostTraffic bounds the readings that are kept of a device or an IP stack: they
// are many, and rates over the window need its edges only.
const mostTraffic = 24

// thin leaves out readings of traffic: of a counter that stood still all but the
// first and the last, of others some between the window's edges.
func thin(s model.Series) model.Series {
	n := len(s.At)
	const edges = 3 // the first, at the window's start and at its end
	if n <= edges || !strings.HasPrefix(s.Subject, model.SubjectDevice) && !strings.HasPrefix(s.Subject, model.SubjectStack) {
		return s
	}
	step := (n + mostTraffic - 1) / mostTraffic
	if s.Values[0] == s.Values[n-1] {
		step = n
	}
	out := model.Series{Subject: s.Subject, Metric: s.Metric}
	for i := range s.At {
		if i <= 1 && step < n || i == 0 || i == n-1 || i%step == 0 {
			out.At, out.Values = append(out.At, s.At[i]), append(out.Values, s.Values[i])
		}
	}
	return out
}
