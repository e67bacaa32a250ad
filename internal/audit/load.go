package audit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Thresholds of the rules about loads. Each is a judgement; the reason stands
// beside it.
const (
	rateTolerance = 0.01                   // the engine itself holds 0.1 %: ten times that is not noise
	lateBudget    = 250 * time.Microsecond // what the engine keeps at p99 on a core of its own, docs/engine.md
	lateSuspect   = 5 * time.Millisecond   // comparable to what is measured on a LAN
	busyShare     = 0.90                   // of the generator's workers: above it queueing inside the generator shows
	littleShare   = 0.05                   // Little's law: N = X (R + Z + turnaround), see docs/method.md
	failureRest   = 20 * time.Millisecond  // how long a connection of a closed loop rests after a failure
	blockedNote   = 0.01                   // of all requests: p99 is then a matter of the connections, too
)

func requestsFailed() Rule {
	return TrialRule{
		Name:   "requests failed",
		Doc:    "Failed and unsent requests are reported by cause and never enter the latency of successes.",
		Saved:  "GEO (1.4 ms refusals counted in its latency percentiles)",
		Advice: "latencies are of successes only; read them together with the success share",
		Check: func(e Evidence, o *model.Outcome) *Doubt {
			if o.Load == nil || o.Load.FailedTotal()+o.Load.Unsent == 0 || o.Load.Datagrams != nil {
				return nil // loss is a metric of its own, and what was not sent is rateMissed's
			}
			var causes []string
			for c, n := range o.Load.Failed {
				text := fmt.Sprintf("%d %s", n, c)
				if c == model.CauseStatus {
					text += statuses(o.Load.Statuses, e.load(o).Protocol == "grpc")
				}
				causes = append(causes, text)
			}
			slices.Sort(causes)
			if o.Load.Unsent > 0 {
				causes = append(causes, fmt.Sprintf("%d unsent", o.Load.Unsent))
			}
			bad := float64(o.Load.FailedTotal()+o.Load.Unsent) / float64(max(o.Load.Due, 1))
			severity := model.SeverityNote
			if bad > 0.01 && len(o.Faults) == 0 {
				severity = model.SeveritySuspect
			}
			cause := "not every request succeeded"
			if len(o.Faults) > 0 {
				cause += ", as is to be expected under a fault" // what failed is the result: failover.failed
			}
			if o.Load.Stream != nil {
				cause = "not every stream held until the end"
			}
			return &Doubt{severity, bad, cause, fmt.Sprintf("of %d due: %s%s", o.Load.Due, strings.Join(causes, ", "), unnoticed(o))}
		},
	}
}

// unnoticed explains a fault that nobody but the clients met: with Envoy's connect
// timeout of 10 s and clients that wait for 1 s, outlier detection has nothing to
// go by.
func unnoticed(o *model.Outcome) string {
	if n := o.Load.Failed[model.CauseTimeout]; len(o.Faults) == 0 || n == 0 || n != o.Load.FailedTotal() {
		return ""
	}
	return ", all given up by the client: a proxy that takes endpoints out by errors learns of it only if its own time-outs or health checks are quicker"
}

// statuses names the bad ones, e.g. " (12 UNAVAILABLE)"; HTTP's as numbers.
func statuses(counts map[int]uint64, grpc bool) string {
	var codes []int
	for code := range counts {
		if (grpc && code != 0) || (!grpc && code >= 400) {
			codes = append(codes, code)
		}
	}
	if len(codes) == 0 {
		return ""
	}
	slices.Sort(codes)
	var parts []string
	for _, code := range codes {
		name := fmt.Sprintf("status %d", code)
		if names := grpcStatuses(); grpc && code > 0 && code < len(names) {
			name = names[code]
		}
		parts = append(parts, fmt.Sprintf("%d %s", counts[code], name))
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// grpcStatuses are the names of gRPC's status codes, in order.
func grpcStatuses() []string {
	return []string{
		"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
		"FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
	}
}

func queueingDropped() Rule {
	return TrialRule{
		Name:    "waiting requests given up",
		Metrics: []string{"response"},
		Doc:     "A load that gives up what it cannot send at once keeps the slowest requests out of the response times.",
		Saved:   "SIDECAR (paced with catch-up: up to 16 % of its sleeps came too late, and its p99.9 does not say so)",
		Advice:  "read response times together with the unsent; without drop, waiting is part of the response time",
		Check: func(e Evidence, o *model.Outcome) *Doubt {
			if o.Load == nil || o.Load.Unsent == 0 || !e.load(o).Drop {
				return nil
			}
			return &Doubt{
				model.SeveritySuspect, float64(o.Load.Unsent), "requests were given up instead of waiting: their response times are missing",
				fmt.Sprintf("%d of %d due were given up, as drop asks", o.Load.Unsent, o.Load.Due),
			}
		},
	}
}

func requestsBlocked() Rule {
	return TrialRule{
		Name:    "requests waited for a connection",
		Metrics: []string{"response"},
		Doc:     "A request that waits for a free connection meets the load's own limit on connections, which a user might not have.",
		Saved:   "MULTICLUSTER (one connection: the rate in its tables is 1/latency)",
		Advice:  "the waiting is in the response time, not in the service time; more connections lessen it",
		Check: func(_ Evidence, o *model.Outcome) *Doubt {
			if o.Load == nil || o.Load.Sent == 0 {
				return nil
			}
			share := float64(o.Load.Blocked) / float64(o.Load.Sent)
			if share <= blockedNote {
				return nil
			}
			return &Doubt{
				model.SeverityNote, share, "requests had to wait for a free connection",
				fmt.Sprintf("%.1f %% of %d sent waited for one of %d connections", share*100, o.Load.Sent, o.Load.Connections),
			}
		},
	}
}

func rateMissed() Rule {
	return TrialRule{
		Name:   "target rate not reached",
		Doc:    "An open loop that sends less than it was asked to measures another load than the one it names.",
		Saved:  "SIDECAR (80 of 80 Istio runs at the 'safe' rate fell behind)",
		Advice: "lower the rate, add connections, or give the generator more CPU",
		Check: func(e Evidence, o *model.Outcome) *Doubt {
			if o.Load == nil || o.Load.Arrival != model.ArrivalOpen || o.Load.Rate == 0 || o.Load.Elapsed <= 0 {
				return nil
			}
			sent := o.Load.Sent
			if d := o.Load.Datagrams; d != nil {
				sent = d.Sent
			}
			got := float64(sent) / o.Load.Elapsed.Seconds()
			miss := 1 - got/o.Load.Rate
			// A window of whole requests may hold one less than rate times duration.
			if miss <= rateTolerance || o.Load.Rate*o.Load.Elapsed.Seconds()-float64(sent) <= 1 {
				return nil
			}
			text := fmt.Sprintf("sent %.1f/s of %.1f/s (%.1f %% short)", got, o.Load.Rate, miss*100)
			// That so little gets through is then what the study asks about: what was
			// not sent counts against success.
			if worst := mostThrottled(o); o.Load.Blocked+o.Load.Unsent > 0 && e.asksFor(o, worst) && worst.Periods >= stoppedShare*worst.Quotas {
				return &Doubt{model.SeveritySuspect, miss, "a CPU limit that the study sets let less through than the load asks for", text + "; " + waited(worst)}
			}
			return &Doubt{model.SeverityInvalid, miss, "the load was lighter than its name says", text}
		},
	}
}

func generatorLate() Rule {
	return TrialRule{
		Name:    "generator late",
		Metrics: []string{"response", "jitter"},
		Doc:     "Lateness without a blocked connection is the generator's own and is part of every response time.",
		Saved:   "SIDECAR (fortio 'sleep falling behind' warnings, not reported)",
		Advice:  "give the generator a core of its own and keep idle CPUs awake (root does), or look at service time beside response time",
		Check: func(e Evidence, o *model.Outcome) *Doubt {
			if o.Load == nil || o.Load.Lateness == nil || o.Load.Lateness.Count() == 0 {
				return nil
			}
			p99, asked := o.Load.Lateness.Quantile(0.99), e.load(o).Coalesce
			if p99 <= lateBudget+asked {
				return nil
			}
			severity := model.SeverityNote
			if p99 > lateSuspect+asked {
				severity = model.SeveritySuspect
			}
			text := fmt.Sprintf("lateness p50 %s, p99 %s, most %s; budget of p99 %s", round(o.Load.Lateness.Quantile(0.5)), round(p99), round(o.Load.Lateness.Max()), lateBudget)
			if asked > 0 {
				text += fmt.Sprintf(" + %s as coalesce asks", asked)
			}
			return &Doubt{severity, p99.Seconds(), "the generator sent later than the schedule says", text}
		},
	}
}

func generatorSaturated() Rule {
	return TrialRule{
		Name:   "generator saturated",
		Doc:    "A generator without idle time measures itself.",
		Saved:  "SIDECAR (the baseline's 29 to 34 thousand requests/s were one generator CPU's limit)",
		Advice: "a rate that a closed loop or a stream reaches here is the generator's, not the system's; add generator cores, or compare at a fixed rate",
		Check: func(e Evidence, o *model.Outcome) *Doubt {
			if o.Load == nil || o.Load.Workers == 0 || o.Load.Elapsed <= 0 || e.load(o).Spin > 0 {
				return nil // a generator that spins is never idle: its lateness tells
			}
			cores := o.Load.Workers
			if n := len(e.Host.GeneratorCPUs); n > 0 {
				cores = min(cores, n) // streams are sent by more threads than there are cores
			}
			busy := o.Load.GeneratorCPU.Seconds() / o.Load.Elapsed.Seconds() / float64(cores)
			text := fmt.Sprintf("its %d worker(s) used %.0f %% of %d core(s)", o.Load.Workers, busy*100, cores)
			// One that does not wait and yet does not run competes for its core.
			if idle := o.Load.GeneratorIdle; idle > 0 && 1-idle > busy {
				busy = 1 - idle
				text += fmt.Sprintf(" and waited for events %.1f %% of the window", idle*100)
			}
			if busy <= busyShare {
				return nil
			}
			severity := model.SeveritySuspect
			switch {
			case o.Load.Arrival == model.ArrivalOpen:
				severity = model.SeverityInvalid
			case metric.IsFlow(o.Load):
				severity = model.SeverityNote // the path's own work is done on that core: CPU per Gbit compares it
			}
			return &Doubt{severity, busy, "the load generator had no CPU time to spare", text}
		},
	}
}

func searchLimited() Rule {
	return TrialRule{
		Name:    "search limited",
		Metrics: []string{"rate.highest"},
		Doc:     "Only a search that the system under test stopped found its highest rate; else it holds at least that.",
		Saved:   "SIDECAR (the baseline's 'maximum' is the one CPU of its generator)",
		Advice:  "read the rate as a lower bound; give the generator more CPU, or search in a wider range",
		Check: func(_ Evidence, o *model.Outcome) *Doubt {
			if o.Search == nil || o.Search.Limit == model.LimitSystem || o.Search.Limit == "" {
				return nil
			}
			return &Doubt{
				model.SeveritySuspect, 1, fmt.Sprintf("the search was stopped by %s, not by the system", o.Search.Limit),
				fmt.Sprintf("at least %.0f/s held, in %d probes", o.Search.Highest, len(o.Search.Probes)),
			}
		},
	}
}

func littlesLaw() Rule {
	return TrialRule{
		Name:    "Little's law broken",
		Metrics: []string{"response", "service", "rate"},
		Doc:     "In a closed loop, places = throughput x (mean service time + think time + the generator's turnaround), failures included; numbers that break it do not belong together.",
		Saved:   "BOOKINFO (implied think time jumps from 2.2 to 11.3 s between systems)",
		Advice:  "look for connections that were not in use, or for requests that were not counted",
		Check: func(e Evidence, o *model.Outcome) *Doubt {
			if o.Load == nil || o.Load.Arrival != model.ArrivalClosed || metric.IsFlow(o.Load) || o.Load.Succeeded+o.Load.FailedTotal() == 0 || o.Load.Elapsed <= 0 {
				return nil
			}
			l, r := e.load(o), o.Load
			if r.Tool != nil && r.Service.Count() != r.Succeeded {
				return nil // an outside tool that does not tell the distribution, or not of successes alone
			}
			places := float64(r.Connections * max(r.Streams, 1))
			failed := float64(r.FailedTotal())
			resting := (float64(r.Succeeded)*l.Think.Seconds() + failed*max(l.Think, failureRest).Seconds()) / r.Elapsed.Seconds()
			flying := (inFlight(r) + total(r.FailedResponse)) / r.Elapsed.Seconds()
			turning := r.Turnaround.Seconds() / r.Elapsed.Seconds()
			off := (flying+resting+turning)/places - 1
			// Where the loop is paced, connections also rest until their time.
			if math.Abs(off) <= littleShare+byChance(l, r, resting/places) || (l.Pace > 0 && off < 0) {
				return nil
			}
			text := fmt.Sprintf("%.0f/s x %s = %.1f in flight", (float64(r.Succeeded)+failed)/r.Elapsed.Seconds(), perRequest(flying, r), flying)
			if resting > 0 {
				text += fmt.Sprintf(", %.1f resting", resting)
			}
			if turning > 0 {
				text += fmt.Sprintf(", %.1f waiting for the generator", turning)
			}
			return &Doubt{
				model.SeveritySuspect, math.Abs(off), "throughput and latency do not fit the number of connections",
				fmt.Sprintf("%s, with room for %.0f on %d connections", text, places, r.Connections),
			}
		},
	}
}

// byChance is how far off the law may be because think times are random: three
// standard errors of their mean, which for exponential ones is 1/sqrt(n) of it.
func byChance(l model.Load, r *model.LoadResult, restingShare float64) float64 {
	if !l.Pattern.Poisson || l.Think == 0 {
		return 0
	}
	const errors = 3
	return errors * restingShare / math.Sqrt(float64(r.Succeeded+r.FailedTotal()))
}

// inFlight is the time that all successes took. A tool's own mean is better than
// that of its buckets.
func inFlight(r *model.LoadResult) float64 {
	if r.Tool != nil && r.FailedTotal() == 0 && r.Tool.Figures["mean"] > 0 {
		return r.Tool.Figures["mean"].Seconds() * float64(r.Succeeded)
	}
	return total(r.Service)
}

// total is the sum of all times of a histogram, in seconds.
func total(h *hist.Histogram) float64 {
	if h == nil {
		return 0
	}
	return h.Mean().Seconds() * float64(h.Count())
}

// perRequest is the mean time in flight.
func perRequest(flying float64, r *model.LoadResult) time.Duration {
	all := float64(r.Succeeded + r.FailedTotal())
	return round(time.Duration(flying * r.Elapsed.Seconds() / all * float64(time.Second)))
}
