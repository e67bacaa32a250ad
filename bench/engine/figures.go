package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/placement"
	"github.com/windtunnel/windtunnel/internal/sample/host"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// figure names what is measured of one tool in one part.
type figure struct {
	part   part
	tool   string
	metric metric
}

type part string

// The parts; each can be chosen by its name.
const (
	partFast    part = "fast"
	partNginx   part = "nginx"
	partOpen1k  part = "open1k"
	partOpen10k part = "open10k"
	partStall   part = "stall"
	partGRPC    part = "grpc"
	partGoGRPC  part = "gogrpc"
	partTCP     part = "tcp"
	partUDP     part = "udp"
	partPing    part = "ping"
	partAgree   part = "agree"
)

type metric string

const (
	metricQPS        metric = "QPS"
	metricCPU        metric = "client CPU per request" // seconds
	metricRSS        metric = "RSS"                    // bytes
	metricRate       metric = "achieved rate"          // per second
	metricRateError  metric = "error of the rate"      // share
	metricDispersion metric = "dispersion"             // seconds
	metricLate50     metric = "lateness p50"
	metricLate99     metric = "lateness p99"
	metricP50        metric = "p50"
	metricP99        metric = "p99"
	metricP999       metric = "p99.9"
	metricFloor50    metric = "p50 against the fast server"
	metricFloor99    metric = "p99 against the fast server"
	metricTruth99    metric = "true p99"
	metricTruth999   metric = "true p99.9"
	metricError99    metric = "error of p99"
	metricError999   metric = "error of p99.9"
	metricGbit       metric = "throughput"        // bit/s
	metricClientGB   metric = "client CPU per GB" // seconds
	metricServerGB   metric = "server CPU per GB"
	metricBothGB     metric = "CPU per GB"
	metricSent       metric = "datagrams sent"
	metricCounted    metric = "datagrams counted"
	metricArrived    metric = "datagrams at the interface"
	metricDropped    metric = "datagrams dropped by the socket"
	metricMiscounted metric = "datagrams miscounted"
	metricLoss       metric = "loss"
)

// figures holds a value for each round of each figure; NaN: none.
type figures struct {
	mu     sync.Mutex
	rounds int
	values map[figure][]float64
	// failed says why a tool's trial in a part has given nothing.
	failed map[figure]string
	// place is where a hypervisor has the CPUs.
	place *placement.Watch
	// repeated is how many trials were run again because a hypervisor disturbed
	// them, disturbed how many were kept in spite of it, and elsewhere how many of
	// these because the CPUs were not in their usual place.
	repeated, disturbed, elsewhere int
}

func newFigures(rounds int) *figures {
	return &figures{rounds: rounds, values: map[figure][]float64{}, failed: map[figure]string{}}
}

// disturbance is how much of all CPUs' time a hypervisor may give to others
// during a trial, as a share, and how often a trial with more is run again, or
// one during which CPUs were not in their usual place. It hits whoever happens to
// run, so it says nothing of the tools.
type disturbance struct {
	share float64
	tries int
}

// bears is how much disturbance a part bears. A paced load waits most of the
// time, and one stall of 10 ms in a second is its whole p99: not even the
// smallest that a kernel counts, a hundredth of a second, leaves a figure.
func (p part) bears() disturbance {
	if p == partOpen1k || p == partOpen10k || p == partAgree {
		return disturbance{share: 0.001, tries: 3}
	}
	return disturbance{share: 0.05, tries: 3}
}

// judged says whether a tool's figures in a part decide a budget.
func (t trial) judged() bool {
	if t.part == partAgree {
		return t.tool == ours || slices.ContainsFunc(agreements(), func(a agreement) bool { return a.peer == t.tool })
	}
	return slices.ContainsFunc(budgets(), func(b budget) bool {
		return b.ours.part == t.part && (t.tool == ours || t.tool == b.peer || b.onIdle && t.tool == bareTimer)
	})
}

// attempt is a trial run once, and what a hypervisor did meanwhile.
type attempt struct {
	got       map[metric]float64
	broken    error
	stolen    float64 // share of all CPUs' time
	elsewhere bool    // CPUs were not in their usual place, before it or after
}

// better says whether an attempt is worth more than another: what did not break
// first, then what ran in the usual place, then what had less stolen from it.
func (a attempt) better(than attempt) bool {
	switch {
	case (a.broken == nil) != (than.broken == nil):
		return a.broken == nil
	case a.elsewhere != than.elsewhere:
		return than.elsewhere
	}
	return a.stolen < than.stolen
}

func (a attempt) within(limit disturbance) bool {
	return a.broken == nil && !a.elsewhere && a.stolen <= limit.share
}

// undisturbed runs a trial until it did not break and a hypervisor let it be, or
// its tries are used up; the best of them counts. The rule is the same for all
// tools that decide a budget, and looks at nothing else that they do; the others
// are not run again.
func (f *figures) undisturbed(ctx context.Context, t trial, rest time.Duration) (map[metric]float64, error) {
	limit := t.part.bears()
	if !t.judged() {
		limit.tries = 1
	}
	var best attempt
	for try := range limit.tries {
		if try > 0 {
			f.repeated++
		}
		a, err := f.attempt(ctx, t, rest)
		if err != nil {
			return nil, err
		}
		if try == 0 || a.better(best) {
			best = a
		}
		if best.within(limit) {
			return best.got, nil
		}
	}
	if best.broken != nil {
		return nil, best.broken
	}
	f.disturbed++
	if best.elsewhere {
		f.elsewhere++
	}
	return best.got, nil
}

// attempt runs a trial once. Before it the machine rests: hypervisors take more
// from who has just used much. The error is not the trial's own.
func (f *figures) attempt(ctx context.Context, t trial, rest time.Duration) (a attempt, err error) {
	if err = sys.Sleep(ctx, rest); err != nil {
		return a, err
	}
	was, err := f.place.Settle(ctx)
	if err != nil {
		return a, err
	}
	before, err := steal(ctx)
	if err != nil {
		return a, err
	}
	began := time.Now()
	a.got, a.broken = t.run(ctx)
	after, err := steal(ctx)
	if err != nil {
		return a, err
	}
	a.stolen = (after - before) / (time.Since(began).Seconds() * float64(runtime.NumCPU()))
	usual, is := f.place.Usual(), f.place.Distance()
	a.elsewhere = model.Elsewhere(usual, was) || model.Elsewhere(usual, is)
	return a, nil
}

// steal is the stolen time of all CPUs since the machine's start, in seconds.
func steal(ctx context.Context) (float64, error) {
	readings, err := host.Sampler{}.Sample(ctx, nil)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(readings, func(r model.Reading) bool { return r.Metric == model.SampleSteal })
	return readings[i].Value, nil
}

func (f *figures) record(round int, at figure, value float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.values[at] == nil {
		f.values[at] = slices.Repeat([]float64{math.NaN()}, f.rounds)
	}
	f.values[at][round] = value
}

// of are a figure's values of all rounds that have one.
func (f *figures) of(at figure) []float64 {
	return slices.DeleteFunc(slices.Clone(f.values[at]), math.IsNaN)
}

// ratios are the quotients of two figures, round by round.
func (f *figures) ratios(a, b figure) []float64 {
	over, under := f.values[a], f.values[b]
	var out []float64
	for i := range min(len(over), len(under)) {
		if q := over[i] / under[i]; !math.IsNaN(q) && !math.IsInf(q, 0) {
			out = append(out, q)
		}
	}
	return out
}

// idle are a figure's values of the rounds in which the machine itself held a
// limit for it, as the bare timer says.
func (f *figures) idle(at figure, limit float64) []float64 {
	floor := at
	floor.tool = bareTimer
	var out []float64
	for i, v := range f.values[at] {
		if floors := f.values[floor]; floors != nil && floors[i] <= limit && !math.IsNaN(v) {
			out = append(out, v)
		}
	}
	return out
}

// median is the middle value, or the mean of the two middle ones.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// spread writes the median and, of several rounds, the extremes.
func spread(values []float64, show func(float64) string) string {
	switch len(values) {
	case 0:
		return "-"
	case 1:
		return show(values[0])
	}
	return fmt.Sprintf("%s (%s-%s)", show(median(values)), show(slices.Min(values)), show(slices.Max(values)))
}

// How figures are shown.

func thousands(v float64) string { return fmt.Sprintf("%.0fk", v/1e3) }
func micros(v float64) string    { return fmt.Sprintf("%.2f", v*1e6) }
func wholeMicros(v float64) string {
	return fmt.Sprintf("%.0f", v*1e6)
}
func millis(v float64) string    { return fmt.Sprintf("%.2f", v*1e3) }
func megabytes(v float64) string { return fmt.Sprintf("%.1f", v/1e6) }
func gigabits(v float64) string  { return fmt.Sprintf("%.1f", v/1e9) }
func perMille(v float64) string  { return fmt.Sprintf("%.3f %%", v*100) }
func one(v float64) string       { return fmt.Sprintf("%.1f", v) }
func whole(v float64) string     { return fmt.Sprintf("%.0f", v) }
func ratio(v float64) string     { return fmt.Sprintf("%.2f", v) }

func ms(v float64) string { return millis(v) + " ms" }
func us(v float64) string { return micros(v) + " us" }

func micro(v float64) string { return wholeMicros(v) + " us" }
