package study

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/model"
)

// loads makes the loads of the model; a ladder makes several of one.
func (b *builder) loads(cs []LoadConfig, t model.Topology) []model.Load {
	var loads []model.Load
	var paths []string // where each stands in the file
	for i, c := range cs {
		path := at("loads", i)
		c.To = b.to(c, t, path)
		made := b.load(c, path)
		b.ends(c, t, path)
		for range made {
			paths = append(paths, path)
		}
		loads = append(loads, made...)
	}
	b.loadPaths = paths
	b.wholeLoads = !b.bad["loads"]
	first := map[string]string{}
	for i, l := range loads {
		path := paths[i]
		if b.bad[path] || b.bad[path+".name"] || b.bad[path+".rate"] {
			b.wholeLoads = false
			continue
		}
		if before, twice := first[l.Name]; twice {
			b.reject(path+".name", fmt.Sprintf("%q is already the name of %s", l.Name, before))
			continue
		}
		first[l.Name] = path
	}
	for i := range loads {
		b.relative(&loads[i], loads, paths[i])
	}
	return loads
}

func (b *builder) load(c LoadConfig, path string) []model.Load {
	l := model.Load{
		Name: string(c.Name), Protocol: c.Protocol, Arrival: model.Arrival(c.Model),
		Think: time.Duration(c.Think), Pace: float64(c.Pace), Drop: c.WhenBlocked == "drop",
		Connections: c.Connections, Duration: time.Duration(c.Duration), Timeout: time.Duration(c.Timeout),
		Coalesce: time.Duration(c.Coalesce), Spin: time.Duration(c.Spin), Driver: c.Driver, Program: c.Program, To: c.To, Fault: c.Fault,
		Breakdown: time.Duration(c.Breakdown),
	}
	if b.bad[path] {
		return []model.Load{l}
	}
	if len(c.From) > 0 {
		l.From, l.Generators = c.From[0], append([]string(nil), c.From[1:]...)
	}
	if c.TLS != nil {
		l.TLS = &model.TLS{ServerName: c.TLS.ServerName, CA: string(c.TLS.CA), Insecure: c.TLS.Insecure}
	}
	l.Pattern.Poisson = c.Arrivals == "poisson"
	if c.Burst > 1 {
		l.Pattern.Burst = c.Burst
	}
	l.Limits = b.limits(c.Limits, path+".limits")
	l.Config = b.protocol(c, path)
	b.arrival(c, path)
	b.engine(c, path)
	for key, d := range map[string]Duration{"duration": c.Duration, "timeout": c.Timeout} {
		if d == 0 && !b.bad[path+"."+key] {
			b.reject(path+"."+key, "is zero: must be more")
		}
	}
	made := b.rate(l, c.Rate, path)
	if len(made) > 0 {
		b.breakdown(made[0], path)
	}
	return made
}

// breakdown checks that a load's requests can be traced, in a window of another
// length than its own.
func (b *builder) breakdown(l model.Load, path string) {
	at := path + ".breakdown"
	switch {
	case b.given[at] == nil || b.bad[at]:
	case l.Breakdown == 0:
		b.reject(at, "is zero: leave it out, or say how long requests are traced, such as 5s")
	case l.Driver != "":
		b.reject(at, "needs our own engine: an outside tool does not number its requests")
	case !b.numbers(l):
		b.reject(at, fmt.Sprintf("needs a protocol whose requests can be numbered, such as http1, and no %s header of the load's own", model.HeaderRequestID))
	case l.Search != nil:
		b.reject(at, "needs a rate: break down another load, at a share of what this one finds")
	case len(l.Pattern.Segments) > 0 || len(l.Pattern.Times) > 0:
		b.reject(at, "needs a rate that does not change: it is measured in a window of another length")
	}
}

// numbers says whether a load's requests can carry a number.
func (b *builder) numbers(l model.Load) bool {
	for _, p := range b.known.Protocols {
		if p.Name == l.Protocol {
			return p.Numbers != nil && p.Numbers(l.Config)
		}
	}
	return true // an unknown protocol is reported as such
}

// arrival checks that the keys fit the model: a rate is given if and only if
// the loop is open.
func (b *builder) arrival(c LoadConfig, path string) {
	if b.bad[path+".model"] {
		return
	}
	rate := path + ".rate"
	misplaced := map[string]string{
		"think": "has no meaning in an open loop, which sends by the clock; use model: closed",
		"pace":  "has no meaning in an open loop, which sends by the clock: give it a rate",
	}
	switch {
	case c.Model == string(model.ArrivalClosed):
		misplaced = map[string]string{
			"rate":         "has no meaning in a closed loop, which sends when answers come in; leave it out, bound it by pace, or use model: open",
			"burst":        "has no meaning in a closed loop, which sends when answers come in; use model: open",
			"when_blocked": "has no meaning in a closed loop, in which no request is due while all connections are busy",
		}
		if c.Think == 0 && c.Arrivals == "poisson" {
			misplaced["arrivals"] = "needs a think time in a closed loop: that is what becomes random"
		}
	case b.given[rate] == nil && !b.bad[rate] && b.given[path+".bitrate"] == nil: // which protocols of flows have instead
		b.reject(rate, "is required in an open loop: requests per second, such as 2000/s")
	}
	for key, text := range misplaced {
		if p := join(path, key); b.given[p] != nil && !b.bad[p] {
			b.reject(p, text)
		}
	}
}

// engine checks what only some generators can do, and that each has connections.
func (b *builder) engine(c LoadConfig, path string) {
	if b.given[path+".driver"] != nil {
		b.oneOf(path+".driver", "driver", c.Driver, b.known.Drivers)
		if len(c.From) > 1 {
			b.reject(path+".from", "has several pods: an outside tool sends from one")
		}
	} else if b.given[path+".program"] != nil {
		b.reject(path+".program", "is the path of an outside tool: say which, with driver")
	}
	if c.TLS != nil && c.TLS.Insecure && c.TLS.CA != "" {
		b.reject(path+".tls.insecure", "accepts any certificate: leave out ca, which then means nothing")
	}
	if n := len(c.From); n > c.Connections && !b.bad[path+".connections"] {
		b.reject(path+".connections", fmt.Sprintf("%d are too few for %d pods that send", c.Connections, n))
	}
	for i, pod := range c.From {
		if slices.Contains(c.From[:i], pod) {
			b.reject(at(path+".from", i), fmt.Sprintf("%q is listed twice", pod))
		}
	}
}

// rate sets the load's rate from the form that the study gives it.
func (b *builder) rate(l model.Load, c RateConfig, path string) []model.Load {
	rate := path + ".rate"
	if b.bad[rate] || l.Duration == 0 {
		return []model.Load{l}
	}
	window := l.Duration
	switch f := c.form.(type) {
	case RampConfig:
		l.Pattern.Segments = []model.Segment{{From: float64(f.From), To: float64(f.To), Duration: window}}
	case StepsConfig:
		for i, step := range f.Steps {
			length := window*time.Duration(i+1)/time.Duration(len(f.Steps)) - window*time.Duration(i)/time.Duration(len(f.Steps))
			l.Pattern.Segments = append(l.Pattern.Segments, model.Segment{From: float64(step), To: float64(step), Duration: length})
		}
	case ReplayConfig:
		b.replay(&l, f, path)
	case ShareConfig:
		b.share(&l, f, rate)
	case SearchConfig:
		b.search(&l, f, rate)
	case LadderConfig:
		return b.ladder(l, f, path)
	default:
		l.Rate = float64(c.constant)
	}
	if len(l.Pattern.Segments) > 0 {
		l.Rate = mean(l.Pattern.Segments)
	}
	b.enough(l, rate)
	return []model.Load{l}
}

// mean is what the rate of segments comes to.
func mean(segments []model.Segment) float64 {
	var requests, seconds float64
	for _, s := range segments {
		requests += (s.From + s.To) / 2 * s.Duration.Seconds()
		seconds += s.Duration.Seconds()
	}
	return requests / seconds
}

func (b *builder) enough(l model.Load, rate string) {
	if b.given[rate] != nil && l.Rate > 0 && l.Rate*l.Duration.Seconds() < 1 {
		b.reject(rate, fmt.Sprintf("comes to less than one request in %s", l.Duration))
	}
}

func (b *builder) replay(l *model.Load, f ReplayConfig, path string) {
	l.Pattern.Times = f.Replay
	n := len(f.Replay)
	if n == 0 { // a problem that has been reported
		return
	}
	l.Rate = float64(n) / l.Duration.Seconds()
	if last := f.Replay[n-1]; last >= l.Duration {
		b.reject(path+".rate.replay", fmt.Sprintf("goes on to %s, and the window ends after %s: give the load a longer duration", last, l.Duration))
	}
	for _, key := range []string{"arrivals", "burst"} {
		if p := join(path, key); b.given[p] != nil {
			b.reject(p, "has no meaning with a replay, which says when every request is due")
		}
	}
}

// ladder makes one load of each rate.
func (b *builder) ladder(l model.Load, f LadderConfig, path string) []model.Load {
	var loads []model.Load
	for i, rung := range f.Ladder {
		at := at(path+".rate.ladder", i)
		if b.bad[at] || b.bad[path+".name"] {
			continue
		}
		if slices.Contains(f.Ladder[:i], rung) {
			b.reject(at, "is there twice")
			continue
		}
		one := l
		one.Rate = float64(rung)
		one.Name += "-" + strconv.FormatFloat(float64(rung), 'f', -1, 64)
		if _, err := ParseName(one.Name); err != nil {
			b.reject(at, fmt.Sprintf("makes a load's name: %v", err))
		}
		b.enough(one, at)
		loads = append(loads, one)
	}
	return loads
}

func (b *builder) share(l *model.Load, f ShareConfig, path string) {
	among, of, found := strings.Cut(f.Of, " ")
	all := []string{string(model.AmongLowest), string(model.AmongHighest), string(model.AmongOwn)}
	if b.bad[path+".of"] || b.bad[path+".percent"] {
		return
	}
	if !found || !slices.Contains(all, among) {
		b.reject(path+".of", fmt.Sprintf("%q is not one of %s, and the name of a load, such as lowest peak", f.Of, strings.Join(all, ", ")))
		return
	}
	const hundred = 100
	l.Relative = &model.Relative{Share: float64(f.Percent) / hundred, Of: strings.TrimSpace(of), Among: model.Among(among)}
}

// relative checks what a load's rate is relative to. As that must be a load
// that is not relative itself, references cannot go round in circles.
func (b *builder) relative(l *model.Load, all []model.Load, path string) {
	if l.Relative == nil || !b.wholeLoads {
		return
	}
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	of := path + ".rate.of"
	i := slices.Index(names, l.Relative.Of)
	switch {
	case i < 0:
		b.reject(of, unknown("load", l.Relative.Of, names))
	case all[i].Arrival != model.ArrivalClosed && all[i].Search == nil:
		b.reject(of, fmt.Sprintf("load %s has a rate of its own, so nothing is found out by it: name one in closed loop, or with a search", l.Relative.Of))
	}
}

// protocol checks the load's further keys, which are the protocol's, and
// returns them with the content of files in place of their names.
func (b *builder) protocol(c LoadConfig, path string) json.RawMessage {
	known := make([]string, len(b.known.Protocols))
	for i, p := range b.known.Protocols {
		known[i] = p.Name
	}
	if b.bad[path+".protocol"] || !b.oneOf(path+".protocol", "protocol", c.Protocol, known) {
		b.configOf(c.rest, path) // for its problems
		return nil
	}
	p := b.known.Protocols[slices.Index(known, c.Protocol)]
	keys := fieldsOf(reflect.TypeFor[LoadConfig]()).keys()
	for _, f := range reflect.VisibleFields(reflect.TypeOf(p.Config)) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			keys = append(keys, name)
		}
	}
	whole := true
	for key, n := range b.foreign[path] {
		if !slices.Contains(keys, key) {
			b.report(n, join(path, key), unknownKey(join(path, key), key, keys))
			whole = false
		}
	}
	before := len(b.problems)
	config := b.configOf(b.inline(c.rest, reflect.TypeOf(p.Config), path), path)
	if whole && len(b.problems) == before {
		b.refused(path, p.Check(config))
	}
	return config
}

func (b *builder) configOf(rest *yaml.Node, path string) json.RawMessage {
	if len(rest.Content) == 0 {
		return nil
	}
	config, _ := b.json(rest, path)
	return config
}

// to is the service that a load goes to: if it names none, server, or where the
// topology has no such service, its first.
func (b *builder) to(c LoadConfig, t model.Topology, path string) string {
	isServer := func(s model.Service) bool { return s.Name == c.To }
	if b.given[path+".to"] == nil && len(t.Services) > 0 && !slices.ContainsFunc(t.Services, isServer) {
		return t.Services[0].Name
	}
	return c.To
}

// ends checks who sends and who answers against the topology, if that is sound.
func (b *builder) ends(c LoadConfig, t model.Topology, path string) {
	if len(t.Services) == 0 || b.bad[path] {
		return
	}
	var pods, services []string
	for _, n := range t.Nodes() {
		for _, p := range n.Pods {
			pods = append(pods, p.Name)
		}
	}
	for _, s := range t.Services {
		services = append(services, s.Name)
	}
	for i, pod := range c.From {
		from := at(path+".from", i)
		if b.given[from] == nil {
			from = path + ".from"
		}
		b.oneOf(from, "pod", pod, pods)
	}
	b.oneOf(path+".to", "service", c.To, services)
}
