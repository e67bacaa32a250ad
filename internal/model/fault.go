package model

import (
	"context"
	"errors"
	"time"
)

// Scenario is a timeline of harms that loads can be run under.
type Scenario struct {
	Name   string       `json:"name"`
	Events []FaultEvent `json:"events"`
}

// FaultEvent is one harm of a scenario: what, from when, until when; both times
// from the start of the measured window.
type FaultEvent struct {
	Fault PluginRef     `json:"fault"`
	At    time.Duration `json:"at_ns"`
	// Heal is when it is undone; 0: when the load has ended.
	Heal time.Duration `json:"heal_ns,omitempty"`
}

// FaultRecord is what became of a fault event. Times are on CLOCK_MONOTONIC; 0:
// it did not come to that.
type FaultRecord struct {
	Event FaultEvent `json:"event"`
	// The harm set in somewhere between InjectStart and InjectEnd, and was over
	// somewhere between HealStart and HealEnd: what failover is measured from.
	InjectStart int64  `json:"inject_start_ns,omitempty"`
	InjectEnd   int64  `json:"inject_end_ns,omitempty"`
	HealStart   int64  `json:"heal_start_ns,omitempty"`
	HealEnd     int64  `json:"heal_end_ns,omitempty"`
	Error       string `json:"error,omitempty"`
	// Struck are the pods that it takes away.
	Struck []string `json:"struck,omitempty"`
	// Observed is the harm measured back where it acts.
	Observed Ledger `json:"observed,omitempty"`
}

// Heals undo the parts of a harm.
type Heals []func(context.Context) error

// Heal undoes all of them, whatever becomes of one.
func (h Heals) Heal(ctx context.Context) error {
	var errs []error
	for _, heal := range h {
		errs = append(errs, heal(ctx))
	}
	return errors.Join(errs...)
}

// Trace is every request of a window, one column a property, in the order in
// which they ended. Loads that run under a fault keep one.
type Trace struct {
	// Due is when each was due, from the start of the window, and Response how
	// long it took from then until it ended; both in microseconds.
	Due      []int64 `json:"due_us"`
	Response []int64 `json:"response_us"`
	// Who is, of a success, the index of its responder, or -1 if it did not say
	// who it is; of a failure, -2 - the index of its cause.
	Who        []int    `json:"who"`
	Responders []string `json:"responders"`
	Causes     []Cause  `json:"causes"`
	// Path is, of a success, the index of its path of hops; -1: it has none. Both
	// are empty where no answer has one.
	Path  []int    `json:"path,omitempty"`
	Paths []string `json:"paths,omitempty"`
	// Missing is how many requests there was no room for.
	Missing uint64 `json:"missing,omitempty"`
}

// MaxTrace is how many requests a trace has room for.
const MaxTrace = 200_000

// Unidentified is the Who of a success of which it is not known who gave it.
const Unidentified = -1

// Failure says why a request failed; empty: it succeeded.
func (t *Trace) Failure(i int) Cause {
	if w := t.Who[i]; w < Unidentified {
		return t.Causes[-w-2]
	}
	return ""
}

// Responder says who answered a request; empty: nobody, or nobody knows.
func (t *Trace) Responder(i int) string {
	if w := t.Who[i]; w >= 0 {
		return t.Responders[w]
	}
	return ""
}

// Hops is the path of hops of a success; empty: it has none.
func (t *Trace) Hops(i int) string {
	if i < len(t.Path) && t.Path[i] >= 0 {
		return t.Paths[t.Path[i]]
	}
	return ""
}

// CauseUnsent is why a traced request failed that was due and never sent.
const CauseUnsent Cause = "unsent"

// merge appends the requests of another generator.
func (t *Trace) merge(o *Trace) {
	who := map[string]int{}
	for i, id := range t.Responders {
		who[id] = i
	}
	why := map[Cause]int{}
	for i, c := range t.Causes {
		why[c] = i
	}
	paths := map[string]int{}
	for i, p := range t.Paths {
		paths[p] = i
	}
	told := len(t.Paths)+len(o.Paths) > 0
	for told && len(t.Path) < len(t.Due) {
		t.Path = append(t.Path, -1)
	}
	for i := range o.Due {
		if told {
			t.Path = append(t.Path, t.index(paths, o.Hops(i)))
		}
		w := Unidentified
		switch cause, id := o.Failure(i), o.Responder(i); {
		case cause != "":
			if _, known := why[cause]; !known {
				why[cause] = len(t.Causes)
				t.Causes = append(t.Causes, cause)
			}
			w = -2 - why[cause]
		case id != "":
			if _, known := who[id]; !known {
				who[id] = len(t.Responders)
				t.Responders = append(t.Responders, id)
			}
			w = who[id]
		}
		t.Due, t.Response, t.Who = append(t.Due, o.Due[i]), append(t.Response, o.Response[i]), append(t.Who, w)
	}
	t.Missing += o.Missing
}

// index is a path's, which is added if it is new; -1: there is none.
func (t *Trace) index(paths map[string]int, path string) int {
	if path == "" {
		return -1
	}
	if _, known := paths[path]; !known {
		paths[path] = len(t.Paths)
		t.Paths = append(t.Paths, path)
	}
	return paths[path]
}

// AddTrace adds the requests that another worker or generator has traced.
func (r *LoadResult) AddTrace(t *Trace) {
	if r.Trace == nil {
		r.Trace = &Trace{}
	}
	r.Trace.merge(t)
}
