package audit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Thresholds of the rules about other tools' results. Each is a judgement; the
// reason stands beside it.
const (
	fallingNote    = 1.0  // percent of late pauses: fewer are the machine's noise
	fallingSuspect = 5.0  // percent: where Fortio itself warns
	paceTolerance  = 0.05 // of the rate: less is start and end of a short load
	oneCoreRate    = 10e3 // requests/s: what one CPU of a generator in Go sends with ease is about this
	nearBest       = 0.8  // of the highest rate that the generator showed anywhere
	fewConnections = 4    // a closed loop on so few says nothing but latency
	datagramMost   = 1472 // bytes in one packet of 1500 with IPv4 and UDP headers
)

// Foreign is the catalog of the rules for one result of another tool.
func Foreign() []Rule {
	return []Rule{
		runAborted(), failuresMixed(), paceMissed(), fallingBehind(), oneCore(), pacedOmission(), capacityNotMeasured(), severalAnswers(),
		emptyAnswer(), keepAliveTail(), quotaPlateau(), datagramsFragmented(), unpinned(),
	}
}

func runAborted() Rule {
	return TrialRule{
		Name:   "run aborted",
		Doc:    "A run that its tool gave up measured nothing, and belongs into the count of attempts.",
		Saved:  "SIDECAR (Istio runs that ended without a result, and are in no table)",
		Advice: "find out why, and give the number of failed attempts beside the results",
		Check: func(e Evidence, o *model.Outcome) *Doubt {
			r := e.run(o)
			if r == nil || r.Labels[ingest.LabelAborted] == "" {
				return nil
			}
			return &Doubt{model.SeverityInvalid, 1, "the tool gave up; nothing was measured", r.Labels[ingest.LabelAborted]}
		},
	}
}

func failuresMixed() Rule {
	return TrialRule{
		Name:    "failures in the latencies",
		Metrics: []string{"response", "service"},
		Doc:     "A tool that counts requests without an answer among its latencies mixes the time of a refusal (often under 2 ms) with the time of an answer.",
		Saved:   "GEO (30 of 50 requests refused in 2 ms made the median look fast)",
		Advice:  "take latencies of successes only, and give failures as a share of their own; never rank on the mixed figures",
		Check: func(e Evidence, o *model.Outcome) *Doubt {
			r := e.run(o)
			if r == nil || o.Load.FailedTotal() == 0 {
				return nil
			}
			failed, all := float64(o.Load.FailedTotal()), float64(o.Load.FailedTotal()+o.Load.Succeeded)
			if good := r.Latencies(); len(good) > 0 && len(good) < len(r.Requests) {
				mixed := make([]time.Duration, 0, len(r.Requests))
				for _, q := range r.Requests {
					mixed = append(mixed, q.Latency)
				}
				slices.Sort(good)
				slices.Sort(mixed)
				return &Doubt{
					model.SeveritySuspect, failed / all, "the tool's percentiles include requests that never got an answer",
					fmt.Sprintf("%.0f of %.0f without a right answer; median with them %s, of the answers alone %s", failed, all, round(Exact(mixed, 0.5)), round(Exact(good, 0.5))),
				}
			}
			if o.Load.Tool == nil || !slices.Contains(o.Load.Tool.Notes, ingest.Mixed) {
				return nil
			}
			return &Doubt{
				model.SeveritySuspect, failed / all, "the tool's percentiles include requests that never got an answer",
				fmt.Sprintf("%.0f of %.0f without a right answer; the file does not keep them apart", failed, all),
			}
		},
	}
}

func paceMissed() Rule {
	return TrialRule{
		Name:    "asked rate not reached",
		Metrics: []string{"rate"},
		Doc:     "A paced closed loop that cannot reach the rate it was asked for runs unpaced: its rate is what its connections allow.",
		Saved:   "MULTICLUSTER (6000/s asked on one connection; 500 to 5000/s came)",
		Advice:  "name the load by what was sent, not by what was asked; use more connections or an open loop",
		Check: func(e Evidence, o *model.Outcome) *Doubt {
			r := e.run(o)
			if r == nil || o.Load.Arrival != model.ArrivalClosed {
				return nil
			}
			asked, known := r.Asked()
			got := r.Achieved()
			if !known || got == 0 || got >= asked*(1-paceTolerance) {
				return nil
			}
			return &Doubt{
				model.SeveritySuspect, 1 - got/asked, "the load was lighter than it was asked to be",
				fmt.Sprintf("%.1f/s of %.0f/s on %d connection(s)", got, asked, o.Load.Connections),
			}
		},
	}
}

func fallingBehind() Rule {
	return TrialRule{
		Name:    "falling behind",
		Metrics: []string{"response", "service", "rate"},
		Doc:     "A generator whose pauses end too late sends in bursts to catch up, and not when it should: its figures are of another load.",
		Saved:   "SIDECAR (80 of 80 Istio runs at the 'safe' rate, up to 16 % of the pauses; the report says none did)",
		Advice:  "lower the rate, add connections or CPUs to the generator, and compare all systems again at that rate",
		Check: func(e Evidence, o *model.Outcome) *Doubt {
			r := e.run(o)
			if r == nil {
				return nil
			}
			late, ok := r.Number(ingest.LabelBehind)
			if !ok || late <= fallingNote {
				return nil
			}
			severity := model.SeverityNote
			if late > fallingSuspect {
				severity = model.SeverityInvalid
			}
			text := fmt.Sprintf("%.2f %% of its pauses began too late", late)
			if asked, known := r.Asked(); known {
				text += fmt.Sprintf("; %.1f/s of %.0f/s", r.Achieved(), asked)
			}
			return &Doubt{severity, late, "the generator fell behind its schedule", text}
		},
	}
}

func oneCore() Rule {
	return TrialRule{
		Name:    "maximum may be the generator's",
		Metrics: []string{"rate"},
		Doc:     "The highest rate of a closed loop is the system's only if the generator could have sent more.",
		Saved:   "SIDECAR (the baseline's 29 to 34 thousand requests/s are what one CPU of Fortio sends)",
		Advice:  "repeat with more CPUs for the generator; if the rate rises, the old one was the generator's",
		Check: func(e Evidence, o *model.Outcome) *Doubt {
			r := e.run(o)
			if r == nil || o.Load.Arrival != model.ArrivalClosed {
				return nil
			}
			procs, known := r.Number(ingest.LabelProcs)
			if _, paced := r.Asked(); !known || procs < 1 || paced {
				return nil
			}
			best := 0.0
			for i := range e.Runs {
				if e.Runs[i].Load == r.Load {
					best = max(best, e.Runs[i].Achieved())
				}
			}
			// What sent far more to another system had time to spare for this one.
			if each := r.Achieved() / procs; each > oneCoreRate && r.Achieved() > best*nearBest {
				return &Doubt{
					model.SeveritySuspect, each, "the highest rate may be the generator's own",
					fmt.Sprintf("%.0f/s from %.0f CPU(s) of the generator", r.Achieved(), procs),
				}
			}
			return nil
		},
	}
}

func pacedOmission() Rule {
	return TrialRule{
		Name:    "waiting not counted",
		Metrics: []string{"response", "service"},
		Doc:     "A paced tool that counts from sending leaves out the requests that a slow one held up: where the slowest took many periods, the true tail is far longer (coordinated omission).",
		Saved:   "SIDECAR (p99.9 at a fixed rate, counted from sending)",
		Advice:  "read the tail as a lower bound; measure again with a tool that counts from when a request was due",
		Check: func(e Evidence, o *model.Outcome) *Doubt {
			r, h := e.run(o), answered(o.Load)
			if r == nil || h == nil || o.Load.Arrival != model.ArrivalClosed || o.Load.Tool == nil || o.Load.Tool.Basis != model.BasisSent {
				return nil
			}
			asked, paced := r.Asked()
			if !paced || o.Load.Connections == 0 {
				return nil
			}
			const many = 3 // periods: fewer are caught up at once
			period := float64(o.Load.Connections) / asked
			if missed := h.Max().Seconds() / period; missed > many {
				return &Doubt{
					model.SeverityNote, missed, "slow answers held up requests whose waiting nobody counted",
					fmt.Sprintf("the slowest took %s, in which its connection was to send %.0f requests", round(h.Max()), missed),
				}
			}
			return nil
		},
	}
}

func capacityNotMeasured() Rule {
	return TrialRule{
		Name:    "rate is connections/latency",
		Metrics: []string{"rate"},
		Doc:     "In a closed loop that is always busy, rate = connections / latency: on few connections it says nothing of what the system could carry.",
		Saved:   "MULTICLUSTER (one connection; its QPS column is its latency column upside down)",
		Advice:  "do not read the rate as capacity; raise the connections until the rate rises no more, or search with an open loop",
		Check: func(e Evidence, o *model.Outcome) *Doubt {
			r, h := e.run(o), answered(o.Load)
			if r == nil || h == nil || o.Load.Arrival != model.ArrivalClosed || o.Load.Connections == 0 || o.Load.Connections > fewConnections {
				return nil
			}
			mean := h.Mean()
			if o.Load.Tool != nil && o.Load.Tool.Figures["mean"] > 0 {
				mean = o.Load.Tool.Figures["mean"]
			}
			want := float64(o.Load.Connections) / mean.Seconds()
			got := r.Achieved()
			if math.Abs(got/want-1) > littleShare {
				return nil
			}
			return &Doubt{
				model.SeveritySuspect, 1, "the rate carries no information beyond the latency: it is no capacity",
				fmt.Sprintf("%d connection(s) / %s = %.0f/s; measured %.0f/s", o.Load.Connections, round(mean), want, got),
			}
		},
	}
}

// answers counts the successes by what was answered.
func answers(r *Run) map[string]int {
	counts := map[string]int{}
	for i := range r.Requests {
		if q := &r.Requests[i]; right(q) && q.Payload != "" {
			counts[q.Payload]++
		}
	}
	return counts
}

func severalAnswers() Rule {
	return TrialRule{
		Name:    "answers from more than one place",
		Metrics: []string{"response", "service", "success"},
		Doc:     "Answers that differ within one run came from different servers or data; each place has a latency of its own.",
		Saved:   "GEO (bodies that named another region's database were taken for a failover of the server; a 'single cluster' run held two clusters' data)",
		Advice:  "find out who answers what, and look at each answer's latency apart; a run that must use one place is invalid",
		Check: func(e Evidence, o *model.Outcome) *Doubt {
			r := e.run(o)
			if r == nil {
				return nil
			}
			counts := answers(r)
			const most, least = 8, 2 // more kinds than that: answers that are meant to differ, as with a clock in them
			total, least1 := 0, math.MaxInt
			for _, n := range counts {
				total += n
				least1 = min(least1, n)
			}
			if len(counts) < least || len(counts) > most {
				return nil
			}
			return &Doubt{model.SeveritySuspect, float64(total - least1), "answers came from more than one place", placeText(r, counts)}
		},
	}
}

// placeText lists answers with their counts and medians.
func placeText(r *Run, counts map[string]int) string {
	var parts []string
	for _, body := range keys(counts) {
		var took []time.Duration
		for i := range r.Requests {
			if q := &r.Requests[i]; right(q) && q.Payload == body {
				took = append(took, q.Latency)
			}
		}
		slices.Sort(took)
		parts = append(parts, fmt.Sprintf("%d x %.40q (median %s)", counts[body], strings.TrimSpace(body), round(Exact(took, 0.5))))
	}
	return few(parts, 4) //nolint:mnd // that fit on a screen
}

func emptyAnswer() Rule {
	return TrialRule{
		Name:   "empty answer counted as success",
		Doc:    "A status of 200 with nothing in it is not what the others were asked for, and is faster.",
		Saved:  "GEO (an empty database answered null to 2 400 requests: '100 % success')",
		Advice: "check the body of answers, not their status; fill the database and measure again",
		Check: func(e Evidence, o *model.Outcome) *Doubt {
			r := e.run(o)
			if r == nil {
				return nil
			}
			empty, all := 0, 0
			for body, n := range answers(r) {
				all += n
				if slices.Contains([]string{"null", "[]", "{}", `""`}, strings.TrimSpace(body)) {
					empty += n
				}
			}
			if empty == 0 {
				return nil
			}
			return &Doubt{
				model.SeverityInvalid, float64(empty) / float64(all), "successes had nothing in them",
				fmt.Sprintf("%d of %d answers were null or an empty list", empty, all),
			}
		},
	}
}

// reconnects is after how many requests the server ends a connection, where
// that is a round number; 0 if it is not.
func reconnects(l *model.LoadResult) float64 {
	const enough, tolerance = 10, 0.06 // sockets, and how far one unfinished connection can be off
	done := float64(l.Succeeded + l.FailedTotal())
	if l.Sockets < enough || int(l.Sockets) < 2*l.Connections { //nolint:gosec // G115: sockets fit an int
		return 0
	}
	each := done / float64(l.Sockets)
	for _, limit := range []float64{100, 1000, 10_000, 100_000} {
		if math.Abs(each/limit-1) < tolerance {
			return limit
		}
	}
	return 0
}

func keepAliveTail() Rule {
	return TrialRule{
		Name:    "keep-alive limit in the tail",
		Metrics: []string{"response.p99", "response.p99.9", "service.p99", "service.p99.9"},
		Doc:     "A server that ends connections after N requests makes one request in N pay for a new one: the quantile 1-1/N is the cost of connecting.",
		Saved:   "MULTICLUSTER (nginx ends connections after 1000 requests; p99.9 of two of three systems is the reconnect)",
		Advice:  "raise the server's limit (nginx: keepalive_requests) or compare another quantile; say how many sockets were used",
		Check: func(e Evidence, o *model.Outcome) *Doubt {
			if e.run(o) == nil {
				return nil
			}
			limit := reconnects(o.Load)
			if limit == 0 {
				return nil
			}
			return &Doubt{
				model.SeveritySuspect, 1 / limit, fmt.Sprintf("one request in %.0f paid for a new connection: p%s is the price of connecting", limit, number(100*(1-1/limit))),
				fmt.Sprintf("%d sockets for %d requests on %d connection(s): one in %.0f", o.Load.Sockets, o.Load.Succeeded+o.Load.FailedTotal(), o.Load.Connections, float64(o.Load.Succeeded+o.Load.FailedTotal())/float64(o.Load.Sockets)),
			}
		},
	}
}

func datagramsFragmented() Rule {
	return TrialRule{
		Name:    "datagrams fragmented",
		Metrics: []string{"loss", "goodput", "datagrams"},
		Doc:     "A datagram larger than the MTU travels in fragments; the loss of one loses all, so the loss of datagrams is a multiple of that of packets.",
		Saved:   "CNI (iperf3 of its time sends datagrams of 8 KiB: six fragments each)",
		Advice:  "send datagrams of MTU - 28 bytes (iperf3: -l 1372 fits every tunnel), and say so",
		Check: func(_ Evidence, o *model.Outcome) *Doubt {
			if o.Load == nil || o.Load.Datagrams == nil || o.Load.Datagrams.Size <= datagramMost {
				return nil
			}
			const jumbo = 8972
			if o.Load.Tool == nil && o.Load.Datagrams.Size <= jumbo {
				return nil // of our own runs the ledger has the MTU
			}
			size := o.Load.Datagrams.Size
			return &Doubt{
				model.SeveritySuspect, float64(size), "datagrams do not fit one packet of 1500 bytes",
				fmt.Sprintf("%d bytes each: %d fragments at an MTU of 1500", size, (size+8+datagramMost+7)/(datagramMost+8)),
			}
		},
	}
}

func unpinned() Rule {
	return TrialRule{
		Name:   "versions not pinned",
		Doc:    "What is called latest is something else tomorrow: nobody can repeat the measurement.",
		Saved:  "GEO (every image 'latest', the cluster's version 'latest')",
		Advice: "name versions, better digests, of the tool and of everything under test",
		Check: func(e Evidence, o *model.Outcome) *Doubt {
			r := e.run(o)
			if r == nil {
				return nil
			}
			moving := []string{"latest", "nightly", "edge", "master", "main", "head", "snapshot", "unknown", "dev", "pre", "beta", "alpha", "rc"}
			for _, key := range keys(r.Labels) {
				if !strings.Contains(key, "version") && !strings.Contains(key, "image") {
					continue
				}
				for _, w := range Words(r.Labels[key]) {
					if slices.Contains(moving, strings.TrimRight(w, "0123456789")) {
						return &Doubt{model.SeverityNote, 1, "a version that does not say what ran", fmt.Sprintf("%s: %s", key, r.Labels[key])}
					}
				}
			}
			return nil
		},
	}
}
