package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/parallel"
	"github.com/windtunnel/windtunnel/internal/sample/cgroup"
	"github.com/windtunnel/windtunnel/internal/sys"
	"github.com/windtunnel/windtunnel/internal/sys/nft"
	"github.com/windtunnel/windtunnel/internal/sys/wan"
)

var _ model.LinkedSite = (*site)(nil)

// Links are what the emulated links were seen to do before the first trial;
// see model.LinkedSite.
func (s *site) Links() []model.LinkState { return slices.Clone(s.links.states) }

// measured keeps what links were seen to do: a topology's are measured once,
// with its first site.
type measured struct {
	mu sync.Mutex
	of map[string][]model.LinkState
}

func (m *measured) known(name string) []model.LinkState {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of[name]
}

func (m *measured) keep(name string, states []model.LinkState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[string][]model.LinkState{}
	}
	m.of[name] = states
}

// measureLinks sends probes through every direction, from node to node.
func (s *site) measureLinks(ctx context.Context) error {
	name, err := json.Marshal(struct {
		Regions []model.Region
		Links   []model.Link
	}{s.topology.Regions, s.topology.Links})
	if err != nil {
		return fmt.Errorf("naming the links: %w", err)
	}
	m := &s.target.measured
	if s.links.states = m.known(string(name)); s.links.states != nil {
		return nil
	}
	before, err := s.links.stats()
	if err != nil {
		return err
	}
	if err = s.probeLinks(ctx); err != nil {
		return err
	}
	after, err := s.links.stats()
	if err != nil {
		return err
	}
	for i := range after {
		if n := after[i].Packets - before[i].Packets; n > 0 {
			s.links.states[i].Observed.Lateness = (after[i].Lateness - before[i].Lateness) / time.Duration(n) //nolint:gosec // a small count
		}
	}
	m.keep(string(name), s.links.states)
	return nil
}

// probeLinks measures some directions at a time: all at once would disturb each
// other.
func (s *site) probeLinks(ctx context.Context) error {
	const atOnce = 4
	l := s.links
	l.states = make([]model.LinkState, len(l.ways))
	return parallel.Count(len(l.ways), atOnce, func(i int) error {
		w := l.ways[i]
		o, err := s.probeLink(ctx, w, usualProbes)
		if err != nil {
			return fmt.Errorf("measuring the link %s to %s: %w", w.from, w.to, err)
		}
		l.states[i] = model.LinkState{From: w.from, To: w.to, Link: w.link, Means: l.means, Observed: o}
		return nil
	})
}

// usualProbes are how many datagrams a direction is measured with at first.
const usualProbes = 200

func (s *site) probeLink(ctx context.Context, w direction, count int) (model.LinkObserved, error) {
	const (
		bytes = 64
		gap   = 2 * time.Millisecond
		more  = 2 * time.Second
	)
	from, to := s.nodes[w.nodes[0]], s.nodes[w.nodes[1]]
	p := wan.Probe{From: from.ns, To: to.ns, Addr: to.addr, Count: count, Gap: gap, Bytes: bytes, Patience: w.link.Delay + w.link.Jitter + more}
	if rate := w.link.Rate; rate > 0 {
		const bits, headers, share = 8, 60, 4                                                       // at most a quarter of what the link carries
		p.Gap = max(gap, time.Duration(share*bits*(bytes+headers))*time.Second/time.Duration(rate)) //nolint:gosec // at most 10^12
		p.Count = min(count, max(1, int(more/p.Gap)))
	}
	if w.link.Loss == 0 {
		p.Patience = w.link.Delay + w.link.Jitter + 2*more //nolint:mnd // nothing is waited for in vain
	} else {
		const least = 200 * time.Millisecond
		p.Patience = w.link.Delay + w.link.Jitter + least
	}
	got, err := p.Send(ctx)
	if err != nil {
		return model.LinkObserved{}, err
	}
	if len(got) == 0 && w.link.Loss < 0.9 { //nolint:mnd // of 200 at least one gets through
		return model.LinkObserved{}, fmt.Errorf("none of %d probes came through", p.Count)
	}
	o := wan.Summarise(p.Count, got)
	return model.LinkObserved{
		Sent: p.Count, Lost: o.Lost, Reordered: o.Reordered, Duplicated: o.Duplicated, Mean: o.Mean, P1: o.P1, P50: o.P50, P99: o.P99,
	}, nil
}

// linkSampler reads what the delay line has counted. Its own CPU is that of the
// subject "links": no component's, and in no sum.
type linkSampler struct{ site *site }

// Sample reads all directions.
func (s linkSampler) Sample(ctx context.Context, dst []model.Reading) ([]model.Reading, error) {
	l := s.site.links
	all, err := l.stats()
	if err != nil {
		return dst, err
	}
	at := sys.Monotonic()
	for _, one := range all {
		for _, r := range []model.Reading{
			{Metric: model.SampleLinkPackets, Value: float64(one.Packets)},
			{Metric: model.SampleLinkLate, Value: float64(one.Late)},
			{Metric: model.SampleLinkLateness, Value: one.Lateness.Seconds()},
			{Metric: model.SampleLinkWorst, Value: one.Worst.Seconds()},
			{Metric: model.SampleLinkOverflow, Value: float64(one.Overflow)},
		} {
			r.At, r.Subject = at, model.SubjectLink+one.Name
			dst = append(dst, r)
		}
	}
	if l.group == nil {
		return dst, nil
	}
	own := cgroup.Sampler{Subjects: func() []cgroup.Subject { return []cgroup.Subject{{Name: model.SubjectLinks, Group: l.group}} }}
	return own.Sample(ctx, dst)
}

// linkSamplers are none where nothing of links has to be watched.
func (s *site) linkSamplers() []model.Sampler {
	if s.links == nil || s.links.client == nil {
		return nil
	}
	return []model.Sampler{linkSampler{s}}
}

// separate keeps networks apart: what pods send to nodes of other networks
// leaves with their own node's address, as through a cloud's gateway.
func (s *site) separate(n *node) error {
	var rules []nft.Rule
	for _, other := range s.nodes {
		if other.network != n.network {
			to := nft.Match{Source: n.pods, Destination: hostPrefix(other)}
			rules = append(rules, nft.Rule{If: to, Do: nft.Masquerade(), Comment: "to " + other.name})
		}
	}
	if len(rules) == 0 {
		return nil
	}
	return n.ns.Do(func() error {
		return nft.Apply(nft.Table{Name: "windtunnel-networks", Chains: []nft.Chain{{Name: "postrouting", Hook: nft.HookPostrouting, Rules: rules}}})
	})
}

// probeLinkMeans says what emulates links here.
func probeLinkMeans() model.Probe {
	ns, err := sys.NewNetns()
	if err != nil {
		return probed("links", err)
	}
	defer ns.Close() //nolint:errcheck // nothing was written to it
	if ns.Do(tryNetem) == nil {
		return found("links", "netem", nil)
	}
	err = ns.Do(func() error {
		return nft.ApplyCrossings("windtunnel-probe", []nft.Crossing{{In: "a", Out: "b", Queue: 1}})
	})
	return found("links", "delay line over NFQUEUE: the kernel has no netem ("+strconv.Itoa(lineMicros)+" us of CPU a packet)", err)
}

// lineMicros is what a packet costs the delay line, about.
const lineMicros = 3
