// Package summary says what came of one load that was run by itself: as text
// for a terminal, as JSON for programs, as one HTML page. It only renders.
package summary

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/audit"
	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Load is one load and what came of it.
type Load struct {
	Version   string // of the program
	Command   string // that asked for it
	URL       string
	Addresses []netip.AddrPort // that connections were made to
	Started   time.Time
	Load      model.Load
	Warmup    time.Duration
	Seed      uint64
	IdleCPUs  string            // of the generator's host: kept awake, or why they may sleep
	CPUs      model.CPUDistance // of the generator's host, where it is a virtual machine
	// Stopped says that the load was ended before its time; Load.Duration is
	// then still what was asked for, Result.Elapsed what was measured.
	Stopped bool
	Result  *model.LoadResult
	// Failed are the conditions that do not hold, in words.
	Failed []string
}

// Outcome is the load as the outcome of a trial: what rules and metrics are
// made for.
func (l *Load) Outcome() model.Outcome {
	return model.Outcome{
		Trial:   model.Trial{Variant: l.URL, Load: l.Load.Name},
		Started: l.Started, Load: l.Result, CPUs: l.CPUs,
	}
}

// Findings are the doubts about the load, the gravest first. They are those of
// a study's trial, by the same rules; only "too few samples" is missing, as
// quantiles here are marked one by one.
func (l *Load) Findings() []model.Finding {
	e := audit.Evidence{Study: model.Study{Loads: []model.Load{l.Load}}, Outcomes: []model.Outcome{l.Outcome()}}
	var kept []model.Finding
	for _, f := range audit.Judge(e, audit.Rules()) {
		if f.Rule == "too few samples" || l.Stopped && f.Rule == "target rate not reached" && l.Load.Pattern.Segments != nil {
			continue // of a rate that varies, only a part was due
		}
		f.Evidence = strings.TrimPrefix(f.Evidence, "trial 0: ")
		f.Trials, f.Variant, f.Load = nil, "", ""
		f.Advice = strings.ReplaceAll(f.Advice, "make design.warmup or the load's duration longer", "give a longer --warmup or --duration")
		kept = append(kept, f)
	}
	return kept
}

// quantiles are those that summaries give.
func quantiles() []float64 { return []float64{0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999} }

// Carries says whether n samples have at least one beyond the quantile q: with
// fewer it is but the maximum, and is not given.
func Carries(n uint64, q float64) bool { return beyond(n, q) >= 1 }

// beyond is how many of n samples lie beyond the quantile q.
func beyond(n uint64, q float64) uint64 {
	return uint64(math.Floor(float64(n)*(1-q) + 1e-6))
}

// quantileName is "p99.9" for 0.999.
func quantileName(q float64) string { return fmt.Sprintf("p%.6g", q*100) }

// sent is how many requests per second were sent.
func (l *Load) sent() float64 { return perSecond(l.Result.Sent, l.Result.Elapsed) }

// rate is how many requests per second succeeded.
func (l *Load) rate() float64 { return perSecond(l.Result.Succeeded, l.Result.Elapsed) }

func perSecond(n uint64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// success is the share of requests that succeeded of those that were due.
func (l *Load) success() float64 {
	if l.Result.Due == 0 {
		return 0
	}
	return float64(l.Result.Succeeded) / float64(l.Result.Due)
}

// cpuShare is the generator's CPU time as a share of its workers' time.
func (l *Load) cpuShare() float64 {
	r := l.Result
	if r.Workers == 0 || r.Elapsed <= 0 {
		return 0
	}
	return r.GeneratorCPU.Seconds() / r.Elapsed.Seconds() / float64(r.Workers)
}

func count(h *hist.Histogram) uint64 {
	if h == nil {
		return 0
	}
	return h.Count()
}
