package envoy

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/proxy"
)

// MTLS says what the sidecars demand of each other.
type MTLS string

// The modes, with Istio's meaning.
const (
	Strict     MTLS = "strict"     // plaintext is refused
	Permissive MTLS = "permissive" // mutual TLS between sidecars, plaintext accepted
	Disabled   MTLS = "disabled"   // plaintext
)

// Mode says where the mesh's proxies are.
type Mode string

// The modes.
const (
	Sidecar Mode = "sidecar" // one in every pod, at L7 where services speak HTTP
	Ambient Mode = "ambient" // one on every node, at L4; waypoints are L7's
)

// Start says whether a pod's app or its sidecar is there first.
type Start string

// The orders.
const (
	// NativeStart begins with the sidecar, as a native sidecar of Kubernetes does.
	NativeStart Start = "native"
	// AppFirst redirects the pod's traffic while its sidecar is still starting.
	AppFirst Start = "app-first"
)

// Switch is on or off.
type Switch string

// Its positions.
const (
	On  Switch = "on"
	Off Switch = "off"
)

// LoadBalancing says which of a service's endpoints gets a request.
type LoadBalancing string

// The ways of load balancing.
const (
	// LeastRequest is over the endpoints of all clusters, wherever they are.
	LeastRequest LoadBalancing = "least-request"
	// RoundRobin is over all of them in turn.
	RoundRobin LoadBalancing = "round-robin"
	// Locality is within the own region while it has healthy endpoints, then in
	// the next one.
	Locality LoadBalancing = "locality"
)

// Protocol is what Kuma is told of services.
type Protocol string

// The protocols.
const (
	TCP  Protocol = "tcp"  // proxied at L4
	HTTP Protocol = "http" // proxied at L7
)

// Config is the layer's configuration in a study.
type Config struct {
	// Profile is the mesh that is imitated.
	Profile proxy.Profile `json:"profile,omitempty" jsonschema:"enum=istio,enum=kuma,default=istio"`
	// Mode is sidecar or, with istio, ambient.
	Mode Mode `json:"mode,omitempty" jsonschema:"enum=sidecar,enum=ambient,default=sidecar"`
	// Waypoint puts a proxy for L7 before the services that speak HTTP, in
	// ambient mode: one in each cluster.
	Waypoint bool `json:"waypoint,omitempty"`
	// MTLS is strict, permissive or disabled.
	MTLS MTLS `json:"mtls,omitempty" jsonschema:"enum=strict,enum=permissive,enum=disabled,default=strict"`
	// LoadBalancing is least-request (Istio's default), round-robin (Kuma's) or
	// locality.
	LoadBalancing LoadBalancing `json:"load_balancing,omitempty" jsonschema:"enum=least-request,enum=round-robin,enum=locality"`
	// LocalityFor are the services that have locality; none: all. The others use
	// the endpoints of all regions alike.
	LocalityFor []string `json:"locality_for,omitempty"`
	// Outlier takes endpoints out that fail, of all services. Without it, with
	// istio, those with locality have Istio's default.
	Outlier *Outlier `json:"outlier_detection,omitempty"`
	// ConnectTimeout is when a connection to an endpoint that does not answer
	// counts as failed: Istio's connectionPool.tcp.connectTimeout. Until then a
	// request waits, and nothing can be taken out.
	ConnectTimeout proxy.Duration `json:"connect_timeout,omitempty" jsonschema_description:"When a connection to an endpoint that does not answer counts as failed. If absent: 10s with istio, 5s with kuma."`
	// Failover is, by region, the region that comes next; without, and after it,
	// the nearest comes first.
	Failover map[string]string `json:"failover,omitempty"`
	// ClusterLocal are services, e.g. databases, of which clients use the
	// endpoints of their own cluster only.
	ClusterLocal []string `json:"cluster_local,omitempty"`
	// Telemetry counts and times requests by source and destination, as istio
	// does; with istio only, where there is a proxy for L7.
	Telemetry Switch `json:"telemetry,omitempty" jsonschema:"enum=on,enum=off,default=on"`
	// Start is native or, of sidecars, app-first: what is asked before they are
	// there fails, and is counted.
	Start Start `json:"start,omitempty" jsonschema:"enum=native,enum=app-first,default=native"`
	// Ingress are services that are let in from outside the mesh, by an Envoy at
	// its edge: clients then have no sidecars.
	Ingress []string `json:"ingress,omitempty"`
	// TCP are services that do not speak HTTP.
	TCP []string `json:"tcp,omitempty"`
	// Protocol is what kuma is told of all other services; it has to be said.
	Protocol Protocol `json:"protocol,omitempty" jsonschema:"enum=tcp,enum=http"`

	proxy.Options
}

// Outlier is Istio's outlierDetection.
type Outlier struct {
	// Errors in a row that take an endpoint out: answers of 5xx and, unless they
	// are split, failed connections.
	Errors int `json:"consecutive_5xx_errors,omitempty" jsonschema:"minimum=1,default=5"`
	// Interval is how often it is looked whether an endpoint may come back.
	Interval proxy.Duration `json:"interval,omitempty" jsonschema:"default=10s"`
	// BaseEjectionTime is how long an endpoint is out, times how often it was.
	BaseEjectionTime proxy.Duration `json:"base_ejection_time,omitempty" jsonschema:"default=30s"`
	// MaxEjectionPercent of a service's endpoints may be out; one always may.
	MaxEjectionPercent int `json:"max_ejection_percent,omitempty" jsonschema:"minimum=1,maximum=100,default=10"`
	// Split counts failed connections apart from answers of 5xx.
	Split bool `json:"split_external_local_origin_errors,omitempty"`
	// LocalErrors are failed connections in a row that take an endpoint out,
	// where they are split.
	LocalErrors int `json:"consecutive_local_origin_failures,omitempty" jsonschema:"minimum=1,default=5"`
}

// UnmarshalJSON fills in Istio's defaults.
func (o *Outlier) UnmarshalJSON(raw []byte) error {
	type plain Outlier // without this method
	p := plain(usualOutlier())
	if err := model.ReadConfig(raw, &p); err != nil {
		return err
	}
	*o = Outlier(p)
	return nil
}

func usualOutlier() Outlier {
	return Outlier{Errors: 5, Interval: "10s", BaseEjectionTime: "30s", MaxEjectionPercent: 10, LocalErrors: 5}
}

func parse(raw json.RawMessage) (Config, error) {
	c := Config{Profile: proxy.Istio, Mode: Sidecar, MTLS: Strict, Start: NativeStart, Options: proxy.DefaultOptions()}
	if err := model.ReadConfig(raw, &c); err != nil {
		return c, err
	}
	if c.LoadBalancing == "" {
		c.LoadBalancing = LeastRequest
		if c.Profile == proxy.Kuma {
			c.LoadBalancing = RoundRobin
		}
	}
	err := c.check()
	if c.Telemetry == "" {
		c.Telemetry = On
		if !c.atL7() {
			c.Telemetry = Off
		}
	}
	return c, err
}

// connectTimeout is what is asked for, or the profile's.
func (c Config) connectTimeout() proxy.Duration {
	switch {
	case c.ConnectTimeout != "":
		return c.ConnectTimeout
	case c.Profile == proxy.Kuma:
		return kumaConnectTimeout
	}
	return istioConnectTimeout
}

// atL7 says whether there are proxies that could tell Istio's request metrics.
func (c Config) atL7() bool {
	return c.Profile == proxy.Istio && (c.Mode == Sidecar || c.Waypoint)
}

// near says whether a service has locality.
func (c Config) near(service string) bool {
	return c.LoadBalancing == Locality && (len(c.LocalityFor) == 0 || slices.Contains(c.LocalityFor, service))
}

// outlier is a service's outlier detection; nil: it has none.
func (c Config) outlier(service string) *Outlier {
	if c.Outlier == nil && c.near(service) && c.ejects() {
		usual := usualOutlier()
		return &usual
	}
	return c.Outlier
}

// ejects says whether any service has outlier detection.
func (c Config) ejects() bool {
	return c.Outlier != nil || c.LoadBalancing == Locality && c.Profile == proxy.Istio && c.Mode == Sidecar
}

func (c Config) check() error {
	errs := []error{c.Profile.Check(), c.Problems(), c.Outlier.check(), c.checkProtocol(), c.checkMode(), c.checkIngress()}
	if c.MTLS != Strict && c.MTLS != Permissive && c.MTLS != Disabled {
		errs = append(errs, proxy.Bad("mtls", "is %q; it can be strict, permissive or disabled", c.MTLS))
	}
	if !slices.Contains([]LoadBalancing{LeastRequest, RoundRobin, Locality}, c.LoadBalancing) {
		errs = append(errs, proxy.Bad("load_balancing", "is %q; it can be least-request, round-robin or locality", c.LoadBalancing))
	}
	if len(c.Failover) > 0 && c.LoadBalancing != Locality {
		errs = append(errs, proxy.Bad("failover", "needs load_balancing: locality"))
	}
	if len(c.LocalityFor) > 0 && c.LoadBalancing != Locality {
		errs = append(errs, proxy.Bad("locality_for", "needs load_balancing: locality"))
	}
	if c.ConnectTimeout != "" {
		errs = append(errs, proxy.CheckDurations([]string{"connect_timeout"}, []proxy.Duration{c.ConnectTimeout}))
	}
	if c.Start != NativeStart && c.Start != AppFirst {
		errs = append(errs, proxy.Bad("start", "is %q; it can be native or app-first", c.Start))
	}
	switch {
	case !slices.Contains([]Switch{"", On, Off}, c.Telemetry):
		errs = append(errs, proxy.Bad("telemetry", "is %q; it can be on or off", c.Telemetry))
	case c.Telemetry != "" && !c.atL7():
		errs = append(errs, proxy.Bad("telemetry", "needs a proxy of the profile istio that sees requests: mode sidecar, or a waypoint"))
	}
	return errors.Join(errs...)
}

// checkMode finds what ambient mode does not have.
func (c Config) checkMode() error {
	var errs []error
	if c.Mode != Sidecar && c.Mode != Ambient {
		errs = append(errs, proxy.Bad("mode", "is %q; it can be sidecar or ambient", c.Mode))
	}
	if c.Mode != Ambient {
		if c.Waypoint {
			errs = append(errs, proxy.Bad("waypoint", "needs mode: ambient; sidecars are at L7 themselves"))
		}
		return errors.Join(errs...)
	}
	if c.Profile != proxy.Istio {
		errs = append(errs, proxy.Bad("mode", "is ambient, which the profile %s does not have", c.Profile))
	}
	if c.MTLS == Disabled {
		errs = append(errs, proxy.Bad("mtls", "is disabled; HBONE always is mutual TLS: strict or permissive"))
	}
	if c.Outlier != nil {
		errs = append(errs, proxy.Bad("outlier_detection", "belongs to mode: sidecar; node proxies have none"))
	}
	if c.ConnectTimeout != "" {
		errs = append(errs, proxy.Bad("connect_timeout", "belongs to mode: sidecar"))
	}
	if c.Start == AppFirst {
		errs = append(errs, proxy.Bad("start", "is app-first, but in ambient mode no pod has a proxy to wait for"))
	}
	return errors.Join(errs...)
}

// checkProtocol refuses to guess: Kuma's silent default is tcp, and a mesh at L4
// must not be compared with one at L7 unknowingly.
func (c Config) checkProtocol() error {
	switch {
	case c.Profile != proxy.Kuma && c.Protocol != "":
		return proxy.Bad("protocol", "belongs to the profile kuma; with istio, tcp names the services that are not HTTP")
	case c.Profile == proxy.Kuma && c.Protocol == "":
		return proxy.Bad("protocol", "is missing: with kuma say tcp (its default: L4) or http (L7)")
	case c.Protocol != "" && c.Protocol != TCP && c.Protocol != HTTP:
		return proxy.Bad("protocol", "is %q; it can be tcp or http", c.Protocol)
	}
	return nil
}

func (o *Outlier) check() error {
	if o == nil {
		return nil
	}
	const key, most = "outlier_detection.", 100
	errs := []error{proxy.CheckDurations([]string{key + "interval", key + "base_ejection_time"}, []proxy.Duration{o.Interval, o.BaseEjectionTime})}
	if o.Errors < 1 {
		errs = append(errs, proxy.Bad(key+"consecutive_5xx_errors", "is %d; it must be at least 1", o.Errors))
	}
	if o.LocalErrors < 1 {
		errs = append(errs, proxy.Bad(key+"consecutive_local_origin_failures", "is %d; it must be at least 1", o.LocalErrors))
	}
	if o.MaxEjectionPercent < 1 || o.MaxEjectionPercent > most {
		errs = append(errs, proxy.Bad(key+"max_ejection_percent", "is %d; it can be 1 to %d", o.MaxEjectionPercent, most))
	}
	return errors.Join(errs...)
}

// suits finds names in the configuration that the topology does not have.
func (c Config) suits(t model.Topology) error {
	services, regions := map[string]bool{}, map[string]bool{}
	for _, s := range t.Services {
		services[s.Name] = true
	}
	for _, r := range t.Regions {
		regions[r.Name] = true
	}
	var errs []error
	for _, named := range []struct {
		key   string
		names []string
	}{{"cluster_local", c.ClusterLocal}, {"locality_for", c.LocalityFor}, {"ingress", c.Ingress}, {"tcp", c.TCP}} {
		for _, name := range named.names {
			if !services[name] {
				errs = append(errs, proxy.Bad(named.key, "names the service %q, which the topology does not have", name))
			}
		}
	}
	for from, to := range c.Failover {
		for _, name := range []string{from, to} {
			if !regions[name] {
				errs = append(errs, proxy.Bad("failover", "names the region %q, which the topology does not have", name))
			}
		}
	}
	return errors.Join(errs...)
}
