package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/audit"
	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// curveQuantiles are the points of a percentile curve: even steps on the
// 1/(1-q) axis.
func curveQuantiles() []float64 {
	q := []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85}
	for tail := 0.1; tail > 1e-6; tail /= 10 {
		for _, step := range []float64{1, 0.75, 0.5, 0.35, 0.2, 0.14} {
			q = append(q, 1-tail*step)
		}
	}
	return q
}

// curves are pooled over blocks, with the range over blocks as a band; they
// end where fewer than ten samples lie beyond.
func (b *builder) curves() []Curve {
	kinds := []struct {
		name string
		of   func(*model.LoadResult) *hist.Histogram
	}{
		{"response", func(r *model.LoadResult) *hist.Histogram { return r.Response }},
		{"service", func(r *model.LoadResult) *hist.Histogram { return r.Service }},
		{"failed", func(r *model.LoadResult) *hist.Histogram { return r.FailedResponse }},
	}
	curves := []Curve{}
	for _, v := range b.study.Variants {
		for _, l := range b.study.Loads {
			for _, k := range kinds {
				var hists []*hist.Histogram
				for _, o := range b.of(v.Name, l.Name) {
					if h := k.of(o.Load); h != nil && h.Count() > 0 {
						hists = append(hists, h)
					}
				}
				if len(hists) > 0 {
					curves = append(curves, curve(v.Name, l.Name, k.name, hists))
				}
			}
		}
	}
	return curves
}

func curve(variant, load, kind string, hists []*hist.Histogram) Curve {
	total := &hist.Histogram{}
	for _, h := range hists {
		total.Merge(h)
	}
	c := Curve{Variant: variant, Load: load, Kind: kind, N: total.Count()}
	for _, q := range curveQuantiles() {
		if q > 0.5 && !stats.QuantileAllowed(total.Count(), q) {
			break
		}
		p := CurvePoint{Q: q, Value: total.Quantile(q).Seconds()}
		p.Lo, p.Hi = p.Value, p.Value
		for _, h := range hists {
			v := h.Quantile(q).Seconds()
			p.Lo, p.Hi = min(p.Lo, v), max(p.Hi, v)
		}
		c.Points = append(c.Points, p)
	}
	return c
}

func (b *builder) timelines() []Timeline {
	all := []Timeline{}
	for i := range b.outcomes {
		o := &b.outcomes[i]
		if o.Load == nil || len(o.Load.Timeline.Slots) == 0 {
			continue
		}
		all = append(all, timeline(o.Trial.Index, o.Load.Timeline))
	}
	return all
}

func timeline(trial int, t model.Timeline) Timeline {
	out := Timeline{Trial: trial, SlotWidth: t.SlotWidth.Seconds(), Cells: [][3]uint32{}}
	low, high := uint32(hist.Cells), uint32(0)
	for _, s := range t.Slots {
		for _, c := range s.Cells {
			low, high = min(low, c[0]), max(high, c[0])
		}
	}
	for c := low; c <= high; c++ {
		lo, hi := hist.CellBounds(c)
		out.Bounds = append(out.Bounds, lo.Seconds())
		if c == high {
			out.Bounds = append(out.Bounds, (hi + 1).Seconds())
		}
	}
	for i, s := range t.Slots {
		out.Succeeded, out.Failed = append(out.Succeeded, s.Succeeded), append(out.Failed, s.Failed)
		out.MeanSecond, out.MaxSecond = append(out.MeanSecond, s.Mean.Seconds()), append(out.MaxSecond, s.Max.Seconds())
		for _, c := range s.Cells {
			out.Cells = append(out.Cells, [3]uint32{uint32(i), c[0] - low, c[1]})
		}
	}
	return out
}

// use is what one component used in one trial.
type use struct{ cores, work, throttled, memory float64 }

// resources sums components over pods of one role, e.g. "server sidecar".
func (b *builder) resources() []Resource {
	all := []Resource{}
	for _, v := range b.study.Variants {
		for _, l := range b.study.Loads {
			byName := map[string][]use{}
			for _, o := range b.of(v.Name, l.Name) {
				for name, u := range b.uses(o) {
					byName[name] = append(byName[name], u)
				}
			}
			for _, name := range slices.Sorted(maps.Keys(byName)) {
				r := resource(v.Name, l.Name, name, byName[name])
				if b.flowing(l.Name) {
					r.CPUPer1k, r.CPUPerGb = nil, r.CPUPer1k
				}
				all = append(all, r)
			}
		}
	}
	return all
}

func (b *builder) uses(o *model.Outcome) map[string]use {
	role := map[string]string{}
	for _, n := range b.study.Topology.Nodes() {
		for _, p := range n.Pods {
			role[p.Name] = p.Role
		}
	}
	sums := map[string]use{}
	for _, u := range metric.Usages(o) {
		name := u.Component
		if u.Component != string(model.ComponentGenerator) {
			name = strings.TrimSpace(role[u.Pod] + " " + u.Component)
		}
		s := sums[name]
		s.cores += u.CPU / o.Window.Duration().Seconds()
		s.work += per(u.CPU, o)
		s.throttled += u.Throttled
		s.memory += u.MemoryPeak
		sums[name] = s
	}
	return sums
}

// per is CPU per 1,000 requests, or per Gbit of what is not made of requests.
func per(cpu float64, o *model.Outcome) float64 {
	if !metric.IsFlow(o.Load) {
		return cpu / float64(max(o.Load.Succeeded, 1)) * 1000
	}
	bits, err := metric.Of(o, "goodput")
	if err != nil || bits == 0 {
		return 0
	}
	return cpu / (bits * o.Load.Elapsed.Seconds() / 1e9)
}

// flowing says whether a load is not made of requests.
func (b *builder) flowing(load string) bool {
	return slices.ContainsFunc(b.measured(load), metric.IsFlow)
}

func resource(variant, load, name string, uses []use) Resource {
	of := func(get func(use) float64) *Estimate {
		var v []float64
		for _, u := range uses {
			v = append(v, get(u))
		}
		slices.Sort(v)
		return &Estimate{Value: stats.HodgesLehmann(v), Lo: v[0], Hi: v[len(v)-1], N: len(v), Method: "Hodges-Lehmann, range over blocks"}
	}
	return Resource{
		Variant: variant, Load: load, Component: name,
		Cores: of(func(u use) float64 { return u.cores }), CPUPer1k: of(func(u use) float64 { return u.work }),
		Throttled: of(func(u use) float64 { return u.throttled }), Memory: of(func(u use) float64 { return u.memory }),
	}
}

// entry is what was observed of one fact of one variant, in all its trials.
type entry struct {
	values, sources map[string]bool
	claimed         string
	broken          bool
}

// ledger has one row a fact and one cell a variant.
func (b *builder) ledger() []LedgerRow {
	rows := b.observed()
	out := []LedgerRow{}
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		row := LedgerRow{Key: key}
		for _, v := range b.study.Variants {
			cell := LedgerCell{Values: []string{}, Sources: []string{}}
			if e := rows[key][v.Name]; e != nil {
				cell = LedgerCell{
					Values: slices.Sorted(maps.Keys(e.values)), Sources: slices.Sorted(maps.Keys(e.sources)),
					Claimed: e.claimed, Broken: e.broken,
				}
			}
			row.Differs = row.Differs || (len(row.Cells) > 0 && !slices.Equal(row.Cells[0].Values, cell.Values))
			row.Cells = append(row.Cells, cell)
		}
		out = append(out, row)
	}
	return out
}

// observed collects facts and claims by key and variant.
func (b *builder) observed() map[string]map[string]*entry {
	rows := map[string]map[string]*entry{}
	at := func(key, variant string) *entry {
		if rows[key] == nil {
			rows[key] = map[string]*entry{}
		}
		if rows[key][variant] == nil {
			rows[key][variant] = &entry{values: map[string]bool{}, sources: map[string]bool{}}
		}
		return rows[key][variant]
	}
	for i := range b.outcomes {
		o := &b.outcomes[i]
		for _, f := range append(slices.Clone(o.Ledger), generated(o)...) {
			e := at(f.Key, o.Trial.Variant)
			e.values[f.Value], e.sources[f.Source] = true, true
		}
		for _, c := range o.Claims {
			e := at(c.Key, o.Trial.Variant)
			e.claimed = c.Value
			e.broken = e.broken || (o.Failure == nil && !slices.Contains(audit.Seen(o.Ledger, c), c.Value))
		}
	}
	return rows
}

// generated are the facts that the load's own result tells.
func generated(o *model.Outcome) model.Ledger {
	if o.Load == nil {
		return nil
	}
	var facts model.Ledger
	add := func(key, value, source string) {
		if value != "" {
			facts = append(facts, model.Fact{Layer: "generator", Key: key, Value: value, Source: source})
		}
	}
	add("clock of the load's stamps", o.Load.Clock, model.SourceConfig)
	if t := o.Load.Tool; t != nil {
		add("load sent by", strings.TrimSpace(t.Name+" "+t.Version), model.SourceProgram)
		add("the tool's latency counts from", string(t.Basis), model.SourceProgram)
	}
	if s := o.Load.Stream; s != nil {
		add("congestion control", s.Congestion, model.SourceConfig)
		if s.MSS > 0 {
			add("TCP segment size (MSS)", fmt.Sprintf("%d bytes", s.MSS), model.SourceConfig)
		}
	}
	if d := o.Load.Datagrams; d != nil {
		const together = 1.5
		way, at := "one by one", float64(d.Sent)/float64(max(d.Calls, 1))
		switch {
		case d.Offload:
			way = "segmented by the kernel (GSO): in bursts"
		case d.Calls > 0 && at > together:
			way = fmt.Sprintf("%.1f at once on average, each a packet of its own (sendmmsg)", at)
		}
		add("datagrams sent", way, model.SourceConfig)
		add("datagram size", fmt.Sprintf("%d bytes", d.Size), model.SourceConfig)
	}
	return facts
}

// NodesOf are a topology's nodes with their pods.
func NodesOf(t model.Topology) []Node {
	var all []Node
	for _, r := range t.Regions {
		for _, c := range r.Clusters {
			for _, n := range c.Nodes {
				node := Node{Region: r.Name, Cluster: c.Name, Name: n.Name, Pods: []Pod{}}
				for _, p := range n.Pods {
					node.Pods = append(node.Pods, Pod{Name: p.Name, Role: p.Role})
				}
				all = append(all, node)
			}
		}
	}
	return all
}

func (b *builder) topology() Topology {
	var t Topology
	var client, server Node
	t.Nodes = NodesOf(b.study.Topology)
	for _, node := range t.Nodes {
		switch sends := slices.ContainsFunc(node.Pods, func(p Pod) bool { return p.Role == model.RoleClient }); {
		case !sends:
			server = node
		case client.Name == "":
			client = node
		}
	}
	if server.Name == "" { // every node has a pod that sends: servers are beside one
		if i := slices.IndexFunc(t.Nodes, func(n Node) bool {
			return slices.ContainsFunc(n.Pods, func(p Pod) bool { return p.Role != model.RoleClient })
		}); i >= 0 {
			server = t.Nodes[i]
		}
	}
	for _, v := range b.study.Variants {
		t.Paths = append(t.Paths, Path{Variant: v.Name, Hops: b.hops(v, client, server)})
	}
	t.Traffic = b.traffic()
	return t
}

// hops says the way of a request from the components that ran, and the facts
// that were observed.
func (b *builder) hops(v model.Variant, client, server Node) []string {
	ran := map[string]bool{}
	dnat := false
	for i := range b.outcomes {
		o := &b.outcomes[i]
		if o.Trial.Variant != v.Name {
			continue
		}
		for name := range b.uses(&model.Outcome{Samples: o.Samples, Window: o.Window, Load: &model.LoadResult{}}) {
			ran[name] = true
		}
		for _, f := range o.Ledger {
			dnat = dnat || (f.Key == model.FactTranslated && strings.HasPrefix(f.Value, "yes"))
		}
	}
	name := func(n Node, role string) string {
		for _, p := range n.Pods {
			if p.Role == role {
				return p.Name
			}
		}
		return role
	}
	hops := []string{name(client, "client") + " generator"}
	if ran["client sidecar"] {
		hops = append(hops, name(client, "client")+" sidecar")
	}
	if dnat && !ran["client sidecar"] {
		hops = append(hops, client.Name+" nftables")
	}
	if ran["server sidecar"] {
		hops = append(hops, name(server, "server")+" sidecar")
	}
	return append(hops, name(server, "server")+" app")
}

func (b *builder) trials() []Trial {
	var all []Trial
	for i := range b.outcomes {
		o := &b.outcomes[i]
		t := Trial{
			Index: o.Trial.Index, Block: o.Trial.Block, Order: o.Trial.Order, Variant: o.Trial.Variant, Load: o.Trial.Load,
			State: "done", Started: o.Started, Logs: o.Logs,
		}
		if b.invalid[o.Trial.Index] {
			t.State = "invalid"
		}
		if o.Failure != nil {
			t.State, t.Error = "failed", o.Failure.Step+": "+o.Failure.Error
		}
		set := func(dst *float64, name string) {
			if v, err := b.value(o, name); err == nil {
				*dst = v
			}
		}
		set(&t.Rate, "rate")
		set(&t.P50, "response.p50")
		set(&t.P99, "response.p99")
		set(&t.Success, "success")
		all = append(all, t)
	}
	return all
}
