package model

import (
	"fmt"
	"strings"
	"time"
)

// LinkState is one direction of an emulated link: what was asked for, and what
// was measured through the real path before the first trial.
type LinkState struct {
	From string `json:"from"`
	To   string `json:"to"`
	Link Link   `json:"link"`
	// Means is what emulates it: "netem" or "delay line".
	Means    string       `json:"means"`
	Observed LinkObserved `json:"observed"`
}

// LinkObserved is what probes through a link have met. Delays are one way, with
// the time that the probe's packets take through the host itself.
type LinkObserved struct {
	Sent       int           `json:"sent"`
	Lost       int           `json:"lost"`
	Reordered  int           `json:"reordered"`  // came after one that was sent later
	Duplicated int           `json:"duplicated"` // came again
	Mean       time.Duration `json:"mean_ns"`
	P1         time.Duration `json:"p1_ns"`
	P50        time.Duration `json:"p50_ns"`
	P99        time.Duration `json:"p99_ns"`
	// Lateness is the delay line's own, over the probes: mean.
	Lateness time.Duration `json:"lateness_ns,omitempty"`
}

// LinkedSite is a site that has measured its emulated links.
type LinkedSite interface {
	Links() []LinkState
}

// FactLink begins the keys of facts about links.
const FactLink = "emulated link "

// Fact is the direction as a line of the ledger.
func (s LinkState) Fact() Fact {
	const percent, micro = 100, 10 * time.Microsecond
	l, o := s.Link, s.Observed
	var text strings.Builder
	add := func(format string, values ...any) { fmt.Fprintf(&text, format, values...) }
	add("asked %s", l.Delay)
	if l.Jitter > 0 {
		add(" +- %s", l.Jitter)
	}
	for _, part := range []struct {
		share float64
		what  string
	}{{l.Loss, "lost"}, {l.Duplicate, "doubled"}, {l.ReorderShare, "reordered"}} {
		if part.share > 0 {
			add(", %g %% %s", part.share*percent, part.what)
		}
	}
	if l.Rate > 0 {
		const mega = 1e6
		add(", %g Mbit/s", float64(l.Rate)/mega)
	}
	if l.MTU > 0 {
		add(", MTU %d", l.MTU)
	}
	add("; observed p50 %s, p99 %s, %d of %d lost", o.P50.Round(micro), o.P99.Round(micro), o.Lost, o.Sent)
	if o.Reordered > 0 {
		add(", %d reordered", o.Reordered)
	}
	if o.Duplicated > 0 {
		add(", %d doubled", o.Duplicated)
	}
	return Fact{Layer: "lab", Key: FactLink + s.From + " to " + s.To, Value: text.String() + "; " + s.Means, Source: SourceWire}
}

// SubjectLink begins the subjects of readings of links, one a direction:
// "link:a>b". It has no slash: a link is no component of a pod.
const SubjectLink = "link:"

// SubjectLinks is the process that emulates links, with SampleCPU.
const SubjectLinks = "links"

// What is read of a link's direction.
const (
	SampleLinkPackets  = "link_packets"          // counter
	SampleLinkLate     = "link_late_packets"     // counter: left later than the link's bound after they were due
	SampleLinkLateness = "link_lateness_seconds" // counter: sum over packets
	SampleLinkWorst    = "link_worst_seconds"    // gauge: worst lateness since the last reading
	SampleLinkOverflow = "link_overflow_packets" // counter: found the rate's buffer full
)
