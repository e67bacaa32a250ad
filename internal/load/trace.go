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
	path          int // index of trace.paths; -1: none
}

// trace keeps every request of the window, in memory that is allocated before
// the load. A nil one keeps nothing.
type trace struct {
	requests []traced
	causes   []model.Cause
	paths    []string
	missing  uint64
}

// maxPaths bounds how many different paths of hops a trace tells apart.
const maxPaths = 64

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

func (t *trace) success(due, response int64, who int, path []byte) {
	if t != nil {
		t.add(traced{due, response, who, t.pathOf(path)})
	}
}

// pathOf is a path's index; paths beyond maxPaths are not told.
func (t *trace) pathOf(path []byte) int {
	if len(path) == 0 {
		return -1
	}
	for i, p := range t.paths {
		if p == string(path) {
			return i
		}
	}
	if len(t.paths) == maxPaths {
		return -1
	}
	t.paths = append(t.paths, string(path)) // once a path
	return len(t.paths) - 1
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
	t.add(traced{due, response, -2 - i, -1})
}

func (t *trace) add(r traced) {
	if len(t.requests) == cap(t.requests) {
		t.missing++
		return
	}
	t.requests = append(t.requests, r)
}

func (t *trace) export(responders map[string]*responder) *model.Trace {
	out := &model.Trace{Causes: t.causes, Responders: make([]string, len(responders)), Missing: t.missing, Paths: t.paths}
	for _, p := range responders {
		out.Responders[p.index] = p.id
	}
	for _, r := range t.requests {
		out.Due = append(out.Due, r.due/int64(time.Microsecond))
		out.Response = append(out.Response, r.response/int64(time.Microsecond))
		out.Who = append(out.Who, r.who)
		if len(t.paths) > 0 {
			out.Path = append(out.Path, r.path)
		}
	}
	return out
}
