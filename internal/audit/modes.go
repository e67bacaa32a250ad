package audit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/model"
)

const (
	roundTripsName = "latencies at multiples of a round trip"
	quotaName      = "latency plateau of a CPU quota"

	shortestTrip = 5 * time.Millisecond // shorter ones do not stand out from the work of a server
	longestTrip  = time.Second
	tripStep     = 1.002 // of the search; finer than a path's own jitter
	mostTrips    = 6     // a new connection with TLS over a far path and back is 4
	tripWidth    = 0.07  // of the trip: how far a mode may lie from a multiple
	fewestSlow   = 10    // requests that must have crossed the path
	explained    = 0.8   // share of the slow requests that must fit
)

// Trips is what single requests tell of a long path: latencies at whole
// multiples of one round trip.
type Trips struct {
	RTT  time.Duration // an estimate of one round trip
	Base time.Duration // of a request that crosses no long path
}

// Count is how many round trips a latency holds; -1 if it fits none.
func (t Trips) Count(latency time.Duration) int {
	if latency < t.RTT/2 { //nolint:mnd // nearer to none than to one
		return 0
	}
	n := float64(latency-t.Base) / float64(t.RTT)
	k := math.Round(n)
	// Each further trip adds its own jitter.
	if k < 1 || k > mostTrips || math.Abs(n-k) > tripWidth*math.Sqrt(k) {
		return -1
	}
	return int(k)
}

// FindTrips looks for the round trip whose multiples explain the slow requests:
// the longest that explains nearly as many as the best. It needs two multiples
// that hold some requests each; one alone could be anything.
func FindTrips(latencies []time.Duration) (Trips, bool) {
	all := slices.Clone(latencies)
	slices.Sort(all)
	type candidate struct {
		trips Trips
		fits  float64
	}
	var found []candidate
	best := 0.0
	for rtt := float64(longestTrip); rtt >= float64(shortestTrip); rtt /= tripStep {
		t := Trips{RTT: time.Duration(rtt), Base: base(all, time.Duration(rtt))}
		if fits, ok := t.explain(all); ok {
			found = append(found, candidate{t, fits})
			best = max(best, fits)
		}
	}
	if best < explained {
		return Trips{}, false
	}
	const nearly = 0.98
	from := slices.IndexFunc(found, func(c candidate) bool { return c.fits >= best*nearly })
	// Of the trips around that one, the middle.
	to := from
	for to+1 < len(found) && found[to+1].fits >= best*nearly && found[to+1].trips.RTT > found[from].trips.RTT*9/10 {
		to++
	}
	return found[(from+to)/2].trips, true
}

// base is the median of what is far shorter than a trip; 0 if nothing is.
func base(sorted []time.Duration, rtt time.Duration) time.Duration {
	end, _ := slices.BinarySearch(sorted, rtt/4) //nolint:mnd // far shorter
	if end == 0 {
		return 0
	}
	return sorted[end/2]
}

// explain is the share of slow requests that lie at multiples. ok says that at
// least two multiples hold some requests, the lowest one or two among them.
func (t Trips) explain(sorted []time.Duration) (share float64, ok bool) {
	from, _ := slices.BinarySearch(sorted, t.RTT/2) //nolint:mnd // as in Count
	slow := sorted[from:]
	if len(slow) < fewestSlow {
		return 0, false
	}
	var at [mostTrips + 1]int
	fit := 0
	for _, l := range slow {
		if k := t.Count(l); k > 0 {
			at[k]++
			fit++
		}
	}
	some := max(3, len(slow)/100) //nolint:mnd // 1 % of them, and never one or two
	kinds := 0
	for _, n := range at {
		if n >= some {
			kinds++
		}
	}
	return float64(fit) / float64(len(slow)), kinds >= 2 && at[1] >= some
}

// tripsOf finds the round trip of all runs together.
func tripsOf(e Evidence) (Trips, bool) {
	var all []time.Duration
	for i := range e.Runs {
		all = append(all, e.Runs[i].Latencies()...)
	}
	const enough = 4000 // more tell nothing more, and cost time
	if n := len(all); n > enough {
		for i := range enough {
			all[i] = all[i*(n/enough)]
		}
		all = all[:enough]
	}
	return FindTrips(all)
}

func roundTrips() Rule {
	return SetRule{
		Name:    roundTripsName,
		Metrics: []string{"response", "service"},
		Doc:     "Latencies at one, two and three times the same delay are requests that crossed a long path so often: 1 where only a connection in the pool is far, 2 where two hops are, 3 to 4 where a connection was opened first.",
		Saved:   "GEO (its 97 and 291 ms 'failover outliers' are servers' connections to the other region's database)",
		Advice:  "find out which hop crosses the path, by the identity of every hop; such latencies are the distance, not the system's work",
		Check: func(e Evidence) []SetDoubt {
			t, ok := tripsOf(e)
			if !ok {
				return nil
			}
			var doubts []SetDoubt
			for _, g := range e.groups() {
				if d := t.crossed(e, g); d != nil {
					doubts = append(doubts, *d)
				}
			}
			return doubts
		},
	}
}

// crossed counts a group's answers by how often they crossed the path.
func (t Trips) crossed(e Evidence, g group) *SetDoubt {
	var counts [mostTrips + 1]int
	slow, all := 0, 0
	var trials []int
	for _, o := range g.trials {
		before := slow
		for _, l := range e.run(o).Latencies() {
			all++
			if k := t.Count(l); k > 0 {
				counts[k]++
				slow++
			}
		}
		if slow > before {
			trials = append(trials, o.Trial.Index)
		}
	}
	if slow == 0 {
		return nil
	}
	return &SetDoubt{
		Doubt: Doubt{
			model.SeveritySuspect, float64(slow), fmt.Sprintf("requests crossed a long path: one round trip is about %.0f ms", t.RTT.Seconds()*1000),
			fmt.Sprintf("of %d answers, %s", all, tripsText(counts)) + e.tripsByAnswer(g, t),
		},
		Variant: g.variant, Load: g.load, Trials: trials,
	}
}

// tripsByAnswer says which answers took how many trips, where answers differ: an
// answer from near that took two trips went far and back.
func (e Evidence) tripsByAnswer(g group, t Trips) string {
	by := map[string]*[mostTrips + 1]int{}
	for _, o := range g.trials {
		r := e.run(o)
		for i := range r.Requests {
			q := &r.Requests[i]
			if k := t.Count(q.Latency); right(q) && k >= 0 && q.Payload != "" {
				if by[q.Payload] == nil {
					by[q.Payload] = &[mostTrips + 1]int{}
				}
				by[q.Payload][k]++
			}
		}
	}
	const most = 4 // more kinds of answers are no places
	if len(by) < 2 || len(by) > most {
		return ""
	}
	var parts []string
	for _, body := range keys(by) {
		parts = append(parts, fmt.Sprintf("answer %.40q: %s", body, tripsText(*by[body])))
	}
	return "; " + strings.Join(parts, "; ")
}

func tripsText(counts [mostTrips + 1]int) string {
	var parts []string
	for k, n := range counts {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d took %d RTT", n, k))
		}
	}
	return strings.Join(parts, ", ")
}

// The period of CPU quotas is 100 ms nearly everywhere. A process that has used
// its share early waits for the rest of the period.
const (
	quotaBody    = 25 * time.Millisecond // by then what is not throttled is done
	quotaValley  = 50 * time.Millisecond // between them there is nearly nothing
	quotaEnd     = 105 * time.Millisecond
	quotaLeast   = 0.01  // of all, in the plateau
	quotaBetween = 0.15  // of the plateau, in the valley
	quotaNarrow  = 0.015 // relative spread of single requests: a path is that even, a quota is not
)

func quotaPlateau() Rule {
	return TrialRule{
		Name:    quotaName,
		Metrics: []string{"response", "service", "rate"},
		Doc:     "A process that its CPU limit stops goes on at the next period of 100 ms: latencies pile up short of 100, 200 and 300 ms, with nothing before.",
		Saved:   "SIDECAR (p99 of 77, 89, 100 and 190 ms; the baseline's server was throttled, too, and nobody knew)",
		Advice:  "look at nr_throttled in the cpu.stat of every container in the path, the baseline's too; compare without limits, or state the limit as the cause",
		Check: func(e Evidence, o *model.Outcome) *Doubt {
			r, h := e.run(o), answered(o.Load)
			if r == nil || h == nil || (len(r.Requests) > 0 && evenPath(r.Latencies())) {
				return nil
			}
			pile, valley, found := plateauOf(h)
			if !found {
				return nil
			}
			return &Doubt{
				model.SeveritySuspect, pile, "latencies pile up short of 100 ms, as where a CPU limit stops a process",
				fmt.Sprintf("%.1f %% of answers took 50 to 105 ms and %.1f %% 25 to 50 ms; p50 %s, p99 %s, p99.9 %s",
					pile*100, valley*100, round(h.Quantile(0.5)), round(h.Quantile(0.99)), round(h.Quantile(0.999))),
			}
		},
	}
}

// evenPath says that the requests about the plateau lie so close together that a
// path, not a quota, delays them.
func evenPath(latencies []time.Duration) bool {
	var in []time.Duration
	for _, l := range latencies {
		if l >= quotaValley && l < quotaEnd {
			in = append(in, l)
		}
	}
	if len(in) == 0 {
		return false
	}
	slices.Sort(in)
	spread := Exact(in, 0.75) - Exact(in, 0.25)
	return spread.Seconds() < quotaNarrow*Exact(in, 0.5).Seconds()
}

// bins counts a distribution in bins of equal width on a log scale, that reaches
// at least so far.
func bins(h *hist.Histogram, n int, least time.Duration) (counts []float64, lo, hi float64) {
	lo, hi = math.Log(max(h.Min().Seconds(), 1e-6)), math.Log(max(h.Max(), least).Seconds()*1.001) //nolint:mnd // so that the greatest is inside
	counts = make([]float64, n)
	for b := range h.Each {
		at := math.Log(max(((b.Low + b.High) / 2).Seconds(), 1e-6)) //nolint:mnd // the middle
		i := int((at - lo) / (hi - lo) * float64(n))
		counts[min(max(i, 0), n-1)] += float64(b.Count)
	}
	return counts, lo, hi
}
