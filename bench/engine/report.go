package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/model"
)

// report is everything that the document says.
type report struct {
	options options
	host    model.Host
	tools   []*tool
	figures *figures
	missing []string
	lines   []line
}

func newReport(o options, host model.Host, all []*tool, f *figures, missing []string) *report {
	r := &report{options: o, host: host, tools: all, figures: f, missing: missing}
	for _, b := range budgets() {
		if o.wants(trial{part: b.ours.part, tool: ours}) && (b.peer == "" || o.wants(trial{part: b.ours.part, tool: b.peer})) {
			r.lines = append(r.lines, b.judge(f, missing))
		}
	}
	for _, a := range agreements() {
		if o.wants(trial{part: partAgree, tool: ours}) && o.wants(trial{part: partAgree, tool: a.peer}) {
			r.lines = append(r.lines, a.judge(f, missing))
		}
	}
	return r
}

// failed says whether a budget was missed, or could not be judged for want of
// figures; with strict, for any reason.
func (r *report) failed(strict bool) bool {
	return slices.ContainsFunc(r.lines, func(l line) bool {
		return l.verdict == missed || l.verdict == notMeasured && !l.absent || strict && l.verdict != held
	}) || histogramError() > maxHistogramError || !mergesExactly()
}

// column is one figure of a section's table.
type column struct {
	title  string
	part   part
	metric metric
	show   func(float64) string
}

// section is a table with a row for each tool.
type section struct {
	title, text string
	columns     []column
}

func sections() []section {
	open := func(p part) []column {
		return []column{
			{"achieved /s", p, metricRate, one},
			{"dispersion, us", p, metricDispersion, wholeMicros},
			{"client CPU, us per request", p, metricCPU, micros},
			{"own lateness p50, us", p, metricLate50, micros},
			{"p99, us", p, metricLate99, micros},
		}
	}
	return []section{
		{"HTTP/1.1, closed loop, 32 connections", "Requests are counted by the server, CPU time and memory by the kernel.", []column{
			{"fast server: QPS", partFast, metricQPS, thousands},
			{"client CPU, us per request", partFast, metricCPU, micros},
			{"RSS, MB", partFast, metricRSS, megabytes},
			{"nginx: QPS", partNginx, metricQPS, thousands},
			{"client CPU, us per request", partNginx, metricCPU, micros},
		}},
		{"Open loop, 1,000/s", "Dispersion is the 99th percentile of the distances between the arrivals at the server, as its kernel stamps them, and the ideal grid. Lateness is sent - due; the bare timer sleeps on the same grid and does nothing else.", open(partOpen1k)},
		{"Open loop, 10,000/s", "", open(partOpen10k)},
		{"A stall of 500 ms in a run at 1,000/s", "The server is stopped for half a second. Whoever is due in that time waits for its end: the truth follows from the schedule.", []column{
			{"true p99, ms", partStall, metricTruth99, millis},
			{"reported", partStall, metricP99, millis},
			{"true p99.9, ms", partStall, metricTruth999, millis},
			{"reported", partStall, metricP999, millis},
		}},
		{"gRPC unary, closed loop, 32 streams on 1 connection", "The fast server answers in batches, as requests come in; grpc-go's come as goroutines make them, which costs every client more.", []column{
			{"fast server: QPS", partGRPC, metricQPS, thousands},
			{"client CPU, us per request", partGRPC, metricCPU, micros},
			{"RSS, MB", partGRPC, metricRSS, megabytes},
			{"grpc-go: QPS", partGoGRPC, metricQPS, thousands},
			{"client CPU, us per request", partGoGRPC, metricCPU, micros},
		}},
		{"TCP stream, one connection, blocks of 128 KiB", "Bytes are counted by the server's interface.", []column{
			{"Gbit/s", partTCP, metricGbit, gigabits},
			{"sender CPU, ms per GB", partTCP, metricClientGB, millis},
			{"receiver CPU, ms per GB", partTCP, metricServerGB, millis},
		}},
		{"UDP at 300 Mbit/s", "Datagrams of 1,448 bytes. The receiver is stopped for 300 ms, so that its socket overflows while its interface goes on counting.", []column{
			{"sent", partUDP, metricSent, whole},
			{"counted as received", partUDP, metricCounted, whole},
			{"at the receiver's interface", partUDP, metricArrived, whole},
			{"dropped by its socket", partUDP, metricDropped, whole},
			{"loss counted", partUDP, metricLoss, perMille},
		}},
		{"UDP ping-pong, one at a time", "", []column{
			{"RTT p50, us", partPing, metricP50, micros},
			{"p99, us", partPing, metricP99, micros},
		}},
		{"Agreement: nginx, open loop at 1,000/s", "Response time as each tool reports it; in brackets the extremes over the rounds.", []column{
			{"fast server: p50, us", partAgree, metricFloor50, wholeMicros},
			{"p99, us", partAgree, metricFloor99, wholeMicros},
			{"nginx: p50, us", partAgree, metricP50, wholeMicros},
			{"p99, us", partAgree, metricP99, wholeMicros},
		}},
	}
}

func (r *report) markdown() string {
	var b strings.Builder
	b.WriteString(intro)
	r.writeMachine(&b)
	r.writeBudgets(&b)
	for _, s := range sections() {
		r.writeSection(&b, s)
	}
	return b.String()
}

const intro = `# The load engine beside the tools that people use

This page is written by ` + "`make bench-engine`" + `: one run of all tools, interleaved, against the same servers, each tool on one core and
the server on another, in network namespaces of their own joined by a veth pair. What is measured and how:
[bench/engine](../bench/engine/README.md). CPU per request is the firmest figure here; throughput on shared hosts is the least firm. A
figure is the median over the rounds, with the extremes in brackets; a ratio is the median of the rounds' own ratios.

`

func (r *report) writeMachine(b *strings.Builder) {
	h := r.host
	virtual := h.Virtualised
	if virtual == "" {
		virtual = "no"
	}
	fmt.Fprintf(b, "## The machine\n\n| | |\n|---|---|\n| when | %s |\n", time.Now().UTC().Format("2006-01-02 15:04 MST"))
	fmt.Fprintf(b, "| CPU | %s, %d cores; virtualised: %s |\n| kernel | %s %s, %s |\n", h.CPU, h.Cores, virtual, h.OS, h.Kernel, h.Arch)
	fmt.Fprintf(b, "| rounds | %d of %s, seed %d |\n", r.options.rounds, r.options.window, r.options.seed)
	some, paced := partFast.bears(), partOpen1k.bears()
	fmt.Fprintf(b, "| hypervisor | trials with more than %s of the time stolen (of paced loads %s), or with CPUs elsewhere, were run again: %d times; %d were disturbed in each of %d (%d) tries, %d of them by CPUs elsewhere, and the least disturbed counts |\n",
		perMille(some.share), perMille(paced.share), r.figures.repeated, r.figures.disturbed, some.tries, paced.tries, r.figures.elsewhere)
	if r.figures.place.Usual() > 0 {
		fmt.Fprintf(b, "| distance of the CPUs | usually %s to read a cache line that the other has just written |\n", r.figures.place.Usual())
	}
	fmt.Fprintf(b, "| idle CPUs | %s |\n", h.IdleCPUs)
	fmt.Fprintf(b, "| TCP congestion control | %s |\n", cmp.Or(r.options.congestion, h.Congestion))
	for _, t := range r.tools {
		says := t.says
		if t.path == "" {
			says = "not found; to get it: `" + t.build + "`"
		}
		fmt.Fprintf(b, "| %s | %s |\n", t.name, says)
	}
	for _, n := range h.Notes {
		fmt.Fprintf(b, "| note | %s |\n", n)
	}
	b.WriteString("\n")
}

func (r *report) writeBudgets(b *strings.Builder) {
	b.WriteString("## Budgets\n\n| what | ours | peer | ratio | budget | holds in | |\n|---|---|---|---|---|---|---|\n")
	var why []string
	for _, l := range r.lines {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s |\n", l.what, l.own, l.other, l.quotient, l.demand, cmp.Or(l.rounds, "-"), l.verdict)
		if l.verdict == notMeasured && l.why != "" {
			why = append(why, l.why)
		}
	}
	judged := func(ok bool) verdict {
		if ok {
			return held
		}
		return missed
	}
	worst := histogramError()
	fmt.Fprintf(b, "| Histogram: largest relative error from 1 us to 1 h | %s | - | - | <= %s | - | %s |\n",
		perMille(worst), perMille(maxHistogramError), judged(worst <= maxHistogramError))
	fmt.Fprintf(b, "| Histogram: merge of parts equals the whole | - | - | - | exact | - | %s |\n", judged(mergesExactly()))
	b.WriteString("| Allocations per request | by tests of `internal/load` and its protocols, which `make bench-engine` runs first | - | - | 0 | - | ok |\n\n")
	for _, w := range slices.Compact(slices.Sorted(slices.Values(why))) {
		fmt.Fprintf(b, "Not measured: %s\n\n", strings.ReplaceAll(w, "\n", " "))
	}
}

func names(tools []*tool) []string {
	var all []string
	for _, t := range tools {
		all = append(all, t.name)
	}
	return all
}

func (r *report) writeSection(b *strings.Builder, s section) {
	var rows strings.Builder
	for _, name := range append([]string{bareTimer}, names(r.tools)...) {
		cells, measured := make([]string, len(s.columns)), false
		for i, c := range s.columns {
			values := r.figures.of(figure{c.part, name, c.metric})
			cells[i], measured = spread(values, c.show), measured || len(values) > 0
		}
		if measured {
			fmt.Fprintf(&rows, "| %s | %s |\n", name, strings.Join(cells, " | "))
		}
	}
	if rows.Len() == 0 {
		return
	}
	fmt.Fprintf(b, "## %s\n\n", s.title)
	if s.text != "" {
		fmt.Fprintf(b, "%s\n\n", s.text)
	}
	b.WriteString("| tool |")
	for _, c := range s.columns {
		fmt.Fprintf(b, " %s |", c.title)
	}
	fmt.Fprintf(b, "\n|---|%s\n%s\n", strings.Repeat("---|", len(s.columns)), rows.String())
}

// maxHistogramError is the budget of the histogram, as a share.
const maxHistogramError = 0.004

// histogramError is the largest relative error with which a single value comes
// back, over values from 1 us to 1 h that are close together on a log scale.
func histogramError() float64 {
	worst := 0.0
	for v := float64(time.Microsecond); v <= float64(time.Hour); v *= 1.003 {
		var h hist.Histogram
		exact := int64(v)
		// A larger value beside it, or its own maximum would tell it exactly.
		h.Record(exact)
		h.Record(hist.Highest)
		worst = max(worst, math.Abs(float64(h.Quantile(0.5)-time.Duration(exact)))/float64(exact))
	}
	return worst
}

// mergesExactly says whether histograms of parts, merged, are the histogram of
// the whole.
func mergesExactly() bool {
	var whole, merged hist.Histogram
	parts := make([]hist.Histogram, 3)
	for i := range int64(100_000) {
		v := i * i % int64(time.Minute)
		whole.Record(v)
		parts[i%3].Record(v)
	}
	for i := range parts {
		merged.Merge(&parts[i])
	}
	return merged == whole
}
