package study

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

func (b *builder) loads(cs []LoadConfig, t model.Topology) []model.Load {
	loads := make([]model.Load, len(cs))
	for i, c := range cs {
		loads[i] = b.load(c, at("loads", i))
		b.ends(c, t, at("loads", i))
	}
	b.wholeLoads = b.unique("loads", names(cs, func(c LoadConfig) Name { return c.Name }))
	return loads
}

func (b *builder) load(c LoadConfig, path string) model.Load {
	l := model.Load{
		Name: string(c.Name), Protocol: c.Protocol, Arrival: model.Arrival(c.Model), Rate: float64(c.Rate),
		Connections: c.Connections, Duration: time.Duration(c.Duration), Timeout: time.Duration(c.Timeout),
		From: c.From, To: c.To,
		Config: c.config,
	}
	if b.bad[path] {
		return l
	}
	b.protocol(c, path)
	b.arrival(c, path)
	for key, d := range map[string]Duration{"duration": c.Duration, "timeout": c.Timeout} {
		if d == 0 && !b.bad[path+"."+key] {
			b.reject(path+"."+key, "is zero: must be more")
		}
	}
	return l
}

// arrival checks that a rate is given if and only if the loop is open.
func (b *builder) arrival(c LoadConfig, path string) {
	rate := path + ".rate"
	given := b.given[rate] != nil
	switch {
	case b.bad[path+".model"] || b.bad[rate]:
	case c.Model == string(model.ArrivalOpen) && !given:
		b.reject(rate, "is required in an open loop: requests per second, such as 2000/s")
	case c.Model == string(model.ArrivalClosed) && given:
		b.reject(rate, "has no meaning in a closed loop, which sends when answers come in; leave it out or use model: open")
	case given && c.Duration > 0 && float64(c.Rate)*time.Duration(c.Duration).Seconds() < 1:
		b.reject(rate, fmt.Sprintf("comes to less than one request in %s", time.Duration(c.Duration)))
	}
}

// protocol checks the load's further keys, which are the protocol's.
func (b *builder) protocol(c LoadConfig, path string) {
	known := make([]string, len(b.known.Protocols))
	for i, p := range b.known.Protocols {
		known[i] = p.Name
	}
	if b.bad[path+".protocol"] || !b.oneOf(path+".protocol", "protocol", c.Protocol, known) {
		return
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
	if whole {
		b.refused(path, p.Check(c.config))
	}
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
	b.oneOf(path+".from", "pod", c.From, pods)
	b.oneOf(path+".to", "service", c.To, services)
}
