package haproxy

import (
	"encoding/json"
	"errors"
	"os"
	"slices"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/proxy"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// Sidecars says which pods have one.
type Sidecars string

// The choices.
const (
	AtBoth    Sidecars = "both"   // as a mesh has them: two proxies in the path
	AtClients Sidecars = "client" // every pod's, for what it sends: one proxy in the path
	AtServers Sidecars = "server" // services' pods', for what comes in: one proxy in the path
)

// MTLS says whether sidecars prove to each other who they are.
type MTLS string

// The modes.
const (
	Strict   MTLS = "strict" // plaintext is refused
	Disabled MTLS = "disabled"
)

// Balancing is HAProxy's algorithm.
type Balancing string

// The algorithms.
const (
	RoundRobin       Balancing = "round-robin"
	LeastConnections Balancing = "least-connections"
	Random           Balancing = "random" // the better of two that are drawn
)

// Config is the layer's configuration in a study.
type Config struct {
	// Sidecars says which pods have one.
	Sidecars Sidecars `json:"sidecars,omitempty" jsonschema:"enum=both,enum=client,enum=server,default=both"`
	// MTLS between sidecars; it needs both.
	MTLS MTLS `json:"mtls,omitempty" jsonschema:"enum=strict,enum=disabled,default=disabled"`
	// LoadBalancing is of clients' sidecars; HAProxy's default is round-robin.
	LoadBalancing Balancing `json:"load_balancing,omitempty" jsonschema:"enum=round-robin,enum=least-connections,enum=random,default=round-robin"`
	// Retries is how often a connection to an endpoint is tried again, the last
	// time to another endpoint.
	Retries int `json:"retries,omitempty" jsonschema:"minimum=0,maximum=100,default=3"`
	// Health is how clients' sidecars check endpoints.
	Health Health `json:"health_check,omitzero"`
	// TCP are services that do not speak HTTP.
	TCP []string `json:"tcp,omitempty"`

	proxy.Options
}

// Health is how endpoints are checked.
type Health struct {
	// Path is asked for by HTTP; empty: it is enough that a connection is accepted.
	Path     string         `json:"path,omitempty"`
	Interval proxy.Duration `json:"interval,omitempty" jsonschema:"default=2s"`
	// Fall and Rise are how many failures in a row take an endpoint out, and how
	// many successes bring it back.
	Fall int `json:"fall,omitempty" jsonschema:"minimum=1,maximum=100,default=3"`
	Rise int `json:"rise,omitempty" jsonschema:"minimum=1,maximum=100,default=2"`
}

// UnmarshalJSON fills in HAProxy's defaults.
func (h *Health) UnmarshalJSON(raw []byte) error {
	type plain Health // without this method
	p := plain(usualHealth())
	if err := model.ReadConfig(raw, &p); err != nil {
		return err
	}
	*h = Health(p)
	return nil
}

func usualHealth() Health { return Health{Interval: "2s", Fall: 3, Rise: 2} }

func parse(raw json.RawMessage) (Config, error) {
	c := Config{Sidecars: AtBoth, MTLS: Disabled, LoadBalancing: RoundRobin, Retries: 3, Health: usualHealth(), Options: proxy.DefaultOptions()}
	if err := model.ReadConfig(raw, &c); err != nil {
		return c, err
	}
	return c, c.check()
}

func (c Config) check() error {
	errs := []error{c.Problems(), c.Health.check()}
	if !slices.Contains([]Sidecars{AtBoth, AtClients, AtServers}, c.Sidecars) {
		errs = append(errs, proxy.Bad("sidecars", "is %q; it can be both, client or server", c.Sidecars))
	}
	switch {
	case c.MTLS != Strict && c.MTLS != Disabled:
		errs = append(errs, proxy.Bad("mtls", "is %q; it can be strict or disabled", c.MTLS))
	case c.MTLS == Strict && c.Sidecars != AtBoth:
		errs = append(errs, proxy.Bad("mtls", "is between two sidecars: it needs sidecars: both"))
	}
	if c.algorithm() == "" {
		errs = append(errs, proxy.Bad("load_balancing", "is %q; it can be round-robin, least-connections or random", c.LoadBalancing))
	}
	if c.Retries < 0 || c.Retries > most {
		errs = append(errs, proxy.Bad("retries", "is %d; it can be 0 to %d", c.Retries, most))
	}
	return errors.Join(errs...)
}

func (h Health) check() error {
	const key = "health_check."
	errs := []error{proxy.CheckDurations([]string{key + "interval"}, []proxy.Duration{h.Interval})}
	if h.Path != "" && !path(h.Path) {
		errs = append(errs, proxy.Bad(key+"path", "is %q; it must begin with a slash and be of printable ASCII without spaces, quotes, # and \\", h.Path))
	}
	for _, n := range []struct {
		key string
		n   int
	}{{"fall", h.Fall}, {"rise", h.Rise}} {
		if n.n < 1 || n.n > most {
			errs = append(errs, proxy.Bad(key+n.key, "is %d; it can be 1 to %d", n.n, most))
		}
	}
	return errors.Join(errs...)
}

// path says whether a path can be written into HAProxy's configuration as it is.
func path(p string) bool {
	plain := func(c byte) bool {
		return c > ' ' && c < 0x7f && c != '"' && c != '\'' && c != '#' && c != '\\' && c != '$'
	}
	for i := range len(p) {
		if !plain(p[i]) {
			return false
		}
	}
	return p[0] == '/'
}

// suits finds what the topology does not have.
func (c Config) suits(t model.Topology) error {
	var errs []error
	for _, name := range c.TCP {
		if !slices.ContainsFunc(t.Services, func(s model.Service) bool { return s.Name == name }) {
			errs = append(errs, proxy.Bad("tcp", "names the service %q, which the topology does not have", name))
		}
	}
	if len(t.Services) > most {
		errs = append(errs, &model.UnsupportedError{What: "the layer " + Name, Missing: "the topology has more than 100 services", Hint: "use envoy"})
	}
	return errors.Join(errs...)
}

func (c Config) outbound() bool { return c.Sidecars != AtServers }
func (c Config) inbound() bool  { return c.Sidecars != AtClients }

// algorithm is HAProxy's name for it; empty: there is none.
func (c Config) algorithm() string {
	return map[Balancing]string{RoundRobin: "roundrobin", LeastConnections: "leastconn", Random: "random(2)"}[c.LoadBalancing]
}

// Find looks for HAProxy: at the explicit path, in PATH, and where Debian puts
// it, which is not in an ordinary user's PATH.
func Find(explicit string) (string, error) {
	const debian = "/usr/sbin/haproxy"
	looked := explicit
	if explicit == "" {
		if found, err := sys.Look(Name); err == nil {
			return found, nil
		}
		looked = debian
	}
	if _, err := os.Stat(looked); err != nil {
		return "", &model.UnsupportedError{
			What: "the layer " + Name, Missing: "no haproxy program in PATH nor at " + looked, Hint: "apt-get install haproxy, or set the layer's path in the study",
		}
	}
	return looked, nil
}
