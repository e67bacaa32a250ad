// Package metric turns a trial's outcome into named numbers. Every number that
// is printed, compared, gated or used by the stop rule comes from here, so that
// "response.p99" means the same everywhere.
//
// Units: seconds for times, bytes for memory, shares (0 to 1), requests,
// messages or datagrams per second, bits per second, segments per 10^9 bytes,
// and CPU-seconds per 1,000 successful requests, per 10^9 bits or per 1,000 packets. Which loads
// have which metrics is in docs/terms.md; a load without one is an error, never
// zero.
package metric

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Metric is one thing that is measured of every trial.
type Metric struct {
	Name   string
	Label  string
	Unit   Unit
	Better Better
}

// Unit is what a metric's value is counted in.
type Unit string

// The units.
const (
	UnitSeconds  Unit = "s"
	UnitRate     Unit = "/s"
	UnitShare    Unit = "share"
	UnitCPUPer1k Unit = "s/1k requests"
	UnitCPUPerGb Unit = "s/Gbit"
	UnitCPUPerPk Unit = "s/1k packets"
	UnitBytes    Unit = "bytes"
	UnitBits     Unit = "bit/s"
	UnitPerGB    Unit = "/GB" // 10^9 bytes
	UnitCount    Unit = ""    // a plain number
)

// Better is the direction in which a metric improves.
type Better string

// The directions.
const (
	BetterLower  Better = "lower"
	BetterHigher Better = "higher"
)

// All returns every metric, in the order in which reports list them.
func All() []Metric {
	quantiles := []string{"p50", "p90", "p99", "p99.9", "mean"}
	label := map[string]string{"p50": "median", "p90": "90th percentile", "p99": "99th percentile", "p99.9": "99.9th percentile", "mean": "mean"}
	var all []Metric
	for _, kind := range []string{"response", "service"} {
		for _, q := range quantiles {
			all = append(all, Metric{kind + "." + q, kind + " time, " + label[q], UnitSeconds, BetterLower})
		}
	}
	all = append(all,
		Metric{"rate", "successes per second", UnitRate, BetterHigher},
		Metric{"rate.highest", "highest rate that held the objectives", UnitRate, BetterHigher},
		Metric{"success", "share of successes", UnitShare, BetterHigher},
	)
	all = append(append(append(all, flows()...), traffics()...), failovers()...)
	return append(all,
		Metric{"cpu.total", "CPU of app, proxies and gateways", UnitCPUPer1k, BetterLower},
		Metric{"cpu.app", "CPU of the app", UnitCPUPer1k, BetterLower},
		Metric{"cpu.sidecar", "CPU of the sidecars", UnitCPUPer1k, BetterLower},
		Metric{"cpu.generator", "CPU of the load generator", UnitCPUPer1k, BetterLower},
		Metric{"cpu.gbit.total", "CPU of app, proxies and gateways", UnitCPUPerGb, BetterLower},
		Metric{"cpu.gbit.app", "CPU of the app", UnitCPUPerGb, BetterLower},
		Metric{"cpu.gbit.sidecar", "CPU of the sidecars", UnitCPUPerGb, BetterLower},
		Metric{"cpu.gbit.generator", "CPU of the load generator", UnitCPUPerGb, BetterLower},
		Metric{"throttled.total", "periods in which a CPU limit stopped app, proxies or gateways", UnitShare, BetterLower},
		Metric{"throttled.app", "periods in which a CPU limit stopped the app", UnitShare, BetterLower},
		Metric{"throttled.sidecar", "periods in which a CPU limit stopped a sidecar", UnitShare, BetterLower},
		Metric{"memory.total", "peak memory of app, proxies and gateways", UnitBytes, BetterLower},
		Metric{"memory.sidecar", "peak memory of the sidecars", UnitBytes, BetterLower},
	)
}

// Names returns the names of all metrics.
func Names() []string {
	var names []string
	for _, m := range All() {
		names = append(names, m.Name)
	}
	return names
}

// Lookup finds a metric by name.
func Lookup(name string) (Metric, bool) {
	all := All()
	i := slices.IndexFunc(all, func(m Metric) bool { return m.Name == name })
	if i < 0 {
		return Metric{}, false
	}
	return all[i], true
}

// Quantile returns the share that a latency metric's name asks for, e.g. 0.999
// for "response.p99.9"; false for means and everything else.
func Quantile(name string) (q float64, ok bool) {
	_, p, found := strings.Cut(name, ".p")
	if !found {
		return 0, false
	}
	percent, err := strconv.ParseFloat(p, 64)
	return percent / 100, err == nil
}

// Histogram returns the distribution that a latency metric is read from, or nil.
func Histogram(o *model.Outcome, name string) *hist.Histogram {
	if o.Load == nil {
		return nil
	}
	switch {
	case strings.HasPrefix(name, "response."):
		return o.Load.Response
	case strings.HasPrefix(name, "service."):
		return o.Load.Service
	}
	return nil
}

// Of returns one metric of one trial. The error says why it cannot be given;
// that a quantile rests on too few samples is for the caller to judge.
func Of(o *model.Outcome, name string) (float64, error) {
	return of(o, name, func() (reading, error) { return readingOf(o) })
}

// Value is what Of returns.
type Value struct {
	Value float64
	Err   error
}

// Values are all metrics of one trial, by name. Its trace is read once.
func Values(o *model.Outcome) map[string]Value {
	read := sync.OnceValues(func() (reading, error) { return readingOf(o) })
	all := map[string]Value{}
	for _, name := range Names() {
		v, err := of(o, name, read)
		all[name] = Value{v, err}
	}
	return all
}

func of(o *model.Outcome, name string, read func() (reading, error)) (float64, error) {
	if o.Load == nil {
		return 0, fmt.Errorf("trial %d measured no load", o.Trial.Index)
	}
	group, part, _ := strings.Cut(name, ".")
	switch group {
	case "response", "service", "rate", "success":
		return requests(o, name)
	case "efficiency":
		return efficiency(o)
	case "fragments":
		return fragments(o)
	case "goodput", "retransmits", "rtt", "loss", "lost", "reordered", "duplicated", "jitter", "datagrams", "messages":
		return flow(o, name)
	case "failover", "failback":
		return failoverOf(name, read)
	case "cpu":
		return cpu(o, part)
	case "throttled":
		return throttled(o, part)
	case "memory":
		return memory(o, part)
	}
	return 0, fmt.Errorf("no metric %q; known: %s", name, strings.Join(Names(), ", "))
}

// requests are the metrics of loads that are made of requests.
func requests(o *model.Outcome, name string) (float64, error) {
	switch {
	case name == "rate.highest" && o.Search == nil:
		return 0, errNoSearch
	case name == "rate.highest":
		return o.Search.Highest, nil
	case IsFlow(o.Load):
		return 0, errNoRequests
	case name == "success" && o.Load.Due == 0:
		return 0, fmt.Errorf("trial %d sent nothing", o.Trial.Index)
	case name == "success":
		return float64(o.Load.Succeeded) / float64(o.Load.Due), nil
	case name == "rate" && o.Load.Elapsed <= 0:
		return 0, fmt.Errorf("trial %d measured no time", o.Trial.Index)
	case name == "rate":
		return o.Load.Achieved(), nil
	}
	return latency(o, name)
}

func latency(o *model.Outcome, name string) (float64, error) {
	h := Histogram(o, name)
	if h == nil || h.Count() == 0 {
		return 0, fmt.Errorf("trial %d has no successes", o.Trial.Index)
	}
	if q, ok := Quantile(name); ok {
		return h.Quantile(q).Seconds(), nil
	}
	return h.Mean().Seconds(), nil
}

func cpu(o *model.Outcome, part string) (float64, error) {
	part, perGbit := strings.CutPrefix(part, "gbit.")
	part, perPackets := strings.CutPrefix(part, "packets.")
	done, err := work(o, perGbit)
	if perPackets {
		done, err = clientPackets(o)
	}
	if err != nil {
		return 0, err
	}
	if seconds, asked, err := hostCPU(o, part); asked {
		return seconds / done, err
	}
	var sum float64
	found := false
	for _, u := range Usages(o) {
		if belongs(u.Component, part) {
			sum, found = sum+u.CPU, true
		}
	}
	if !found {
		return absent(o, part)
	}
	return sum / done, nil
}

// throttled is the share of the quota's periods in which a component was
// stopped, over all pods. What has no limit has no periods.
func throttled(o *model.Outcome, part string) (float64, error) {
	var stopped, periods float64
	for _, u := range Usages(o) {
		if belongs(u.Component, part) {
			stopped, periods = stopped+u.Periods, periods+u.Quotas
		}
	}
	if periods <= 0 {
		return 0, fmt.Errorf("%w: nothing of %s ran under a CPU limit", ErrOtherLoad, part)
	}
	return stopped / periods, nil
}

func memory(o *model.Outcome, part string) (float64, error) {
	var sum float64
	found := false
	sampled := false
	for _, u := range Usages(o) {
		sampled = sampled || u.MemoryPeak > 0
		if belongs(u.Component, part) {
			sum, found = sum+u.MemoryPeak, true
		}
	}
	switch {
	case !sampled:
		return 0, errors.New("memory was not sampled")
	case !found:
		return absent(o, part)
	}
	return sum, nil
}

// absent tells a component that a variant does not have (it costs nothing)
// from figures that this host cannot give.
func absent(o *model.Outcome, part string) (float64, error) {
	if len(o.Samples) > 0 && len(Usages(o)) > 0 {
		return 0, nil
	}
	reason := "not sampled"
	if len(o.Unavailable) > 0 {
		reason = strings.Join(o.Unavailable, "; ")
	}
	return 0, fmt.Errorf("%s: %s", part, reason)
}

func belongs(component, part string) bool {
	if part == "total" {
		return component != string(model.ComponentGenerator) && component != string(model.ComponentFault)
	}
	return component == part
}
