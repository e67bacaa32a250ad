package report

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
)

// loads describes every load of the study.
func (b *builder) loads() []Load {
	var all []Load
	for _, l := range b.study.Loads {
		kind, text := b.describe(l)
		closed := l.Arrival == model.ArrivalClosed
		all = append(all, Load{
			Name: l.Name, Text: text, Arrival: string(l.Arrival), Kind: kind, Main: b.main(l, kind),
			ResponseIsService: closed && l.Pace == 0 && kind == KindRequests, Seconds: l.Duration.Seconds(),
		})
	}
	return all
}

// measured returns the results of a load, of all variants.
func (b *builder) measured(load string) []*model.LoadResult {
	var all []*model.LoadResult
	for i := range b.outcomes {
		if o := &b.outcomes[i]; o.Trial.Load == load && o.Load != nil {
			all = append(all, o.Load)
		}
	}
	return all
}

// describe says what a load is made of, which its results show, and what it is.
func (b *builder) describe(l model.Load) (kind, text string) {
	parts := []string{l.Protocol}
	if l.Driver != "" {
		parts = []string{l.Protocol + " by " + l.Driver}
	}
	for _, r := range b.measured(l.Name) {
		if s := r.Stream; s != nil {
			way := map[string]string{"both": "both ways"}[s.Direction]
			if way == "" {
				way = s.Direction
			}
			return KindStream, strings.Join(append(parts, fmt.Sprintf("%d %s %s", s.Streams, plural("stream", s.Streams), way), "blocks of "+FormatValue(metric.UnitBytes, float64(s.Block))), ", ")
		}
		if d := r.Datagrams; d != nil {
			return KindDatagrams, strings.Join(append(parts, fmt.Sprintf("%s/s datagrams of %s bytes", digits(r.Rate), digits(float64(d.Size)))), ", ")
		}
	}
	parts = append(parts, sends(l)...)
	if l.Fault != "" {
		parts = append(parts, "under fault "+l.Fault)
	}
	return KindRequests, strings.Join(parts, ", ")
}

// sends says when a load sends requests.
func sends(l model.Load) []string {
	connections := fmt.Sprintf("%d %s", l.Connections, plural("connection", l.Connections))
	if l.Arrival == model.ArrivalClosed {
		parts := []string{"closed loop", connections}
		if l.Pace > 0 {
			parts = append(parts, "at most "+digits(l.Pace)+"/s")
		}
		if l.Think > 0 {
			parts = append(parts, "thinking "+l.Think.String())
		}
		return parts
	}
	rate := digits(l.Rate) + "/s"
	switch {
	case l.Search != nil:
		rate = "searched rate"
	case l.Relative != nil:
		rate = fmt.Sprintf("%s of %s %s", share(l.Relative.Share), l.Relative.Among, l.Relative.Of)
		if l.Rate > 0 {
			rate += ", " + digits(l.Rate) + "/s"
		}
	case l.Rate == 0:
		rate = "fixed bitrate," // the protocol's own key
	}
	parts := []string{rate + " open loop", connections}
	switch p := l.Pattern; {
	case len(p.Times) > 0:
		parts = append(parts, "replayed")
	case len(p.Segments) > 0:
		parts = append(parts, "at a varying rate")
	case p.Burst > 1:
		parts = append(parts, fmt.Sprintf("bursts of %d", p.Burst))
	}
	if l.Pattern.Poisson {
		parts = append(parts, "Poisson")
	}
	return parts
}

// main picks the metrics of a load's main table: what the load is run for comes
// first, then what it cost.
func (b *builder) main(l model.Load, kind string) []string {
	var names []string
	switch {
	case kind == KindStream:
		names = []string{"goodput", "goodput.up", "goodput.down", "retransmits", "cpu.gbit.total", "rtt", "memory.total"}
		if !slices.ContainsFunc(b.measured(l.Name), func(r *model.LoadResult) bool { return r.Stream != nil && r.Stream.Direction == "both" }) {
			names = slices.DeleteFunc(names, func(n string) bool { return strings.HasPrefix(n, "goodput.") })
		}
	case kind == KindDatagrams:
		names = []string{"loss", "goodput", "jitter", "reordered", "cpu.gbit.total", "memory.total"}
	case l.Fault != "":
		names = []string{
			"failover.failed", "failover.recovered99", "failover.detected", "failover.slow", "failover.wrong_region",
			"failback.recovered", "failback.failed", "success", "response.p50",
		}
	case l.Search != nil:
		names = []string{"rate.highest", "response.p50", "response.p99", "cpu.total", "success", "memory.total", "throttled.total"}
	default:
		names = []string{"response.p50", "response.p99", "rate", "messages", "cpu.total", "success", "memory.total", "throttled.total"}
		if l.Arrival == model.ArrivalOpen {
			names = slices.DeleteFunc(names, func(n string) bool { return n == "rate" })
		}
	}
	has := b.has(l.Name)
	return slices.DeleteFunc(names, func(n string) bool {
		return !slices.ContainsFunc(has, func(d metric.Metric) bool { return d.Name == n })
	})
}

// has returns the metrics that a load can have: all but those that its results
// say are of other loads.
func (b *builder) has(load string) []metric.Metric {
	if known, ok := b.known[load]; ok {
		return known
	}
	all := metric.All()
	trials := 0
	found := map[string]bool{}
	for i := range b.outcomes {
		o := &b.outcomes[i]
		if o.Trial.Load != load || o.Load == nil {
			continue
		}
		trials++
		for _, d := range all {
			if found[d.Name] {
				continue
			}
			_, err := b.value(o, d.Name)
			found[d.Name] = !errors.Is(err, metric.ErrOtherLoad)
		}
	}
	if trials > 0 {
		all = slices.DeleteFunc(all, func(d metric.Metric) bool { return !found[d.Name] })
	}
	b.known[load] = all
	return all
}

// flows are the trials of bulk transfers and of datagrams, over time.
func (b *builder) flows() []Flow {
	all := []Flow{}
	for i := range b.outcomes {
		o := &b.outcomes[i]
		switch {
		case o.Load == nil:
		case o.Load.Stream != nil:
			all = append(all, streamFlow(o.Trial.Index, o.Load.Stream))
		case o.Load.Datagrams != nil:
			all = append(all, datagramFlow(o.Trial.Index, o.Load.Datagrams))
		}
	}
	return all
}

func perSecond(bytes uint64, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(bytes) * 8 / seconds
}

func streamFlow(trial int, s *model.StreamResult) Flow {
	f := Flow{Trial: trial}
	for _, i := range s.Intervals {
		seconds := i.Length.Seconds()
		f.Lengths = append(f.Lengths, seconds)
		f.Retransmits = append(f.Retransmits, i.Retransmits)
		if s.Direction != "down" {
			f.Up = append(f.Up, perSecond(i.Up, seconds))
		}
		if s.Direction != "up" {
			f.Down = append(f.Down, perSecond(i.Down, seconds))
		}
	}
	return f
}

func datagramFlow(trial int, d *model.DatagramResult) Flow {
	f := Flow{Trial: trial}
	for _, i := range d.Intervals {
		seconds := i.Length.Seconds()
		f.Lengths = append(f.Lengths, seconds)
		f.Up = append(f.Up, perSecond(i.Received*uint64(max(d.Size, 0)), seconds))
		f.Loss = append(f.Loss, float64(i.Lost)/float64(max(i.Sent, 1)))
		f.Jitter = append(f.Jitter, i.Jitter.Seconds())
	}
	return f
}
