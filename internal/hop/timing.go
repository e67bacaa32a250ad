package hop

import (
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// asked is one call of a traced request, with what the one that was asked says
// that it has spent.
type asked struct {
	service  string
	from, to time.Time
	told     string
}

// note keeps a call; calls at a time come from several goroutines.
func (e *Exchange) note(a asked) {
	if !e.traced {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = append(e.asked, a)
}

// timing is the value of model.HeaderTiming: all that this server has spent on the
// request, and then the parts of it, its own and those of all servers below it.
// They add up: a call is its way and what is told of the one that was asked.
func (e *Exchange) timing(service string, began, now time.Time) string {
	total := now.Sub(began)
	slices.SortFunc(e.asked, func(a, b asked) int { return a.from.Compare(b.from) })
	var sum, union time.Duration
	until := began
	for _, a := range e.asked {
		sum += a.to.Sub(a.from)
		if a.from.After(until) {
			until = a.from
		}
		if a.to.After(until) {
			union += a.to.Sub(until)
			until = a.to
		}
	}
	b := model.AppendTiming(nil, model.TimingApp, total.Nanoseconds())
	if len(e.asked) == 0 {
		return string(b)
	}
	more := func(name string, d time.Duration) {
		b = model.AppendTiming(append(b, ", "...), name, max(d, 0).Nanoseconds())
	}
	more(service+model.TimingOwn, total-union)
	if sum > union {
		more(service+model.TimingParallel, sum-union)
	}
	for _, a := range e.asked {
		app, parts, below := strings.Cut(a.told, ", ")
		took := model.Timing(app)
		if took == model.NoTime {
			took, below = 0, false
		}
		more(a.service+model.TimingWay, a.to.Sub(a.from)-time.Duration(took))
		switch {
		case below:
			b = append(append(b, ", "...), parts...)
		case took > 0:
			more(a.service+model.TimingOwn, time.Duration(took))
		}
	}
	return string(b)
}
