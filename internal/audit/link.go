package audit

import (
	"fmt"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Thresholds of links.
const (
	lateShare   = 0.01             // of a link's packets: from there on p99 is the emulation's, not the link's
	lateLeast   = 3                // packets: fewer of them are chance
	linkOff     = time.Millisecond // that a link's median may be off, or
	linkOffPart = 0.02             // as a share of the delay
)

func linkLate() Rule {
	return TrialRule{
		Name:    "emulated link late",
		Metrics: []string{"response", "service", "rtt", "jitter", "goodput"},
		Doc:     "What emulates a link needs CPU time of its own; where it gets it late, packets are later than the link asks.",
		Saved:   "none: the published studies had real links; emulations rarely tell how late they are",
		Advice:  "leave a CPU to the emulation, send less, or use a kernel with netem",
		Check: func(_ Evidence, o *model.Outcome) *Doubt {
			var worst *Doubt
			for name, l := range linkReadings(o) {
				if l.late < lateLeast || l.late <= lateShare*l.packets {
					continue
				}
				share := l.late / l.packets
				if worst == nil || share > worst.Weight {
					worst = &Doubt{
						model.SeveritySuspect, share, "an emulated link let packets go late",
						fmt.Sprintf("%s: %.1f %% of %.0f packets later than its bound, mean lateness %.2f ms, worst %.1f ms",
							strings.Replace(name, ">", " to ", 1), share*100, l.packets, l.lateness/l.packets*1e3, l.worst*1e3),
					}
				}
			}
			return worst
		},
	}
}

// linkReading is what a direction did in the measured window.
type linkReading struct{ packets, late, lateness, worst float64 }

func linkReadings(o *model.Outcome) map[string]linkReading {
	all := map[string]linkReading{}
	for _, s := range o.Samples {
		name, ok := strings.CutPrefix(s.Subject, model.SubjectLink)
		if !ok {
			continue
		}
		l := all[name]
		delta, _ := metric.Delta(s, o.Window)
		switch s.Metric {
		case model.SampleLinkPackets:
			l.packets = delta
		case model.SampleLinkLate:
			l.late = delta
		case model.SampleLinkLateness:
			l.lateness = delta
		case model.SampleLinkWorst:
			for i, at := range s.At {
				if at > o.Window.Start && at <= o.Window.End { // each says what was since the one before
					l.worst = max(l.worst, s.Values[i])
				}
			}
		default:
		}
		all[name] = l
	}
	return all
}

func linkNotAsAsked() Rule {
	return TrialRule{
		Name:    "emulated link not as asked",
		Metrics: []string{"response", "service", "rtt"},
		Doc:     "Every emulated link is measured through the real path before the first trial; what it does counts, not what was asked for.",
		Saved:   "GEO (one round trip between its regions was read as three)",
		Advice:  "use the observed delay, as in the ledger; run again on a quieter host",
		Check: func(_ Evidence, o *model.Outcome) *Doubt {
			var worst *Doubt
			for _, l := range o.Links {
				if l.Observed.Sent == l.Observed.Lost {
					continue
				}
				// Jitter that keeps the order moves the median up, by at most itself.
				low, high := l.Link.Delay-l.Link.Jitter/2, l.Link.Delay+l.Link.Jitter
				if l.Link.Rate > 0 {
					const probe = 110 * 8 // bits, which take their time on a slow link
					high += time.Duration(probe * float64(time.Second) / float64(l.Link.Rate))
				}
				room := max(linkOff, time.Duration(linkOffPart*float64(l.Link.Delay)))
				off := max(low-l.Observed.P50, l.Observed.P50-high)
				if off <= room || (worst != nil && off.Seconds() <= worst.Weight) {
					continue
				}
				worst = &Doubt{
					model.SeveritySuspect, off.Seconds(), "an emulated link has another delay than was asked for",
					fmt.Sprintf("%s to %s: asked %s, observed %s at p50", l.From, l.To, l.Link.Delay, round(l.Observed.P50)),
				}
			}
			return worst
		},
	}
}
