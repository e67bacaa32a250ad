package audit

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
)

// SetRules is the catalog of the rules about a whole set of trials: ours, or
// other tools'.
func SetRules() []Rule {
	return []Rule{
		startUp(), roundTrips(), protocolMismatch(), payloadDrift(), packetSizes(), orderConfounded(), armsDiffer(), runsMissing(), notRepeated(), uncorrected(), reportDisagrees(),
	}
}

// Catalog is every rule there is.
func Catalog() []Rule { return slices.Concat(Rules(), Foreign(), SetRules()) }

func protocolMismatch() Rule {
	return SetRule{
		Name:   "protocol level differs",
		Doc:    "Systems that rewrite answers (L7) and systems that pass bytes on (L4) do different work. Their answers tell: headers of another size or of another server, connections that the server's own keep-alive limit ends at the client's side.",
		Saved:  "MULTICLUSTER (Kuma forwarded bytes, Istio parsed HTTP: 238 and 241 bytes of headers, a new socket every 1000 requests and never)",
		Advice: "set the protocol of the service so that all systems work at the same level, or name the level as what is compared",
		Check: func(e Evidence) []SetDoubt {
			if e.Runs == nil {
				return nil // of our own runs, the ledger and the claims say it
			}
			var doubts []SetDoubt
			for _, groups := range e.loads() {
				doubts = append(doubts, levels(e, groups)...)
			}
			return merged(doubts)
		},
	}
}

// level is what a group's answers tell of the path.
type level struct {
	group
	low, high int64 // bytes of headers; 0: not known
	limit     float64
	sockets   uint64
	requests  uint64
	server    string
}

func levelOf(e Evidence, g group) level {
	l := level{group: g, low: math.MaxInt64}
	for _, o := range g.trials {
		if o.Load.HeaderBytesMax > 0 {
			l.low, l.high = min(l.low, o.Load.HeaderBytesMin), max(l.high, o.Load.HeaderBytesMax)
		}
		l.sockets += o.Load.Sockets
		l.requests += o.Load.Succeeded + o.Load.FailedTotal()
		l.limit = max(l.limit, reconnects(o.Load))
		if r := e.run(o); r != nil && l.server == "" {
			l.server = serverOf(r.Response)
		}
	}
	return l
}

// serverOf is what response headers tell of who answered.
func serverOf(headers map[string]string) string {
	var parts []string
	for _, k := range keys(headers) {
		switch strings.ToLower(k) {
		case "server", "via":
			parts = append(parts, strings.ToLower(k)+": "+headers[k])
		}
	}
	return strings.Join(parts, ", ")
}

func (l level) text() string {
	text := l.variant + ":"
	if l.high > 0 {
		text += fmt.Sprintf(" %d", l.low)
		if l.high > l.low {
			text += fmt.Sprintf(" to %d", l.high)
		}
		text += " B of headers,"
	}
	if l.sockets > 0 {
		text += fmt.Sprintf(" %d socket(s) for %d requests", l.sockets, l.requests)
	}
	if l.limit > 0 {
		text += fmt.Sprintf(" (one in %.0f)", float64(l.requests)/float64(l.sockets))
	}
	if l.server != "" {
		text += ", " + l.server
	}
	return strings.TrimSuffix(strings.Replace(text, ":,", ":", 1), ",")
}

func levels(e Evidence, groups []group) []SetDoubt {
	var all []level
	for _, g := range groups {
		all = append(all, levelOf(e, g))
	}
	for i, a := range all {
		for _, b := range all[:i] {
			if how := a.differs(b); how != "" {
				var texts []string
				var trials []int
				for _, l := range all {
					texts = append(texts, l.text())
					trials = append(trials, l.indexes()...)
				}
				return []SetDoubt{{
					Doubt: Doubt{model.SeveritySuspect, 1, "the systems did not work at the same protocol level: " + how, few(texts, 6)}, //nolint:mnd // that fit on a screen
					Load:  groups[0].load, Trials: trials,
				}}
			}
		}
	}
	return nil
}

// differs says in what the answers of two systems tell of different paths.
func (l level) differs(o level) string {
	switch {
	case l.high > 0 && o.high > 0 && (l.low > o.high || l.high < o.low):
		return "answers have headers of different sizes"
	case l.sockets > 0 && o.sockets > 0 && (l.limit > 0) != (o.limit > 0):
		return "the server's keep-alive limit reaches some clients and not others"
	case l.server != "" && o.server != "" && l.server != o.server:
		return "answers name different servers"
	}
	return ""
}

func payloadDrift() Rule {
	return SetRule{
		Name:    "answers differ between systems",
		Metrics: []string{"response", "service", "success", "goodput"},
		Doc:     "Systems that answer different things, or so many bytes more, did different work.",
		Saved:   "GEO (one system answered null, 4 bytes, the others 23)",
		Advice:  "give all systems the same data, and check answers by content",
		Check: func(e Evidence) []SetDoubt {
			if e.Runs == nil {
				return nil
			}
			var doubts []SetDoubt
			for _, groups := range e.loads() {
				doubts = append(doubts, bodies(e, groups)...)
			}
			return merged(doubts)
		},
	}
}

func bodies(e Evidence, groups []group) []SetDoubt {
	const tolerance = 0.01 // a date or a counter in the body
	var texts []string
	var lows, highs []int64
	for _, g := range groups {
		low, high := int64(math.MaxInt64), int64(0)
		for _, o := range g.trials {
			a, b := bodyBytes(e.run(o), o.Load)
			low, high = min(low, a), max(high, b)
		}
		if high == 0 {
			continue
		}
		lows, highs = append(lows, low), append(highs, high)
		texts = append(texts, fmt.Sprintf("%s: %d to %d B", g.variant, low, high))
	}
	if len(lows) < 2 || float64(slices.Max(lows)) <= float64(slices.Min(highs))*(1+tolerance)+2 {
		return nil
	}
	return []SetDoubt{{Doubt: Doubt{model.SeveritySuspect, 1, "the systems answered with bodies of different sizes", few(texts, 6)}, Load: groups[0].load}} //nolint:mnd // that fit on a screen
}

// bodyBytes are the least and the most bytes of a right answer's body; nothing
// is known where most is 0.
func bodyBytes(r *Run, l *model.LoadResult) (low, high int64) {
	low, high = math.MaxInt64, 0
	if r != nil {
		for i := range r.Requests {
			if q := &r.Requests[i]; right(q) && q.Bytes > 0 {
				low, high = min(low, q.Bytes), max(high, q.Bytes)
			}
		}
	}
	if high == 0 && l.BodyBytesMax > 0 {
		return l.BodyBytesMin, l.BodyBytesMax
	}
	return low, high
}

func packetSizes() Rule {
	return SetRule{
		Name:    "packet size differs",
		Metrics: []string{"goodput", "loss", "retransmits", "cpu.gbit"},
		Doc:     "A smaller MTU means more packets, headers and CPU for the same bytes: a throughput that differs with the MTU says little about the rest of the system.",
		Saved:   "CNI (MTU 1400, 1450 and 1480: its order of throughput is the order of the MTUs)",
		Advice:  "run once with the same MTU everywhere and once with each system's own; give goodput beside the rate on the wire",
		Check: func(e Evidence) []SetDoubt {
			var doubts []SetDoubt
			for _, groups := range e.loads() {
				sizes := map[string]bool{}
				var texts []string
				for _, g := range groups {
					if s := packets(g); s != "" {
						sizes[s] = true
						texts = append(texts, g.variant+": "+s)
					}
				}
				if len(sizes) > 1 {
					doubts = append(doubts, SetDoubt{Doubt: Doubt{model.SeveritySuspect, 1, "the systems sent packets of different sizes", few(texts, 6)}, Load: groups[0].load}) //nolint:mnd // that fit on a screen
				}
			}
			return merged(doubts)
		},
	}
}

func packets(g group) string {
	seen := map[string]bool{}
	for _, o := range g.trials {
		if s := o.Load.Stream; s != nil && s.MSS > 0 {
			seen[fmt.Sprintf("MSS %d", s.MSS)] = true
		}
		if d := o.Load.Datagrams; d != nil && d.Size > 0 {
			seen[fmt.Sprintf("datagrams of %d B", d.Size)] = true
		}
		for _, f := range o.Ledger {
			if f.Key == model.FactMTU {
				seen["MTU "+f.Value] = true
			}
		}
	}
	return strings.Join(keys(seen), ", ")
}

func orderConfounded() Rule {
	return SetRule{
		Name:   "order confounded with the system",
		Doc:    "Where all runs of one system come before all of another, whatever changed in between (the hour, the machines, a rebuilt cluster) looks like the system; where the order is always the same, what one leaves behind always meets the next.",
		Saved:  "GEO (54 days and rebuilt clusters between the two systems), MULTICLUSTER (always Istio, Kuma, NSM), SIDECAR (always baseline, Linkerd, Istio)",
		Advice: "run blocks: each system once, in a new random order every time",
		Check: func(e Evidence) []SetDoubt {
			var doubts []SetDoubt
			for _, groups := range e.loads() {
				if d := orderOf(groups); d != nil {
					doubts = append(doubts, *d)
				}
			}
			return merged(doubts)
		},
	}
}

func orderOf(groups []group) *SetDoubt {
	const fixed = 3 // rounds: fewer happen to be alike
	var all []*model.Outcome
	for _, g := range groups {
		for _, o := range g.trials {
			if o.Started.IsZero() {
				return nil
			}
			all = append(all, o)
		}
	}
	slices.SortStableFunc(all, func(a, b *model.Outcome) int { return a.Started.Compare(b.Started) })
	var order, every []string
	gap, before := time.Duration(0), ""
	for i, o := range all {
		every = append(every, o.Trial.Variant)
		if i > 0 && o.Trial.Variant == all[i-1].Trial.Variant {
			continue
		}
		order = append(order, o.Trial.Variant)
		if i > 0 && o.Started.Sub(all[i-1].Started) > gap {
			gap, before = o.Started.Sub(all[i-1].Started), all[i-1].Trial.Variant+" and "+o.Trial.Variant
		}
	}
	switch {
	case len(order) == len(groups) && (len(all) > len(groups) || gap > time.Hour):
		return &SetDoubt{
			Doubt: Doubt{
				model.SeveritySuspect, gap.Hours(), "all runs of one system came before all of the next: time is confounded with the system",
				fmt.Sprintf("order: %s; longest gap %s, between %s", few(order, 6), span(gap), before), //nolint:mnd // that fit on a screen
			},
			Load: groups[0].load,
		}
	case len(every) >= fixed*len(groups) && sameRounds(every, len(groups)):
		return &SetDoubt{
			Doubt: Doubt{
				model.SeverityNote, 1, "the systems always came in the same order",
				fmt.Sprintf("%s, %d times", strings.Join(order[:len(groups)], ", "), len(every)/len(groups)),
			},
			Load: groups[0].load,
		}
	}
	return nil
}

func sameRounds(order []string, n int) bool {
	for i := n; i < len(order); i++ {
		if order[i] != order[i-n] {
			return false
		}
	}
	return true
}

func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*day:
		return fmt.Sprintf("%.0f days", d.Hours()/day.Hours())
	case d >= 2*time.Hour:
		return fmt.Sprintf("%.0f hours", d.Hours())
	}
	return round(d).String()
}

func armsDiffer() Rule {
	return SetRule{
		Name:   "arms differ in more than the system",
		Doc:    "Two arms that differ in two things do not say which of the two made the difference.",
		Saved:  "GEO (a new generator at the same time as the second cluster; the cluster was credited)",
		Advice: "change one thing at a time; what cannot be kept must be named as a factor",
		Check: func(e Evidence) []SetDoubt {
			var doubts []SetDoubt
			for _, groups := range e.loads() {
				for _, what := range differing(e, groups) {
					doubts = append(doubts, SetDoubt{Doubt: Doubt{model.SeveritySuspect, 1, "the arms differ in more than the system", what}, Load: groups[0].load})
				}
			}
			return merged(doubts)
		},
	}
}

// differing lists what each arm has one value of, and not all the same.
func differing(e Evidence, groups []group) []string {
	values, mixed := arms(e, groups)
	var texts []string
	for _, k := range keys(values) {
		seen := map[string][]string{}
		for _, variant := range keys(values[k]) {
			v := values[k][variant]
			seen[v] = append(seen[v], variant)
		}
		if mixed[k] || len(seen) < 2 || len(values[k]) < 2 {
			continue
		}
		var parts []string
		for _, v := range keys(seen) {
			parts = append(parts, fmt.Sprintf("%s (%s)", v, strings.Join(seen[v], ", ")))
		}
		texts = append(texts, k+": "+few(parts, 4)) //nolint:mnd // that fit on a screen
	}
	return texts
}

// arms are the values of each attribute by variant, and the attributes of which a
// variant has several.
func arms(e Evidence, groups []group) (values map[string]map[string]string, mixed map[string]bool) {
	values, mixed = map[string]map[string]string{}, map[string]bool{}
	for _, g := range groups {
		for _, o := range g.trials {
			for k, v := range attributes(e.run(o), o.Load) {
				if values[k] == nil {
					values[k] = map[string]string{}
				}
				old, known := values[k][g.variant]
				mixed[k] = mixed[k] || known && old != v
				values[k][g.variant] = v
			}
		}
	}
	return values, mixed
}

// attributes are what arms of one load must have in common.
func attributes(r *Run, l *model.LoadResult) map[string]string {
	a := map[string]string{}
	set := func(k, v string) {
		if v != "" && v != "0" {
			a[k] = v
		}
	}
	set("connections", strconv.Itoa(l.Connections))
	set("arrival", string(l.Arrival))
	if l.Tool != nil {
		set("tool", strings.TrimSpace(l.Tool.Name+" "+l.Tool.Version))
	}
	if r == nil {
		return a
	}
	for _, k := range []string{ingest.LabelThreads, ingest.LabelProcs, ingest.LabelProtocol, ingest.LabelAsked, ingest.LabelPlanned} {
		set(k, r.Labels[k])
	}
	u := r.Labels[ingest.LabelURL]
	if !strings.Contains(u, "://") && u != "" {
		u = "http://" + u
	}
	if parsed, err := url.Parse(u); err == nil && u != "" {
		set("URL's path", "/"+strings.TrimPrefix(parsed.Path, "/"))
		set("URL's scheme", parsed.Scheme)
	}
	return a
}
