package main

import "slices"

// agreement says that a peer reports the same response time of nginx as we do:
// the two medians are no further apart than the rounds of either are among
// themselves, but for what the peer itself adds at that quantile. That shows
// against the fast server: what it reports there, beyond what we do.
type agreement struct {
	name          string
	metric, floor metric // against nginx, and against the fast server
	peer          string
}

func agreements() []agreement {
	var all []agreement
	for _, peer := range []string{"wrk2", "oha", "vegeta"} {
		all = append(all, agreement{"p50", metricP50, metricFloor50, peer}, agreement{"p99", metricP99, metricFloor99, peer})
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
	adds := max(median(f.of(figure{partAgree, a.peer, a.floor}))-median(f.of(figure{partAgree, ours, a.floor})), 0)
	distance, limit := apart(median(own), median(other), adds), max(extent(own), extent(other))
	l.quotient, l.demand = micro(distance)+" apart, less the "+micro(adds)+" that it adds", "<= "+micro(limit)+", the rounds' spread"
	l.verdict = missed
	if distance <= limit {
		l.verdict = held
	}
	return l
}

// apart is how far the two are apart beyond what the peer adds.
func apart(own, other, adds float64) float64 {
	if other > own {
		return max(other-own-adds, 0)
	}
	return own - other
}

// extent is how far values are apart.
func extent(values []float64) float64 { return slices.Max(values) - slices.Min(values) }
