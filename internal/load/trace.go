package load

import (
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// traced is one request of a trace; times in ns from the window's start.
type traced struct {
	due, response int64
	who           int
}

// trace keeps every request of the window, in memory that is allocated before
// the load. A nil one keeps nothing.
type trace struct {
	requests []traced
	causes   []model.Cause
	missing  uint64
}

// newTrace has room for all requests of the load, and for twice as many: a rate
// is a mean.
func newTrace(l model.Load) *trace {
	const over, least = 2, 100
	room := model.MaxTrace
	if l.Arrival == model.ArrivalOpen {
		room = min(room, over*int(l.Rate*l.Duration.Seconds())+least)
	}
	return &trace{requests: make([]traced, 0, room)}
}

func (t *trace) success(due, response int64, who int) {
	if t != nil {
		t.add(traced{due, response, who})
	}
}

func (t *trace) failure(due, response int64, cause model.Cause) {
	if t == nil {
		return
	}
	i := slices.Index(t.causes, cause)
	if i < 0 {
		i = len(t.causes)
		t.causes = append(t.causes, cause) // once a cause
	}
	t.add(traced{due, response, -2 - i})
}

func (t *trace) add(r traced) {
	if len(t.requests) == cap(t.requests) {
		t.missing++
		return
	}
	t.requests = append(t.requests, r)
}

func (t *trace) export(responders map[string]*responder) *model.Trace {
	out := &model.Trace{Causes: t.causes, Responders: make([]string, len(responders)), Missing: t.missing}
	for _, p := range responders {
		out.Responders[p.index] = p.id
	}
	for _, r := range t.requests {
		out.Due = append(out.Due, r.due/int64(time.Microsecond))
		out.Response = append(out.Response, r.response/int64(time.Microsecond))
		out.Who = append(out.Who, r.who)
	}
	return out
}
