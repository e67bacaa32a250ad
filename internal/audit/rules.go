package audit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Thresholds of the rules. Each is a judgement; the reason stands beside it.
const (
	stealShare = 0.02 // of all CPU time: 2 % is 20 ms in every second
	coverShare = 0.98 // of the window that resource readings must span
	beyond     = 10   // samples that a quantile needs beyond it
)

// Rules is the catalog of the rules for Windtunnel's own runs.
func Rules() []Rule {
	return []Rule{
		trialFailed(), targetLost(), triedAgain(), variantLeftOut(), notReady(), failingPrefix(), requestsFailed(), queueingDropped(), requestsBlocked(), rateMissed(),
		generatorLate(), generatorSaturated(), littlesLaw(), unexpectedResponder(), payloadChanged(),
		tooFewSamples("p99", 0.99, "response.p99", "response.p99.9", "service.p99", "service.p99.9"),
		tooFewSamples("p99.9", 0.999, "response.p99.9", "service.p99.9"),
		searchLimited(), streamGrowing(), datagramsDisagree(), receiverDropped(), notPerPacket(),
		cpuThrottled(), latencyOfPeriod(), memoryKilled(), samplingUncovered(), hostNoisy(), cpusElsewhere(), cpuSpent(), linkLate(), linkNotAsAsked(), farHops(), brokenClaim(), drifting(),
		closedLoop(), coordinatedOmission(), toolNotes(), engineSettings(), certificatesUnchecked(), clocksDiffer(),
	}
}

func trialFailed() Rule {
	return TrialRule{
		Name:   "trial failed",
		Doc:    "A trial that broke is counted and shown; dropping it would flatter the variant that breaks.",
		Saved:  "SIDECAR (runs that are missing from its tables)",
		Advice: "read the trial's logs in the run folder; the variant's blocks without this trial are used",
		Check: func(_ Evidence, o *model.Outcome) *Doubt {
			if o.Failure == nil || (o.Ready != nil && !o.Ready.Passed) {
				return nil
			}
			return &Doubt{model.SeverityInvalid, 1, "the trial broke while " + o.Failure.Step, o.Failure.Error}
		},
	}
}

func notReady() Rule {
	return TrialRule{
		Name:   "not ready",
		Doc:    "Nothing is measured before the generator itself has had right answers, one after another, through the real path.",
		Saved:  "GEO (its generator's own proxy was not ready)",
		Advice: "read the logs of the proxies and the app in the run folder",
		Check: func(_ Evidence, o *model.Outcome) *Doubt {
			if o.Ready == nil || o.Ready.Passed {
				return nil
			}
			return &Doubt{
				model.SeverityInvalid, 1, "the path never became ready; nothing was measured",
				fmt.Sprintf("%d attempts in %s, at most %d of %d right answers in a row; last error: %s",
					o.Ready.Attempts, o.Ready.Took.Round(time.Millisecond), o.Ready.Streak, o.Ready.Wanted, o.Ready.LastError),
			}
		},
	}
}

func failingPrefix() Rule {
	return TrialRule{
		Name:   "failing prefix",
		Doc:    "Failures in one block at the start of a load are start-up, not the system under load.",
		Saved:  "GEO (18 to 72 % success, all failures in the first 1.2 to 3.5 s)",
		Advice: "find out what was not ready yet; do not read the success rate as reliability",
		Check: func(_ Evidence, o *model.Outcome) *Doubt {
			if o.Load == nil || o.Load.FailedPrefix == 0 {
				return nil
			}
			all := o.Load.FailedTotal() + o.Load.WarmupFailed
			d := &Doubt{
				model.SeveritySuspect, float64(o.Load.FailedPrefix),
				"the load began with failures: start-up, not load",
				fmt.Sprintf("%d of %d failures came before the first success at %s", o.Load.FailedPrefix, all, o.Load.FirstSuccess.Round(time.Millisecond)),
			}
			if o.Load.FailedTotal() > 0 && o.Load.FailedPrefix > o.Load.WarmupFailed {
				d.Severity = model.SeverityInvalid
			}
			return d
		},
	}
}

func unexpectedResponder() Rule {
	return TrialRule{
		Name:   "unexpected responder",
		Doc:    "Every answer carries the identity of the server that gave it; answers from elsewhere, or servers that never answered, change what was measured.",
		Saved:  "GEO (answers from the other region's database were read as failover)",
		Advice: "look at who answered in the ledger; check the service's endpoints",
		Check:  checkResponders,
	}
}

func checkResponders(_ Evidence, o *model.Outcome) *Doubt {
	if o.Load == nil || o.Load.Succeeded == 0 || len(o.Endpoints.Backends) == 0 {
		return nil
	}
	wanted := map[string]bool{}
	for _, b := range o.Endpoints.Backends {
		wanted[b.Identity] = true
	}
	for id, n := range o.Load.Responders {
		if !wanted[id] {
			return &Doubt{
				model.SeverityInvalid, float64(n), "a server that does not belong to the service answered",
				fmt.Sprintf("%d answers from %q", n, id),
			}
		}
	}
	if metric.IsFlow(o.Load) || o.Load.Tool != nil {
		return nil // it has no answers, and goes to one server; other tools do not look who answers
	}
	if n := o.Load.Unidentified; n > 0 {
		return &Doubt{
			model.SeveritySuspect, float64(n), "answers came without the identity of their server",
			fmt.Sprintf("%d of %d successes", n, o.Load.Succeeded),
		}
	}
	var silent []string
	for _, b := range o.Endpoints.Backends {
		if o.Load.Responders[b.Identity] == 0 {
			silent = append(silent, b.Identity)
		}
	}
	if len(silent) > 0 && o.Load.Succeeded >= 1000 {
		return &Doubt{
			model.SeveritySuspect, float64(len(silent)), "not every server of the service answered",
			fmt.Sprintf("no answer from %s in %d", strings.Join(silent, ", "), o.Load.Succeeded),
		}
	}
	return nil
}

func payloadChanged() Rule {
	return TrialRule{
		Name:   "payload changed",
		Doc:    "The body of every success is compared with the one that the ready gate saw.",
		Saved:  "GEO (a body that named another region's database went unnoticed)",
		Advice: "make the app's answer constant, or find out who answers differently",
		Check: func(_ Evidence, o *model.Outcome) *Doubt {
			if o.Load == nil || o.Load.PayloadChanged == 0 {
				return nil
			}
			return &Doubt{
				model.SeveritySuspect, float64(o.Load.PayloadChanged), "answers differed from the one that the ready gate saw",
				fmt.Sprintf("%d of %d successes; bodies of %d to %d bytes", o.Load.PayloadChanged, o.Load.Succeeded, o.Load.BodyBytesMin, o.Load.BodyBytesMax),
			}
		},
	}
}

// tooFewSamples speaks of the lowest quantile that one trial cannot carry: the
// higher ones follow from it.
func tooFewSamples(quantile string, q float64, metrics ...string) Rule {
	return TrialRule{
		Name:    "too few samples",
		Metrics: metrics,
		Doc:     "A quantile needs ten samples beyond it; p99.9 of 1,200 requests rests on one.",
		Saved:   "SIDECAR (p99.9 from 1,200 requests), GEO (p99 of 50 requests is the maximum)",
		Advice:  "such quantiles are pooled over blocks or not given; for one trial's own, run longer or faster",
		Check: func(_ Evidence, o *model.Outcome) *Doubt {
			if o.Load == nil || answered(o.Load) == nil {
				return nil
			}
			n := float64(answered(o.Load).Count())
			lower := q > 0.99 && n*0.01 < beyond
			if n*(1-q) >= beyond*(1-1e-9) || lower {
				return nil
			}
			which := quantile + " of one trial rests on too few samples"
			if q <= 0.99 {
				which = quantile + " and above of one trial rest on too few samples"
			}
			return &Doubt{model.SeverityNote, 1 / n, which, fmt.Sprintf("%.0f successes: %.0f beyond %s", n, n*(1-q), quantile)}
		},
	}
}

func samplingUncovered() Rule {
	return TrialRule{
		Name:    "resources not covered",
		Metrics: []string{"cpu", "memory"},
		Doc:     "Resource figures must span the measured window, no more and no less.",
		Saved:   "SIDECAR (CPU averaged over 60 s for runs of 10 s)",
		Advice:  "CPU and memory of this trial are too low or of another time; the host may be overloaded",
		Check: func(_ Evidence, o *model.Outcome) *Doubt {
			covered := 1.0
			for _, u := range metric.Usages(o) {
				covered = min(covered, u.Covered)
			}
			if covered >= coverShare || o.Load == nil {
				return nil
			}
			return &Doubt{
				model.SeveritySuspect, 1 - covered, "resource readings do not span the measured window",
				fmt.Sprintf("%.1f %% of it is covered", covered*100),
			}
		},
	}
}

func hostNoisy() Rule {
	return TrialRule{
		Name:   "host noisy",
		Doc:    "Time that a hypervisor takes away looks like latency of the system under test.",
		Saved:  "SIDECAR (preemptible shared machines, nothing recorded)",
		Advice: "repeat on a quieter host; trust paired differences over absolute values",
		Check: func(e Evidence, o *model.Outcome) *Doubt {
			h := metric.HostNoise(o, e.Host.Cores)
			if !h.Known || h.Steal <= stealShare {
				return nil
			}
			return &Doubt{
				model.SeverityNote, h.Steal, "the hypervisor took CPU time away",
				fmt.Sprintf("%.1f %% of all CPU time stolen; run queue mean %.1f, most %.0f", h.Steal*100, h.RunQueueMean, h.RunQueueMax),
			}
		},
	}
}

func brokenClaim() Rule {
	return TrialRule{
		Name:   "variant not what it claims",
		Doc:    "What a layer says it does must be seen on the wire or in its live configuration.",
		Saved:  "MULTICLUSTER (Kuma ran at L4 and was compared with Istio at L7)",
		Advice: "do not compare this variant under its name; see the ledger",
		Check: func(_ Evidence, o *model.Outcome) *Doubt {
			if o.Failure != nil {
				return nil
			}
			for _, c := range o.Claims {
				seen := Seen(o.Ledger, c)
				if slices.Contains(seen, c.Value) {
					continue
				}
				what := "nothing was"
				if len(seen) > 0 {
					what = strings.Join(seen, ", ") + " was"
				}
				return &Doubt{
					model.SeverityInvalid, 1, fmt.Sprintf("%s claims %s %s", c.Layer, c.Key, c.Value),
					what + " observed",
				}
			}
			return nil
		},
	}
}

// Seen returns what the ledger holds for a claim, without declarations.
func Seen(l model.Ledger, c model.Claim) []string {
	var seen []string
	for _, f := range l {
		if f.Key == c.Key && f.Source != model.SourceDeclared && (f.Layer == c.Layer || f.Source == model.SourceWire || f.Source == model.SourceAnswer) {
			seen = append(seen, f.Value)
		}
	}
	return seen
}

func round(d time.Duration) time.Duration {
	switch {
	case d > time.Second:
		return d.Round(10 * time.Millisecond)
	case d > time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(100 * time.Nanosecond)
}
