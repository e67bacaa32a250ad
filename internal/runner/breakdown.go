package runner

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/breakdown"
	"github.com/windtunnel/windtunnel/internal/model"
)

// breakDown runs the trials in which requests are traced. They come after
// everything that is measured, so that they can disturb nothing.
func (r *run) breakDown(ctx context.Context) error {
	have := indexes(r.Broken)
	for _, t := range r.Plan.Breakdown {
		if have[t.Index] {
			continue
		}
		if err := r.one(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// traced is the load of a breakdown trial: the same, for as long as the study
// says, and without harm.
func traced(l model.Load) model.Load {
	l.Duration, l.Fault = l.Breakdown, ""
	return l
}

// tracers are the layers that can record requests; they are asked to.
func (t *trial) tracers(layers []model.Layer) {
	for _, l := range layers {
		if tracer, ok := l.(model.Tracer); ok && t.Breakdown {
			tracer.Trace()
			t.tracing = append(t.tracing, tracer)
		}
	}
}

// way is what lies between generator and app, where no layer records requests.
func (t *trial) way() string {
	if len(t.variant.Stack) == 0 {
		return "network"
	}
	return "network with " + strings.Join(t.kinds(), ", ")
}

// recordsLimit is how long proxies may take to write their last records.
const recordsLimit = 3 * time.Second

// explain finds where the time of the traced requests went. Proxies write their
// records a little later: it waits until all are there.
func (t *trial) explain(ctx context.Context) error {
	if !t.Breakdown {
		return nil
	}
	result := t.out.Load.Traced
	if result == nil {
		return errors.New("the generator has traced nothing")
	}
	t.out.Load.Traced = nil // all of it is in the breakdown
	ctx, cancel := context.WithTimeout(ctx, recordsLimit)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		var spans []model.Span
		for _, tracer := range t.tracing {
			more, err := tracer.Spans(context.WithoutCancel(ctx))
			if err != nil {
				return err
			}
			spans = append(spans, more...)
		}
		t.out.Breakdown = breakdown.Of(result, spans, t.load.From, t.way())
		if len(t.out.Breakdown.Total) == t.out.Breakdown.Traced && (len(spans) > 0 || len(t.tracing) == 0) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil // what is missing is said where it is shown
		case <-tick.C:
		}
	}
}
