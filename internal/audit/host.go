package audit

import (
	"fmt"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Thresholds of a host without CPU time to spare.
const (
	spentShare = 0.90                   // of the CPUs' time: above it whoever wants to run waits in line
	spentLeast = 500 * time.Millisecond // of that, to be more than the herd of the first moment
)

// cpuSpent asks whether what came after a fault was the host's doing. Whoever
// loses connections opens them anew, all at once and with a handshake each: a
// host that is busy with that until clients give up never gets out of it, whereas
// the same system on more CPUs has recovered.
func cpuSpent() Rule {
	return TrialRule{
		Name:    "no CPU time to spare under a fault",
		Metrics: []string{"failover", "failback", "success"},
		Doc:     "Connections that a fault has broken are opened anew at once; where the CPUs cannot keep up until clients give up, it is the host that does not recover, not what runs on it.",
		Saved:   "none: the published study of failover had real regions; emulations put them all on one host",
		Advice:  "lower the rate, or give the host more CPUs, before reading this as how the variant fails over",
		Check: func(e Evidence, o *model.Outcome) *Doubt {
			since, struck := metric.Onset(o.Faults)
			if o.Load == nil || !struck || slices.ContainsFunc(o.Faults, starves) {
				return nil
			}
			spent := spentTime(e.Host, o, since)
			if spent < spentLeast {
				return nil
			}
			after := time.Duration(o.Window.End - since)
			return &Doubt{
				model.SeveritySuspect, spent.Seconds(), "the host had no CPU time left for what the fault set going",
				fmt.Sprintf("for %.1f s of the %.1f s from its onset, less than %.0f %% of the CPUs' time was idle", spent.Seconds(), after.Seconds(), (1-spentShare)*100),
			}
		},
	}
}

// starves says that a fault is itself that CPU time is taken away.
func starves(f model.FaultRecord) bool { return f.Event.Fault.Kind == "cpu" }

// spentTime is for how long the CPUs beside the generator's own were all in use,
// from a moment on. What a hypervisor takes is not there to be used, either.
func spentTime(h model.Host, o *model.Outcome, since int64) time.Duration {
	var busy, steal *model.Series
	for i := range o.Samples {
		if s := &o.Samples[i]; s.Subject == model.SubjectHost {
			switch s.Metric {
			case model.SampleBusy:
				busy = s
			case model.SampleSteal:
				steal = s
			}
		}
	}
	if busy == nil || steal == nil || len(busy.Values) != len(steal.Values) || h.Cores == 0 || o.Load.Elapsed <= 0 {
		return 0 // on other people's clusters the host is not seen
	}
	generator := o.Load.GeneratorCPU.Seconds() / o.Load.Elapsed.Seconds() // it is paced: at all times about the same
	cpus := float64(h.Cores - len(h.GeneratorCPUs))
	if len(h.GeneratorCPUs) == 0 {
		generator, cpus = 0, float64(h.Cores)
	}
	var spent time.Duration
	for i := 1; i < len(busy.At); i++ {
		if busy.At[i-1] < since || busy.At[i] > o.Window.End {
			continue
		}
		step := time.Duration(busy.At[i] - busy.At[i-1])
		used := (busy.Values[i]-busy.Values[i-1])/step.Seconds() - generator
		taken := (steal.Values[i] - steal.Values[i-1]) / step.Seconds() * cpus / float64(h.Cores)
		if used+taken >= spentShare*cpus {
			spent += step
		}
	}
	return spent
}
