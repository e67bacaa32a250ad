package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
)

func closedLoop() Rule {
	return LoadRule{
		Name:    "closed loop",
		Metrics: []string{"response"},
		Doc:     "A closed loop sends less to a slow system, paced or not: requests that would have waited are never sent, so it cannot see queueing.",
		Saved:   "MULTICLUSTER (a closed loop on one connection, read as capacity), BOOKINFO (virtual users, read as waiting)",
		Advice:  "use it for the highest rate; for latency under a load, use an open loop",
		Check: func(l model.Load, trials []*model.Outcome) *Doubt {
			if l.Arrival != model.ArrivalClosed || !slices.ContainsFunc(trials, func(o *model.Outcome) bool { return !metric.IsFlow(o.Load) }) {
				return nil
			}
			text := fmt.Sprintf("%d connections send when they have their answer", l.Connections)
			if l.Pace > 0 {
				text += fmt.Sprintf(", at most %g/s in all", l.Pace)
			}
			if l.Think > 0 {
				text += fmt.Sprintf(", and think for %s", l.Think)
			}
			return &Doubt{model.SeverityNote, 1, "a closed loop cannot see queueing: its response times are those of a load that yields", text}
		},
	}
}

func coordinatedOmission() Rule {
	return LoadRule{
		Name:    "coordinated omission",
		Metrics: []string{"response"},
		Doc:     "A tool that counts latency from when it got round to sending leaves out the waiting that a slow system causes.",
		Saved:   "SIDECAR (fortio at a fixed rate counts from when it sent)",
		Advice:  "read its latencies as service times; use our engine, wrk2, or a tool with a correction for response times",
		Check: func(l model.Load, trials []*model.Outcome) *Doubt {
			for _, o := range trials {
				t := o.Load.Tool
				if t != nil && t.Basis == model.BasisSent && o.Load.Arrival == model.ArrivalOpen {
					return &Doubt{
						model.SeveritySuspect, 1, t.Name + " counts from when it sent, not from when a request was due: it hides stalls",
						fmt.Sprintf("driver %s, %s", strings.TrimSpace(t.Name+" "+t.Version), l.Name),
					}
				}
			}
			return nil
		},
	}
}

func toolNotes() Rule {
	return LoadRule{
		Name:   "what the tool does not tell",
		Doc:    "Figures of an outside tool are as fine, and as complete, as that tool makes them.",
		Saved:  "SIDECAR (quantiles out of fortio's buckets)",
		Advice: "compare loads of the same tool only",
		Check: func(_ model.Load, trials []*model.Outcome) *Doubt {
			seen := map[string]bool{}
			name := ""
			for _, o := range trials {
				if t := o.Load.Tool; t != nil {
					name = t.Name
					for _, n := range t.Notes {
						seen[n] = true
					}
				}
			}
			if len(seen) == 0 {
				return nil
			}
			return &Doubt{model.SeverityNote, 1, "figures as " + name + " gives them", strings.Join(slices.Sorted(maps.Keys(seen)), "; ")}
		},
	}
}

func engineSettings() Rule {
	return LoadRule{
		Name:   "generator settings",
		Doc:    "Settings that trade evenness or waiting for CPU change what a load is; they belong beside its numbers.",
		Saved:  "CNI (iperf3's flags are nowhere: not even the size of its datagrams is known)",
		Advice: "compare only with loads that have the same settings",
		Check: func(l model.Load, _ []*model.Outcome) *Doubt {
			var used []string
			if l.Coalesce > 0 {
				used = append(used, fmt.Sprintf("coalesce %s: requests due within that time leave together, up to so much late", l.Coalesce))
			}
			if l.Spin > 0 {
				used = append(used, fmt.Sprintf("spin %s: the generator watches the clock before a request is due, on a core of its own", l.Spin))
			}
			if l.Drop {
				used = append(used, "drop: a request that finds no free connection is given up")
			}
			if len(used) == 0 {
				return nil
			}
			return &Doubt{model.SeverityNote, 1, "the load does not send as it does by default", strings.Join(used, "; ")}
		},
	}
}

func certificatesUnchecked() Rule {
	return LoadRule{
		Name:   "certificates not verified",
		Doc:    "Without verification nobody knows who answered, and the handshake is cheaper than in production.",
		Saved:  "none of the five says whom its clients trusted",
		Advice: "give the load the CA that signed the server's certificate",
		Check: func(l model.Load, _ []*model.Outcome) *Doubt {
			if l.TLS == nil || !l.TLS.Insecure {
				return nil
			}
			return &Doubt{model.SeverityNote, 1, "the load accepts any certificate", "tls.insecure is set"}
		},
	}
}

func clocksDiffer() Rule {
	return LoadRule{
		Name:    "clocks differ",
		Metrics: []string{"response", "service"},
		Doc:     "Receipt stamped by the kernel and receipt stamped by the program differ by the time that the program took to wake up.",
		Saved:   "CNI (a tool of its own for the latency of each scenario)",
		Advice:  "compare only trials with the same clock; the ledger says which had which",
		Check: func(_ model.Load, trials []*model.Outcome) *Doubt {
			seen := map[string]bool{}
			for _, o := range trials {
				clock, _, _ := strings.Cut(o.Load.Clock, "; the server's is tied") // how closely is no other clock
				if clock != "" {
					seen[clock] = true
				}
			}
			if len(seen) < 2 {
				return nil
			}
			return &Doubt{model.SeveritySuspect, 1, "trials of this load were stamped by different clocks", strings.Join(slices.Sorted(maps.Keys(seen)), " | ")}
		},
	}
}
