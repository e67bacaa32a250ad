package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

const farHopsName = "hops between regions"

func farHops() Rule {
	return TrialRule{
		Name:    farHopsName,
		Metrics: []string{"response", "service"},
		Doc: "A request takes a round trip for each hop of its path that crosses between regions, and two or more besides where a connection is opened first. " +
			"Where the path of every request is known, modes of the latency are explained and not guessed.",
		Saved:  "GEO (97 and 291 ms were read as failover; they are servers' connections to the other region's database)",
		Advice: "compare requests of one path; a hop that should not be far belongs into its own cluster (a mesh merges services of one name over clusters, databases too)",
		Check: func(e Evidence, o *model.Outcome) *Doubt {
			if o.Load == nil || o.Load.Trace == nil {
				return nil
			}
			return crossings(e.Study, o)
		},
	}
}

// path is what is known of the requests that took one path of hops.
type path struct {
	hops     string
	far      []string      // its hops that cross between regions, e.g. server-0>redis-1
	rtt      time.Duration // of the longest of them
	requests int
	took     [mostTrips + 1]int
	other    int // that fit no number of round trips
}

// crossings groups a trial's answers by their paths; nil: none crosses.
func crossings(s model.Study, o *model.Outcome) *Doubt {
	t := o.Load.Trace
	load := slices.IndexFunc(s.Loads, func(l model.Load) bool { return l.Name == o.Trial.Load })
	if load < 0 {
		return nil
	}
	paths := map[string]*path{}
	var near []time.Duration
	for i := range t.Due {
		hops := hopsOf(t, i)
		if hops == "" {
			continue
		}
		if paths[hops] == nil {
			paths[hops] = newPath(s.Topology, append([]string{s.Loads[load].From}, strings.Split(hops, ",")...))
		}
		if len(paths[hops].far) == 0 {
			near = append(near, microseconds(t.Response[i]))
		}
	}
	slices.Sort(near)
	var base time.Duration
	if len(near) > 0 {
		base = near[len(near)/2]
	}
	far, all := 0, 0
	for i := range t.Due {
		p := paths[hopsOf(t, i)]
		if p == nil {
			continue
		}
		all++
		if p.requests++; len(p.far) > 0 {
			far++
			p.add(Trips{RTT: p.rtt, Base: base}.Count(microseconds(t.Response[i])))
		}
	}
	if far == 0 {
		return nil
	}
	return &Doubt{
		model.SeverityNote, float64(far) / float64(all), "requests crossed between regions: their latency is the distance",
		fmt.Sprintf("%d of %d answers: %s", far, all, describePaths(paths)),
	}
}

// hopsOf is the path of a success: all of it, or who answered; "": unknown.
func hopsOf(t *model.Trace, i int) string {
	if t.Failure(i) != "" {
		return ""
	}
	if hops := t.Hops(i); hops != "" {
		return hops
	}
	return t.Responder(i)
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// newPath finds which hops from one pod to the next lie between regions. In an
// app whose services call several others that is not who called whom, but each
// change of the region is seen.
func newPath(t model.Topology, pods []string) *path {
	p := &path{hops: strings.Join(pods[1:], ",")}
	places := placesOf(t)
	for i, to := range pods[1:] {
		a, knownA := places[pods[i]]
		b, knownB := places[to]
		if !knownA || !knownB || a.Region == b.Region {
			continue
		}
		if link := t.LinkOf(a, b); link >= 0 {
			p.far = append(p.far, pods[i]+">"+to)
			p.rtt = max(p.rtt, 2*t.Links[link].Delay) //nolint:mnd // both ways
		}
	}
	if p.rtt < shortestTrip {
		p.far = nil // too near to tell
	}
	return p
}

// placesOf says where each pod is.
func placesOf(t model.Topology) map[string]model.Place {
	all := map[string]model.Place{}
	places := t.Places()
	for i, n := range t.Nodes() {
		for _, p := range n.Pods {
			all[p.Name] = places[i]
		}
	}
	return all
}

func (p *path) add(trips int) {
	if trips < 0 {
		p.other++
		return
	}
	p.took[trips]++
}

// describePaths says of each path that is far how many requests took how many
// round trips, those of the most requests first.
func describePaths(paths map[string]*path) string {
	var far []*path
	for _, p := range paths {
		if len(p.far) > 0 {
			far = append(far, p)
		}
	}
	slices.SortFunc(far, func(a, b *path) int {
		return cmp.Or(cmp.Compare(b.requests, a.requests), strings.Compare(a.hops, b.hops))
	})
	const most = 4
	var parts []string
	for _, p := range far[:min(most, len(far))] {
		text := fmt.Sprintf("%s crosses at %s (%s a round trip): %s", p.hops, strings.Join(p.far, ", "), p.rtt.Round(time.Millisecond), tripsText(p.took))
		if p.other > 0 {
			text += fmt.Sprintf(", %d otherwise", p.other)
		}
		parts = append(parts, strings.ReplaceAll(text, ": ,", ":"))
	}
	if n := len(far) - most; n > 0 {
		parts = append(parts, fmt.Sprintf("%d more paths", n))
	}
	return strings.Join(parts, "; ")
}
