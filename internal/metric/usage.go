package metric

import (
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Usage is what one component of one pod used in exactly the measured window.
type Usage struct {
	Pod       string
	Component string
	CPU       float64 // seconds
	// Throttled is the time, in seconds, in which the component wanted to run
	// and its CPU limit forbade it; Periods the number of such periods.
	Throttled  float64
	Periods    float64
	Quotas     float64 // periods in which it ran under a limit; 0: it has none
	MemoryPeak float64 // bytes, highest reading in the window
	MemoryMean float64 // bytes
	// Killed are processes that the kernel has ended, from the first reading to
	// the last, because the limit left the component no memory.
	Killed float64
	// Covered is the share of the window that the readings span.
	Covered float64
}

// Usages derives, from the raw samples, what every component used in the
// window, sorted by pod and component. Counters are interpolated linearly at
// the window's two edges.
func Usages(o *model.Outcome) []Usage {
	index := map[string]int{}
	var all []Usage
	for _, s := range o.Samples {
		pod, component, ok := strings.Cut(s.Subject, "/")
		if !ok {
			continue
		}
		i, seen := index[s.Subject]
		if !seen {
			i = len(all)
			index[s.Subject] = i
			all = append(all, Usage{Pod: pod, Component: component})
		}
		fill(&all[i], s, o.Window)
	}
	sort.Slice(all, func(i, j int) bool {
		return all[i].Pod+"/"+all[i].Component < all[j].Pod+"/"+all[j].Component
	})
	return all
}

func fill(u *Usage, s model.Series, w model.Window) {
	switch s.Metric {
	case model.SampleCPU:
		u.CPU, u.Covered = Delta(s, w)
	case model.SampleThrottled:
		u.Throttled, _ = Delta(s, w)
	case model.SampleThrottledPeriods:
		u.Periods, _ = Delta(s, w)
	case model.SampleQuotaPeriods:
		u.Quotas, _ = Delta(s, w)
	case model.SampleMemoryKills:
		if n := len(s.Values); n > 0 {
			u.Killed = s.Values[n-1] - s.Values[0]
		}
	case model.SampleMemory:
		u.MemoryPeak, u.MemoryMean = gauge(s, w)
	}
}

// Delta is by how much a counter grew in the window, and the share of the
// window that its readings cover. Uncovered edges are not extrapolated.
func Delta(s model.Series, w model.Window) (delta, covered float64) {
	if len(s.At) < 2 || w.End <= w.Start {
		return 0, 0
	}
	from := max(w.Start, s.At[0])
	to := min(w.End, s.At[len(s.At)-1])
	if to <= from {
		return 0, 0
	}
	return at(s, to) - at(s, from), float64(to-from) / float64(w.End-w.Start)
}

// at interpolates a series at a moment inside its span.
func at(s model.Series, t int64) float64 {
	i, exact := slices.BinarySearch(s.At, t)
	if exact {
		return s.Values[i]
	}
	span := float64(s.At[i] - s.At[i-1])
	return s.Values[i-1] + (s.Values[i]-s.Values[i-1])*float64(t-s.At[i-1])/span
}

func gauge(s model.Series, w model.Window) (peak, mean float64) {
	n := 0
	for i, t := range s.At {
		if t < w.Start || t > w.End {
			continue
		}
		peak = max(peak, s.Values[i])
		mean += s.Values[i]
		n++
	}
	if n == 0 {
		return 0, 0
	}
	return peak, mean / float64(n)
}

// Host is the noise of the host in the window.
type Host struct {
	// Steal is the share of all CPUs' time that the hypervisor took.
	Steal float64
	// Busy is the number of CPUs in use, on average.
	Busy float64
	// RunQueueMean and RunQueueMax count runnable tasks, the sampler included.
	RunQueueMean, RunQueueMax float64
	Known                     bool
}

// StealLimit is the share of all CPUs' time above which a trial measured the
// hypervisor that took it. It is far above the 2 to 16 % that a busy guest sees
// by itself on the hosts that we have.
const StealLimit = 0.25

// CPUDistances are how far apart a virtual machine's CPUs were before the loads:
// the median and the extremes of the trials that say; 0: none does.
func CPUDistances(all []model.Outcome) (usual, least, most time.Duration) {
	var known []time.Duration
	for i := range all {
		if d := all[i].CPUs.Before; d > 0 {
			known = append(known, d)
		}
	}
	if len(known) == 0 {
		return 0, 0, 0
	}
	slices.Sort(known)
	return known[len(known)/2], known[0], known[len(known)-1]
}

// HostNoise derives the host's noise from the raw samples. cores is the number
// of CPUs of the host.
func HostNoise(o *model.Outcome, cores int) Host {
	var h Host
	seconds := o.Window.Duration().Seconds()
	if seconds <= 0 || cores <= 0 {
		return h
	}
	for _, s := range o.Samples {
		if s.Subject != model.SubjectHost {
			continue
		}
		switch s.Metric {
		case model.SampleSteal:
			d, covered := Delta(s, o.Window)
			h.Steal, h.Known = d/seconds/float64(cores), covered > 0
		case model.SampleBusy:
			d, _ := Delta(s, o.Window)
			h.Busy = d / seconds
		case model.SampleRunQueue:
			h.RunQueueMax, h.RunQueueMean = gauge(s, o.Window)
		}
	}
	return h
}
