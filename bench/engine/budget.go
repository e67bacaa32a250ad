package main

import (
	"fmt"
	"math"
	"slices"
)

// budget is one promise of the engine.
type budget struct {
	what string
	ours figure
	// peer is the tool that ours is compared with, in the same part and metric;
	// empty: the figure itself is judged.
	peer    string
	limit   float64
	atLeast bool // else at most
	// onIdle: only rounds count in which the bare timer held the limit, too.
	onIdle bool
	show   func(float64) string
}

// verdict is how a budget came out.
type verdict string

const (
	held   verdict = "ok"
	missed verdict = "MISSED"
	// undecided: the median misses the budget, but rounds differ so much that as
	// many would miss it by chance where the budget just holds.
	undecided   verdict = "undecided"
	notMeasured verdict = "not measured"
)

// line is a budget with its result, as the table shows it.
type line struct {
	what, own, other, quotient string
	demand                     string
	rounds                     string // in how many of them it held
	verdict                    verdict
	why                        string // why it was not measured
	absent                     bool   // for want of a peer's program, or of an idle core
}

func budgets() []budget {
	b := []budget{
		{what: "HTTP/1.1 closed loop, fast server: client CPU per request", ours: figure{partFast, ours, metricCPU}, peer: "wrk", limit: 0.80, show: us},
		{what: "HTTP/1.1 closed loop, nginx: client CPU per request", ours: figure{partNginx, ours, metricCPU}, peer: "wrk", limit: 1.00, show: us},
		{what: "HTTP/1.1 closed loop, fast server: client CPU per request", ours: figure{partFast, ours, metricCPU}, peer: "fortio", limit: 0.70, show: us},
	}
	for _, p := range []part{partOpen1k, partOpen10k} {
		rate := rateOf(p)
		b = append(b,
			budget{what: rate + ": achieved rate, distance from the asked one", ours: figure{p, ours, metricRateError}, limit: 0.001, show: perMille},
			budget{what: rate + ": own lateness p50", ours: figure{p, ours, metricLate50}, limit: 50e-6, onIdle: true, show: us},
			budget{what: rate + ": own lateness p99", ours: figure{p, ours, metricLate99}, limit: 250e-6, onIdle: true, show: us},
			budget{what: rate + ": dispersion", ours: figure{p, ours, metricDispersion}, peer: "wrk2", limit: 0.33, show: us},
			budget{what: rate + ": dispersion", ours: figure{p, ours, metricDispersion}, peer: "oha", limit: 0.60, show: us},
		)
	}
	for _, p := range []part{partGRPC, partGoGRPC} {
		what := "gRPC unary, 32 streams on 1 connection, " + serverOf(p) + ": client CPU per request"
		b = append(b,
			budget{what: what, ours: figure{p, ours, metricCPU}, peer: "h2load", limit: 0.80, show: us},
			budget{what: what, ours: figure{p, ours, metricCPU}, peer: "fortio", limit: 0.35, show: us},
		)
	}
	return append(b,
		budget{what: "500 ms stall: reported p99, distance from the truth", ours: figure{partStall, ours, metricError99}, limit: 5e-3, show: ms},
		budget{what: "500 ms stall: reported p99.9, distance from the truth", ours: figure{partStall, ours, metricError999}, limit: 5e-3, show: ms},
		budget{what: "TCP stream, blocks of 128 KiB: throughput, Gbit/s", ours: figure{partTCP, ours, metricGbit}, peer: "iperf3", limit: 1.00, atLeast: true, show: gigabits},
		budget{what: "TCP stream, blocks of 128 KiB: CPU per GB, both ends", ours: figure{partTCP, ours, metricBothGB}, peer: "iperf3", limit: 1.00, show: ms},
		budget{what: "UDP at 300 Mbit/s: datagrams counted otherwise than by the receiver's interface", ours: figure{partUDP, ours, metricMiscounted}, limit: 0, show: whole},
		budget{what: "RSS at 32 connections, MB", ours: figure{partFast, ours, metricRSS}, limit: 16e6, show: megabytes},
	)
}

func serverOf(p part) string {
	if p == partGoGRPC {
		return "grpc-go server"
	}
	return "fast server"
}

func rateOf(p part) string {
	if p == partOpen1k {
		return "Open loop 1,000/s"
	}
	return "Open loop 10,000/s"
}

// judge compares figures with a budget. missing are the tools without program.
func (b budget) judge(f *figures, missing []string) line {
	l := line{what: b.what, demand: b.demand(), other: "-", quotient: "-"}
	own := f.of(b.ours)
	l.own = spread(own, b.show)
	judged := own
	if b.peer != "" {
		peer := b.ours
		peer.tool = b.peer
		l.other = b.peer + " " + spread(f.of(peer), b.show)
		judged = f.ratios(b.ours, peer)
		l.quotient = spread(judged, ratio)
		l.absent = slices.Contains(missing, b.peer)
		l.why = f.failed[figure{part: peer.part, tool: peer.tool}]
		if l.absent {
			l.why, l.other = b.peer+" was not found", b.peer+": not found"
		}
	}
	if b.onIdle {
		floor := b.ours
		floor.tool = bareTimer
		judged, l.other = f.idle(b.ours, b.limit), bareTimer+" "+spread(f.of(floor), b.show)
		l.why, l.absent = "the core was not idle: the bare timer itself was later than "+b.show(b.limit)+" in every round", true
	}
	if len(own) == 0 {
		l.absent, l.why = false, f.failed[figure{part: b.ours.part, tool: ours}]
	}
	l.verdict, l.rounds = b.rule(judged)
	if l.verdict == missed && b.onIdle && !telling(len(judged)) && telling(f.rounds) {
		l.verdict = undecided // the core was idle in too few rounds
	}
	return l
}

// chance is the probability that a verdict "missed" is wrong, at most, where
// there are rounds enough to say so.
const chance = 0.05

// rule is the verdict on the rounds: by their median and, if that misses the
// budget, by the sign test of whether it does so by chance. So few rounds that
// the test could never tell are judged by the median alone.
func (b budget) rule(judged []float64) (v verdict, rounds string) {
	holds := func(v float64) bool { return b.atLeast && v >= b.limit || !b.atLeast && v <= b.limit }
	n, misses := len(judged), 0
	for _, v := range judged {
		if !holds(v) {
			misses++
		}
	}
	if n > 1 {
		rounds = fmt.Sprintf("%d of %d rounds", n-misses, n)
	}
	switch {
	case n == 0:
		return notMeasured, rounds
	case holds(median(judged)):
		return held, rounds
	case telling(n) && atLeastHeads(misses, n) > chance:
		return undecided, rounds
	}
	return missed, rounds
}

// telling says whether so many rounds could ever convince the sign test.
func telling(rounds int) bool { return atLeastHeads(rounds, rounds) <= chance }

// atLeastHeads is the probability of that many heads, or more, in n tosses of a
// fair coin.
func atLeastHeads(heads, n int) float64 {
	p, choose := 0.0, 1.0 // n over k
	for k := range n + 1 {
		if k >= heads {
			p += choose
		}
		choose *= float64(n-k) / float64(k+1)
	}
	return p / math.Exp2(float64(n))
}

// demand is the budget in words.
func (b budget) demand() string {
	sign := "<="
	if b.atLeast {
		sign = ">="
	}
	if b.peer != "" {
		return fmt.Sprintf("%s %.2f x %s", sign, b.limit, b.peer)
	}
	return sign + " " + b.show(b.limit)
}
