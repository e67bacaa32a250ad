package runner

import (
	"context"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/plan"
)

// tracer is a layer that records all requests but one, which it has written
// only when it is asked again.
type tracer struct {
	layer
	asked *int
	on    *bool
}

func (l tracer) Trace() { *l.on = true }

func (l tracer) Spans(context.Context) ([]model.Span, error) {
	*l.asked++
	var spans []model.Span
	for n := uint64(1); n < 1000; n++ {
		if n != 7 || *l.asked > 1 {
			spans = append(spans, model.Span{Request: n, Pod: "client", Service: "server", Took: 2000, Upstream: 1000, App: model.NoTime})
		}
	}
	return spans, nil
}

func TestBreakdown(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	s, tg, sk := settings(t)
	s.Plan.Study.Loads[0].Breakdown = 100 * time.Millisecond
	var err error
	if s.Plan, err = plan.Expand(s.Plan.Study); err != nil {
		t.Fatal(err)
	}
	var notes []string
	asked, on := 0, false
	s.Stack = func(v model.Variant) ([]model.Layer, error) {
		if v.Name == "direct" {
			return nil, nil
		}
		return []model.Layer{tracer{layer{"a", &notes, nil}, &asked, &on}, layer{"b", &notes, nil}}, nil
	}
	end, err := Run(t.Context(), s)
	if err != nil || !end.Complete || len(end.Outcomes) != 12 || len(sk.outcomes) != 14 || tg.sites != 0 {
		t.Fatalf("%v, %+v, %d outcomes, %d kept, %d sites left", err, end.Reason, len(end.Outcomes), len(sk.outcomes), tg.sites)
	}
	for _, o := range sk.outcomes[:12] {
		if o.Breakdown != nil || o.Load.Traced != nil || o.Trial.Breakdown {
			t.Errorf("trial %d is measured and was traced", o.Trial.Index)
		}
	}
	if !on || asked < 2 {
		t.Errorf("the layer was asked to trace: %v; and for what it has, %d times", on, asked)
	}
	parts := map[string]int{"direct": 1, "layered": 3}
	for _, o := range sk.outcomes[12:] {
		b := o.Breakdown
		if o.Failure != nil || b == nil || b.Traced == 0 || len(b.Total) != b.Traced || len(b.Parts) != parts[o.Trial.Variant] || o.Load.Traced != nil {
			t.Errorf("%s: %+v, %+v", o.Trial.Variant, o.Failure, b)
		}
	}
	// A run that is resumed does not do them again.
	s.Finished, s.Broken, sk.outcomes = sk.outcomes[:12], sk.outcomes[12:13], nil
	if _, err = Run(t.Context(), s); err != nil || len(sk.outcomes) != 1 || !sk.outcomes[0].Trial.Breakdown {
		t.Errorf("resumed: %v, %d outcomes", err, len(sk.outcomes))
	}
}
