// Package breakdown finds where the time of requests went, from what the
// generator, the proxies and the apps say of each; pure.
//
// All times are differences of one program's stamps, so that no two clocks are
// ever compared. For each request the parts add up to what the generator has
// measured: what no stamp accounts for is a part, too.
package breakdown

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Of breaks the requests down that were sent from a pod. Without spans, which is
// where nothing on the way records requests, there are two parts only: the way,
// called so, and the app.
func Of(t *model.Traced, spans []model.Span, from, way string) *model.Breakdown {
	b := &builder{from: from, way: way, index: map[key]int{}, recorded: map[string]bool{}}
	byRequest := map[uint64][]*node{}
	for i := range spans {
		s := &spans[i]
		byRequest[s.Request] = append(byRequest[s.Request], &node{Span: s})
		if s.Inbound {
			b.recorded[s.Service] = true
		}
	}
	for _, all := range byRequest {
		slices.SortFunc(all, func(x, y *node) int { return cmp.Compare(x.Start, y.Start) })
	}
	for i, number := range t.Number {
		b.parts, b.whole = b.parts[:0], true
		if len(spans) > 0 {
			b.request(t.Service[i], byRequest[number])
		} else {
			b.direct(t, i)
		}
		if b.whole {
			b.keep(t.Service[i])
		}
	}
	return b.result(len(t.Number))
}

// key tells parts from each other.
type key struct {
	kind          model.PartKind
	name, service string
}

// part is one part of the request at hand.
type part struct {
	key

	took int64
}

// column is one part of all requests.
type column struct {
	key

	took []int64
	rank float64 // sum of its places in the requests that pass it
	n    float64 // how many those are
}

// node is a span that may have found its place.
type node struct {
	*model.Span

	used bool
}

type builder struct {
	from     string
	way      string
	recorded map[string]bool // services whose proxies record what comes in
	parts    []part
	whole    bool // no record of the request at hand is missing
	totals   []int64
	columns  []*column
	index    map[key]int
}

func (b *builder) add(kind model.PartKind, name, service string, took int64) {
	k := key{kind, name, service}
	if i := slices.IndexFunc(b.parts, func(p part) bool { return p.key == k }); i >= 0 {
		b.parts[i].took += took
		return
	}
	b.parts = append(b.parts, part{k, took})
}

// direct is a request that nothing on the way has recorded. An app of several
// services tells more.
func (b *builder) direct(t *model.Traced, i int) {
	service, app := t.Service[i], t.App[i]
	if app == model.NoTime {
		b.add(model.PartUnexplained, b.way+", and app", "", service)
		return
	}
	b.add(model.PartNetwork, b.way, "", service-app)
	var told []model.Timed
	if i < len(t.Told) {
		told = model.Timings(t.Told[i])
	}
	if len(told) == 0 {
		b.add(model.PartApp, "app", "", app)
		return
	}
	for _, part := range told {
		app -= b.told(part)
	}
	if app != 0 { // rounding, and what the app says that is not understood
		b.add(model.PartUnexplained, "what the app does not tell apart", "", app)
	}
}

// told adds a part that the app tells, and returns how long it took.
func (b *builder) told(t model.Timed) int64 {
	kinds := []struct {
		suffix string
		kind   model.PartKind
		name   string
		sign   int64
	}{
		{model.TimingOwn, model.PartApp, "%s: app", 1},
		{model.TimingWay, model.PartNetwork, "network to %s", 1},
		{model.TimingParallel, model.PartParallel, "%s: asks at the same time", -1},
	}
	for _, k := range kinds {
		if service, ok := strings.CutSuffix(t.Name, k.suffix); ok {
			b.add(k.kind, fmt.Sprintf(k.name, service), service, k.sign*t.Took)
			return k.sign * t.Took
		}
	}
	return 0
}

// request follows one request from the generator's proxy on.
func (b *builder) request(service int64, spans []*node) {
	i := slices.IndexFunc(spans, func(n *node) bool { return n.Pod == b.from && !n.Inbound })
	if i < 0 {
		b.whole = false
		return
	}
	b.add(model.PartUnexplained, "between generator and sidecar", "", service-spans[i].Took)
	b.outbound(spans[i], b.from, spans)
}

// outbound is a request as the proxy of the one that asks has it.
func (b *builder) outbound(o *node, who string, spans []*node) {
	o.used = true
	name := who + ": sidecar, outbound"
	if who != b.from { // which asks one service; others may ask several
		name += " to " + o.Service
	}
	b.add(model.PartProxy, name, o.Service, o.Took-o.Upstream)
	var answered []*node
	var within int64
	for {
		i := inboundOf(o, spans)
		if i == nil {
			break
		}
		i.used = true
		answered, within = append(answered, i), within+i.Took
	}
	switch {
	case len(answered) > 0:
		b.add(model.PartNetwork, "network to "+o.Service, o.Service, o.Upstream-within)
	case b.recorded[o.Service]:
		b.whole = false
	default:
		b.add(model.PartUnexplained, o.Service+" and the way there", o.Service, o.Upstream)
	}
	for _, i := range answered {
		b.inbound(i, spans)
	}
}

// inboundOf is the next record of the other end of an outbound request: more
// than one where it was sent again. Behind a gateway the address is another.
func inboundOf(o *node, spans []*node) *node {
	var other *node
	for _, n := range spans {
		if n.used || !n.Inbound || n.Service != o.Service || n.Start < o.Start || n.Start > o.Start+o.Took {
			continue
		}
		if n.Local == o.Peer {
			return n
		}
		if other == nil && !slices.ContainsFunc(spans, func(x *node) bool { return x.Inbound && x.Local == o.Peer }) {
			other = n
		}
	}
	return other
}

// inbound is a request as the proxy of the one that answers has it, with what
// that asks others.
func (b *builder) inbound(i *node, spans []*node) {
	b.add(model.PartProxy, i.Service+": sidecar, inbound", i.Service, i.Took-i.Upstream)
	var calls []*node
	var sum, union, until int64
	for _, n := range spans {
		if n.used || n.Inbound || n.Pod != i.Pod || n.Start < i.Start || n.Start > i.Start+i.Took {
			continue
		}
		n.used = true
		calls = append(calls, n)
		sum += n.Took
		if end := n.Start + n.Took; end > until {
			union += end - max(n.Start, until)
			until = end
		}
	}
	own := i.Upstream - union // spans are in the order of their starts
	if i.App == model.NoTime {
		b.add(model.PartUnexplained, i.Service+": app and pod", i.Service, own)
	} else {
		app := min(max(i.App-union, 0), own)
		if i.Own != model.NoTime { // else the way to its own sidecar is in it
			app = min(max(i.Own, 0), own)
		}
		b.add(model.PartUnexplained, i.Service+": between sidecar and app", i.Service, own-app)
		b.add(model.PartApp, i.Service+": app", i.Service, app)
	}
	for _, c := range calls {
		b.outbound(c, i.Service, spans)
	}
	if len(calls) > 1 && sum != union {
		b.add(model.PartParallel, i.Service+": asks at the same time", i.Service, union-sum)
	}
}

// keep takes over the request at hand.
func (b *builder) keep(total int64) {
	for rank, p := range b.parts {
		i, known := b.index[p.key]
		if !known {
			i = len(b.columns)
			b.index[p.key] = i
			b.columns = append(b.columns, &column{key: p.key})
		}
		c := b.columns[i]
		c.fill(len(b.totals))
		c.took, c.rank, c.n = append(c.took, p.took), c.rank+float64(rank), c.n+1
	}
	b.totals = append(b.totals, total)
}

// fill makes a column as long as it ought to be.
func (c *column) fill(length int) {
	for len(c.took) < length {
		c.took = append(c.took, model.NoTime)
	}
}

func (b *builder) result(traced int) *model.Breakdown {
	slices.SortStableFunc(b.columns, func(x, y *column) int { return cmp.Compare(x.rank/x.n, y.rank/y.n) })
	out := &model.Breakdown{Total: b.totals, Traced: traced}
	for _, c := range b.columns {
		c.fill(len(b.totals))
		out.Parts = append(out.Parts, model.Part{Kind: c.kind, Name: c.name, Service: c.service, Took: c.took})
	}
	return out
}
