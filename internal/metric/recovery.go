package metric

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// FaultTimes is what a recovery is read with to know of a fault, besides the trace; times
// from the start of the window.
type FaultTimes struct {
	Onset time.Duration // the earliest moment at which it may have acted
	// Healed is when it was surely over; 0: it acted to the end.
	Healed time.Duration
	End    time.Duration // of the window
	// Home are the responders that answer while all is well, as they should: those
	// of the nearest region. Empty: it does not matter who answers.
	Home []string
	// Struck are the responders that the fault takes away.
	Struck []string
}

// Recovery is how a system came through. A time that was not reached before the
// fault was healed, or the window over, is Never.
type Recovery struct {
	// Detected is when a request was first answered by somebody who did not answer
	// before, or failed other than by time-out: from then on the system, or the
	// client, knows.
	Detected time.Duration
	// FirstGood is the end of the first success that was due after the onset and
	// after the first failure; 0 if none failed.
	FirstGood time.Duration
	// Recovered50 and Recovered99 are when the first second began in whose every
	// tenth that share of the requests due succeeded.
	Recovered50, Recovered99 time.Duration
	Failed                   uint64 // due between onset and heal
	// Slow successes took longer than Band, due between onset and heal.
	Slow uint64
	Band time.Duration // the 99.9th percentile before the fault, or the maximum of less than 1,000
	// WrongRegion is the share of successes that were due between onset and heal
	// and answered outside the nearest region that had a server left.
	WrongRegion float64
	// Remote is the share of successes before the onset that did not come from
	// Home: 0, if all is well.
	Remote float64
	// Flaps are the changes of the region that answers most, in tenths of a second,
	// beyond the one away and the one back.
	Flaps int
	// Of the time after the heal: when Home answered again, when the first second
	// began in whose every tenth 99 % of the requests were answered by Home within
	// Band, and what failed.
	BackFirst, BackRecovered time.Duration
	BackFailed               uint64
}

// Never is a time that was not reached.
const Never = time.Duration(math.MaxInt64)

// ErrNoSteadyState says that there is nothing to compare with.
var ErrNoSteadyState = errors.New("no request succeeded before the fault: there is no steady state to compare with")

const (
	second  = time.Second
	tenth   = 100 * time.Millisecond
	fewest  = 1000 // values of which a 99.9th percentile is taken
	most999 = 0.999

	half, almostAll = 0.5, 0.99
)

// tracedRequest is one of a trace.
type tracedRequest struct {
	due, done time.Duration
	cause     model.Cause
	who       string
}

// ReadRecovery reads off a trace how a system came through a fault. There is one
// definition for every layer and every fault; docs/method.md has it in words.
// Times count from the fault's observed onset, never from when it was asked for.
// Only what the client saw counts.
func ReadRecovery(t *model.Trace, f FaultTimes) (Recovery, error) {
	all := traced(t)
	var r Recovery
	known, err := r.steady(all, f)
	if err != nil {
		return Recovery{}, err
	}
	healed := f.Healed
	if healed == 0 {
		healed = f.End
	}
	during := between(all, f.Onset, healed)
	r.strike(during, f, known)
	good := tallied(during, func(q tracedRequest) bool { return q.cause == "" })
	r.Recovered50, r.Recovered99 = good.recovered(f.Onset, healed, half), good.recovered(f.Onset, healed, almostAll)
	r.Flaps = flaps(between(all, f.Onset, f.End), f)
	r.back(between(all, healed, f.End), f, healed)
	return r, nil
}

// traced are a trace's, in the order in which they were due.
func traced(t *model.Trace) []tracedRequest {
	all := make([]tracedRequest, len(t.Due))
	for i := range all {
		due := time.Duration(t.Due[i]) * time.Microsecond
		all[i] = tracedRequest{due: due, done: due + time.Duration(t.Response[i])*time.Microsecond, cause: t.Failure(i), who: t.Responder(i)}
	}
	slices.SortStableFunc(all, func(a, b tracedRequest) int { return int(a.due - b.due) })
	return all
}

// between are those of some requests, in the order in which they were due, that
// were due in a span.
func between(all []tracedRequest, from, to time.Duration) []tracedRequest {
	first := firstDue(all, from)
	return all[first:max(first, firstDue(all, to))]
}

// firstDue is the index of the first of some requests, in the order in which
// they were due, that was not due before a moment.
func firstDue(all []tracedRequest, at time.Duration) int {
	i, _ := slices.BinarySearchFunc(all, at, func(r tracedRequest, at time.Duration) int { return cmp.Compare(r.due, at) })
	return i
}

// steady reads what was before the fault: requests that had ended by then.
func (r *Recovery) steady(all []tracedRequest, f FaultTimes) (known map[string]bool, err error) {
	known = map[string]bool{}
	var took []time.Duration
	remote := 0
	for _, q := range all {
		if q.done >= f.Onset || q.cause != "" {
			continue
		}
		took = append(took, q.done-q.due)
		known[q.who] = true
		if len(f.Home) > 0 && !slices.Contains(f.Home, q.who) {
			remote++
		}
	}
	if len(took) == 0 {
		return nil, ErrNoSteadyState
	}
	slices.Sort(took)
	r.Band = took[len(took)-1]
	if len(took) >= fewest {
		r.Band = took[int(math.Ceil(most999*float64(len(took))))-1]
	}
	r.Remote = float64(remote) / float64(len(took))
	return known, nil
}

// strike reads the time in which the fault acts.
func (r *Recovery) strike(during []tracedRequest, f FaultTimes, known map[string]bool) {
	r.Detected = Never
	firstBad, firstGood := Never, Never
	var good, wrong int
	for _, q := range during {
		switch {
		case q.cause != "":
			r.Failed++
			firstBad = min(firstBad, q.due)
			if q.cause != model.CauseTimeout && q.cause != model.CauseUnsent {
				r.Detected = min(r.Detected, q.done-f.Onset)
			}
			continue
		case !known[q.who]:
			r.Detected = min(r.Detected, q.done-f.Onset)
		}
		good++
		if q.done-q.due > r.Band {
			r.Slow++
		}
		if f.wrong(q.who) {
			wrong++
		}
		if q.due > firstBad {
			firstGood = min(firstGood, q.done-f.Onset)
		}
	}
	if r.FirstGood = firstGood; firstBad == Never {
		r.FirstGood = 0
	}
	if good > 0 {
		r.WrongRegion = float64(wrong) / float64(good)
	}
}

// wrong says whether who answers is not of the nearest region that has a server
// left. Where all of it is struck, anybody may answer.
func (f *FaultTimes) wrong(who string) bool {
	left := slices.ContainsFunc(f.Home, func(h string) bool { return !slices.Contains(f.Struck, h) })
	return left && !slices.Contains(f.Home, who)
}

// recovered is when a second begins in whose every tenth that share of the
// requests succeeded. Seconds begin at the onset and at each request.
func (t tally) recovered(onset, end time.Duration, share float64) time.Duration {
	if onset+second <= end && t.held(0, onset, share) {
		return 0
	}
	for i, q := range t.all {
		if q.due+second > end {
			break
		}
		if t.held(i, q.due, share) {
			return q.due - onset
		}
	}
	return Never
}

// tally counts good requests so that any stretch of time is counted at once.
type tally struct {
	all  []tracedRequest
	good []int // good[i]: of the first i
}

func tallied(all []tracedRequest, good func(tracedRequest) bool) tally {
	t := tally{all, make([]int, len(all)+1)}
	for i, q := range all {
		t.good[i+1] = t.good[i]
		if good(q) {
			t.good[i+1]++
		}
	}
	return t
}

// held says whether in every tenth of the second that begins then, with the
// i-th request, that share of the requests was good. A tenth without any is not.
func (t tally) held(i int, start time.Duration, share float64) bool {
	for from, until := i, start+tenth; until <= start+second; until += tenth {
		to := from + firstDue(t.all[from:], until)
		if to == from || float64(t.good[to]-t.good[from]) < share*float64(to-from) {
			return false
		}
		from = to
	}
	return true
}

// flaps counts changes of who answers most, in tenths of a second.
func flaps(after []tracedRequest, f FaultTimes) int {
	if len(f.Home) == 0 {
		return 0
	}
	changes, at := 0, true // home
	for start := f.Onset; start < f.End; start += tenth {
		home, away := 0, 0
		for _, q := range between(after, start, start+tenth) {
			switch {
			case q.cause != "":
			case slices.Contains(f.Home, q.who):
				home++
			default:
				away++
			}
		}
		if home != away && at != (home > away) {
			at = !at
			changes++
		}
	}
	const awayAndBack = 2
	return max(0, changes-awayAndBack)
}

// back reads the time after the heal.
func (r *Recovery) back(after []tracedRequest, f FaultTimes, healed time.Duration) {
	r.BackFirst, r.BackRecovered = Never, Never
	normal := tallied(after, func(q tracedRequest) bool {
		return q.cause == "" && q.done-q.due <= r.Band && (len(f.Home) == 0 || slices.Contains(f.Home, q.who))
	})
	for i, q := range after {
		home := len(f.Home) == 0 || slices.Contains(f.Home, q.who)
		switch {
		case q.cause != "":
			r.BackFailed++
		case home && r.BackFirst == Never:
			r.BackFirst = q.done - healed
		}
		if r.BackRecovered == Never && q.due+second <= f.End && normal.held(i, q.due, almostAll) {
			r.BackRecovered = q.due - healed
		}
	}
}
