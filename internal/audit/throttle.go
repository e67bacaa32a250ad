package audit

import (
	"fmt"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
)

const periodName = "latency of a CPU quota's period"

// Thresholds of the rules about CPU limits.
const (
	stoppedShare = 0.05 // of the periods: fewer leave most percentiles alone
	slowShare    = 0.01 // of the answers: what the 99th percentile shows
)

func cpuThrottled() Rule {
	return TrialRule{
		Name:   "CPU throttled",
		Doc:    "A component that its CPU limit stopped shows latency plateaus of the quota period (100 ms), not its own speed.",
		Saved:  "SIDECAR (p99 plateaus at 78, 89, 100 and 190 ms, the baseline included)",
		Advice: "raise the limit, or read the latencies as those of the limit",
		Check: func(e Evidence, o *model.Outcome) *Doubt {
			worst := mostThrottled(o)
			if worst.Throttled == 0 {
				return nil
			}
			severity, cause := model.SeveritySuspect, "a CPU limit stopped a component"
			if e.asksFor(o, worst) {
				severity, cause = model.SeverityNote, "the CPU limit that the study sets stopped a component"
			}
			return &Doubt{severity, worst.Throttled, cause, waited(worst)}
		},
	}
}

// latencyOfPeriod knows of the throttling by the kernel's counters; of other
// tools' results, which have none, quotaPlateau guesses it by the shape alone.
func latencyOfPeriod() Rule {
	return TrialRule{
		Name:    periodName,
		Metrics: []string{"response", "service", "rate"},
		Doc:     "Where a CPU limit stops a component, answers wait for the next period of 100 ms: their latency is the quota's, not the component's.",
		Saved:   "SIDECAR (50m: Linkerd's p99 is 190 ms, Istio's 300 to 410 ms: two, three and four periods)",
		Advice:  "compare latencies without limits, and limits by the rate that they leave: rate, rate.highest, throttled.total",
		Check: func(e Evidence, o *model.Outcome) *Doubt {
			worst := mostThrottled(o)
			if o.Load == nil || worst.Quotas == 0 || worst.Periods < stoppedShare*worst.Quotas {
				return nil
			}
			h := answered(o.Load)
			if h == nil {
				return nil
			}
			slow := slower(h)
			if slow < slowShare || slow*float64(h.Count()) < fewestSlow {
				return nil
			}
			severity, shape := model.SeveritySuspect, ""
			if e.asksFor(o, worst) {
				severity = model.SeverityNote
			}
			if _, _, found := plateauOf(h); found {
				shape = ", piled up short of 100 ms"
			}
			return &Doubt{
				severity, slow, "answers waited for the next period of a CPU limit",
				fmt.Sprintf("%.1f %% of answers took 25 ms or more%s; p50 %s, p99 %s; %s", slow*100, shape, round(h.Quantile(0.5)), round(h.Quantile(0.99)), waited(worst)),
			}
		},
	}
}

func memoryKilled() Rule {
	return TrialRule{
		Name:   "killed for want of memory",
		Doc:    "A component that needs more memory than its limit is killed by the kernel; what then fails is the limit's doing.",
		Saved:  "none: limits of memory were not compared; on Kubernetes the restart would show, if somebody counted restarts",
		Advice: "raise the memory limit; the failures of this trial say nothing of the component",
		Check: func(_ Evidence, o *model.Outcome) *Doubt {
			for _, u := range metric.Usages(o) {
				if u.Killed > 0 {
					return &Doubt{
						model.SeverityInvalid, u.Killed, "a memory limit ended a process",
						fmt.Sprintf("%.0f of %s/%s; its highest reading was %.1f MiB", u.Killed, u.Pod, u.Component, u.MemoryPeak/(1<<20)),
					}
				}
			}
			return nil
		},
	}
}

// asksFor says whether the study itself limits the component's CPU.
func (e Evidence) asksFor(o *model.Outcome, u metric.Usage) bool {
	return e.Study.LimitsOf(o.Trial.Variant, o.Trial.Load)[model.Component(u.Component)].CPU > 0
}

func mostThrottled(o *model.Outcome) metric.Usage {
	var worst metric.Usage
	for _, u := range metric.Usages(o) {
		if u.Throttled > worst.Throttled {
			worst = u
		}
	}
	return worst
}

func waited(u metric.Usage) string {
	text := fmt.Sprintf("%s/%s waited %.0f ms in %.0f periods", u.Pod, u.Component, u.Throttled*1000, u.Periods)
	if u.Quotas > 0 {
		text += fmt.Sprintf(" of %.0f", u.Quotas)
	}
	return text
}

// slower is the share of answers that took longer than what no quota delays.
func slower(h *hist.Histogram) float64 {
	var slow, total float64
	for b := range h.Each {
		total += float64(b.Count)
		if (b.Low+b.High)/2 >= quotaBody { //nolint:mnd // the middle
			slow += float64(b.Count)
		}
	}
	return slow / max(total, 1)
}

// plateauOf looks for latencies that pile up short of 100 ms with nothing before:
// the shares of all answers in the pile and in the valley.
func plateauOf(h *hist.Histogram) (pile, valley float64, found bool) {
	var body, between, plateau, total float64
	for b := range h.Each {
		n := float64(b.Count)
		total += n
		switch at := (b.Low + b.High) / 2; { //nolint:mnd // the middle
		case at < quotaBody:
			body += n
		case at < quotaValley:
			between += n
		case at < quotaEnd:
			plateau += n
		}
	}
	found = body > 0 && plateau >= quotaLeast*total && plateau >= fewestSlow && between <= quotaBetween*plateau
	return plateau / max(total, 1), between / max(total, 1), found
}
