package study

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// What may stand in an HTTP request's head. Anything else could end the line
// and begin another request.
var (
	regexMethod = regexp.MustCompile(`^[A-Z]+$`)
	regexPath   = regexp.MustCompile(`^/[!-~]*$`)
	regexToken  = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	regexField  = regexp.MustCompile(`^[ -~]*$`)
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
		HTTP: model.HTTPRequest{Method: c.Method, Path: c.Path, Headers: c.Headers, Body: []byte(c.Body)},
	}
	if c.Body == "" {
		l.HTTP.Body = nil // so that a plan read back from JSON is the same value
	}
	if b.bad[path] {
		return l
	}
	b.oneOf(path+".protocol", "protocol", c.Protocol, b.known.Protocols)
	b.arrival(c, path)
	for key, d := range map[string]Duration{"duration": c.Duration, "timeout": c.Timeout} {
		if d == 0 && !b.bad[path+"."+key] {
			b.reject(path+"."+key, "is zero: must be more")
		}
	}
	b.http(c, path)
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

func (b *builder) http(c LoadConfig, path string) {
	check := func(key string, ok bool, text string) {
		if !ok && !b.bad[path+"."+key] {
			b.reject(path+"."+key, text)
		}
	}
	check("method", regexMethod.MatchString(c.Method), fmt.Sprintf("%q is not an HTTP method: capital letters only", c.Method))
	check("path", regexPath.MatchString(c.Path), fmt.Sprintf("%q is not an HTTP path: it begins with / and has no spaces; escape others as %%20", c.Path))
	generator := []string{"host", "connection", "content-length", "transfer-encoding"}
	first := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		value, key, lower := c.Headers[name], "headers."+name, strings.ToLower(name)
		check(key, regexToken.MatchString(name), fmt.Sprintf("%q is not a header's name", name))
		check(key, regexField.MatchString(value), "a header's value is printable ASCII on one line")
		check(key, !slices.Contains(generator, lower), "is set by the load generator")
		check(key, first[lower] == "", fmt.Sprintf("is the same header as %q", first[lower]))
		first[lower] = name
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
