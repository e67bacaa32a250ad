package main

import (
	"math"
	"slices"
)

// agreement says that a peer reports the same response time as we do: the two
// medians are no further apart than the rounds of either are among themselves.
type agreement struct {
	name   string
	metric metric
	peer   string
	// over is by how much the peer is known to report too much, at most.
	over float64
}

// wrk2Over is by how much wrk2 can report too much, as its author says: it waits
// in whole milliseconds (https://github.com/giltene/wrk2/issues/78).
const wrk2Over = 1e-3

func agreements() []agreement {
	var all []agreement
	for _, q := range []struct {
		name string
		metric
	}{{"p50", metricP50}, {"p99", metricP99}} {
		all = append(all,
			agreement{q.name, q.metric, "wrk2", wrk2Over}, agreement{q.name, q.metric, "oha", 0}, agreement{q.name, q.metric, "vegeta", 0})
	}
	return all
}

func (a agreement) judge(f *figures, missing []string) line {
	us, them := figure{partAgree, ours, a.metric}, figure{partAgree, a.peer, a.metric}
	own, other := f.of(us), f.of(them)
	l := line{
		what: "nginx, open loop at 1,000/s: response " + a.name + " as reported", own: spread(own, micro), other: a.peer + " " + spread(other, micro),
		quotient: "-", demand: "the rounds' spread", verdict: notMeasured,
	}
	switch {
	case slices.Contains(missing, a.peer):
		l.absent, l.why, l.other = true, a.peer+" was not found", a.peer+": not found"
		return l
	case len(own) < 2 || len(other) < 2: // rounds of one tell nothing of their spread
		l.why = f.failed[figure{part: partAgree, tool: ours}] + f.failed[figure{part: partAgree, tool: a.peer}]
		l.absent = l.why == ""
		return l
	}
	apart, limit := a.apart(median(own), median(other)), max(extent(own), extent(other))
	l.quotient, l.demand = micro(apart)+" apart", "<= "+micro(limit)+", the rounds' spread"
	if a.over > 0 {
		l.quotient += ", less the " + ms(a.over) + " that it may report too much"
	}
	l.verdict = missed
	if apart <= limit {
		l.verdict = held
	}
	return l
}

// apart is how far the two are apart beyond what the peer may report too much.
func (a agreement) apart(own, other float64) float64 {
	if other > own {
		return max(other-own-a.over, 0)
	}
	return own - other
}

// extent is how far values are apart.
func extent(values []float64) float64 { return math.Abs(slices.Max(values) - slices.Min(values)) }

func micro(v float64) string { return wholeMicros(v) + " us" }
