// Package mesh has the meshes of real clusters as layers of the target kube:
// istio, linkerd, kuma and cilium. What differs between them is data (see
// table.go): charts, what pods must say to be in, what shows that they are, where
// proxies tell what they did. A mesh is used as it is found, unless the study
// asks for it to be installed.
package mesh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/across"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Config is the layers' configuration in a study.
type Config struct {
	Installed string                    `json:"installed,omitempty" jsonschema:"enum=as-found,enum=helm,default=as-found" jsonschema_description:"as-found: the mesh must be there; nothing is installed. helm: its charts are installed before the first trial and removed after the last; that needs the rights of a cluster's administrator."`
	Mode      string                    `json:"mode,omitempty" jsonschema:"enum=sidecar,enum=ambient,enum=waypoint,enum=node" jsonschema_description:"istio: sidecar, ambient (L4 by ztunnel) or waypoint (ambient with a proxy at L7). linkerd and kuma: sidecar. cilium: node. If absent: the first of these."`
	MTLS      string                    `json:"mtls,omitempty" jsonschema:"enum=as-found,enum=strict,default=as-found" jsonschema_description:"strict: plain text is refused in the run's namespace (istio, linkerd). as-found: what the mesh has been told."`
	Revision  string                    `json:"revision,omitempty" jsonschema_description:"Of several control planes of istio: the one whose revision pods ask for."`
	Chart     string                    `json:"chart,omitempty" jsonschema_description:"Where the charts are, instead of upstream: a repository (https://...), a registry (oci://...), or a folder with the charts by name."`
	Version   string                    `json:"version,omitempty" jsonschema_description:"Of the charts, instead of the pinned one."`
	Values    map[string]map[string]any `json:"values,omitempty" jsonschema_description:"Values by release, over our own."`
}

// keyService is the fact of what would balance if the mesh did not.
const keyService = "Service under the mesh"

// How a mesh comes to be there.
const (
	asFound = "as-found"
	byHelm  = "helm"
	strict  = "strict"
)

// kind is one mesh: what is the same in all of its configurations, and what
// follows from one.
type kind struct {
	name, summary string
	modes         []string // the first is the default
	strict        bool     // may be asked for
	revisions     bool
	repository    string // of its charts
	version       string // of its charts, pinned
	// mesh fills in what the configuration makes of it. Its charts have neither
	// source nor version yet.
	mesh func(c Config) model.Mesh
	// policy are objects of the run's namespace; nil: none.
	policy func(c Config) []model.Manifest
	// across is how its Services span clusters.
	across func(c Config) across.Way
}

// Layer is a mesh in one configuration.
type Layer struct {
	kind   kind
	config Config
	mesh   model.Mesh
	// joined is what showed that the pods are in it.
	joined model.Ledger
	// own says that the target made Services for it; merged, that they span clusters.
	own, merged bool
}

var (
	_ model.Layer    = (*Layer)(nil)
	_ model.Fronter  = (*Layer)(nil)
	_ model.Observer = (*Layer)(nil)
	_ model.Portable = (*Layer)(nil)
	_ model.Meshed   = (*Layer)(nil)
)

// Plugins are the catalog entries.
func Plugins() []model.Plugin[model.Layer] {
	var all []model.Plugin[model.Layer]
	for _, k := range kinds() {
		all = append(all, model.Plugin[model.Layer]{
			Name: k.name, Summary: k.summary, Config: Config{},
			New: func(raw json.RawMessage) (model.Layer, error) {
				c := Config{Installed: asFound, Mode: k.modes[0], MTLS: asFound}
				if err := model.ReadConfig(raw, &c); err != nil {
					return nil, err
				}
				return newLayer(k, c)
			},
		})
	}
	return all
}

func newLayer(k kind, c Config) (*Layer, error) {
	if err := k.check(c); err != nil {
		return nil, err
	}
	m := k.mesh(c)
	m.Name, m.Mode = k.name, c.Mode
	if c.Installed != byHelm {
		m.Charts = nil
		return &Layer{kind: k, config: c, mesh: m}, nil
	}
	for i := range m.Charts {
		m.Charts[i].Source, m.Charts[i].Version = k.repository, k.version
		if c.Chart != "" {
			m.Charts[i].Source, m.Charts[i].Version = c.Chart, ""
		}
		if c.Version != "" {
			m.Charts[i].Version = c.Version
		}
		m.Charts[i].Values = over(m.Charts[i].Values, c.Values[m.Charts[i].Release])
	}
	for release := range c.Values {
		if !slices.ContainsFunc(m.Charts, func(ch model.Chart) bool { return ch.Release == release }) {
			return nil, &model.ConfigError{Key: "values." + release, Text: "is no release; there are " + releases(m.Charts)}
		}
	}
	return &Layer{kind: k, config: c, mesh: m}, nil
}

func releases(charts []model.Chart) string {
	var names []string
	for _, c := range charts {
		names = append(names, c.Release)
	}
	return strings.Join(names, ", ")
}

// over lays values over others, key by key.
func over(base, more map[string]any) map[string]any {
	all := maps.Clone(base)
	if all == nil {
		all = map[string]any{}
	}
	for k, v := range more {
		inner, ok := v.(map[string]any)
		below, is := all[k].(map[string]any)
		if ok && is {
			all[k] = over(below, inner)
			continue
		}
		all[k] = v
	}
	return all
}

// check returns everything that is wrong with a configuration.
func (k kind) check(c Config) error {
	var errs []error
	bad := func(key, value string, can ...string) {
		if !slices.Contains(can, value) {
			errs = append(errs, &model.ConfigError{Key: key, Text: fmt.Sprintf("is %q; of %s it can be %s", value, k.name, strings.Join(can, " or "))})
		}
	}
	bad("installed", c.Installed, asFound, byHelm)
	bad("mode", c.Mode, k.modes...)
	mtls := []string{asFound}
	if k.strict {
		mtls = append(mtls, strict)
	}
	bad("mtls", c.MTLS, mtls...)
	if c.Revision != "" && !k.revisions {
		errs = append(errs, &model.ConfigError{Key: "revision", Text: "is for istio only"})
	}
	if c.Installed == asFound && (c.Chart != "" || c.Version != "" || len(c.Values) > 0) {
		errs = append(errs, &model.ConfigError{Key: "installed", Text: "is as-found, but chart, version or values are given; they are for installed: helm"})
	}
	return errors.Join(errs...)
}

// Mesh is what the target must know before it makes pods.
func (l *Layer) Mesh() model.Mesh { return l.mesh }

// CheckTarget is nil for kube only.
func (l *Layer) CheckTarget(target string) error { return across.CheckTarget(l.kind.name, target) }

// Check is for the lab, which does not have these layers.
func (l *Layer) Check(context.Context) error { return across.OnlyOnKube(l.kind.name) }

// Front is the service's virtual address, which the mesh takes over.
func (*Layer) Front(svc model.Service) []netip.AddrPort {
	return []netip.AddrPort{netip.AddrPortFrom(svc.VIP, svc.Port)}
}

// Deploy checks that the pods are in the mesh and makes the services that it
// balances, unless a layer below has.
func (l *Layer) Deploy(ctx context.Context, s model.Site) (remove func(context.Context) error, err error) {
	site, ok := s.(model.MeshSite)
	if !ok {
		return nil, across.OnlyOnKube(l.kind.name)
	}
	if l.joined, err = site.Joined(ctx, l.mesh); err != nil {
		return nil, err
	}
	var undo across.Undo
	for _, step := range []func(context.Context, model.Site) ([]func(context.Context) error, error){l.applyPolicy, l.expose} {
		more, err := step(ctx, s)
		undo = append(undo, more...)
		if err != nil {
			return nil, errors.Join(err, undo.Run(context.WithoutCancel(ctx)))
		}
	}
	return undo.Run, nil
}

// applyPolicy makes the mesh's objects in the run's namespace, in all clusters.
func (l *Layer) applyPolicy(ctx context.Context, s model.Site) (undo []func(context.Context) error, err error) {
	if l.kind.policy == nil || len(s.Topology().Services) == 0 {
		return nil, nil
	}
	site, scopes, err := scopes(s, l.kind.name)
	if err != nil {
		return nil, err
	}
	for _, at := range scopes {
		for _, o := range l.kind.policy(l.config) {
			u, failure := site.Apply(ctx, at.Cluster, o)
			if failure != nil {
				return undo, failure
			}
			undo = append(undo, u)
			if o["kind"] != gateway {
				continue
			}
			// Before its waypoint is there, a Service's traffic may go past it.
			if _, err = site.Read(ctx, at.Cluster, o, programmed); err != nil {
				return undo, err
			}
		}
	}
	return undo, nil
}

// programmed says whether a Gateway's proxy is ready, by its own conditions.
func programmed(m model.Manifest) bool {
	status, _ := m["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == "Programmed" && condition["status"] == "True"
	})
}

func scopes(s model.Site, name string) (model.ManifestSite, []model.Scope, error) {
	site, ok := s.(model.ManifestSite)
	if !ok {
		return nil, nil, across.OnlyOnKube(name)
	}
	all, err := site.Scopes(s.Topology().Services[0].Name)
	return site, all, err
}

// expose gives every service an address: within one cluster the target does,
// over several the mesh has a way of its own.
func (l *Layer) expose(ctx context.Context, s model.Site) (undo []func(context.Context) error, err error) {
	var without, spread bool
	for _, blueprint := range s.Topology().Services {
		svc, failure := s.Service(blueprint.Name)
		if failure != nil {
			return nil, failure
		}
		without = without || !svc.VIP.IsValid()
	}
	if !without {
		return nil, nil // a layer below did
	}
	if m, ok := s.(model.ManifestSite); ok && len(s.Topology().Places()) > 1 {
		for _, svc := range s.Topology().Services {
			all, failure := m.Scopes(svc.Name)
			spread = spread || failure == nil && across.Needed(all)
		}
	}
	deploy := func(ctx context.Context, s model.Site) (func(context.Context) error, error) {
		own, ok := s.(model.ServiceSite)
		if !ok {
			return nil, across.OnlyOnKube(l.kind.name)
		}
		return own.Expose(ctx)
	}
	l.own, l.merged = !spread, spread
	if spread {
		deploy = l.kind.across(l.config).Deploy
	}
	u, err := deploy(ctx, s)
	if err != nil {
		return nil, err
	}
	return append(undo, u), nil
}

// Claims are what the mesh's proxies must show.
func (l *Layer) Claims() []model.Claim {
	var claims []model.Claim
	if l.mesh.Counters != nil {
		claims = append(claims, model.Claim{Layer: l.kind.name, Key: model.FactProxies, Value: "2"})
	}
	if l.config.MTLS == strict && l.mesh.Counters != nil {
		claims = append(claims, model.Claim{Layer: l.kind.name, Key: model.FactMTLS, Value: "mutual TLS"})
	}
	return claims
}

// Observe tells what showed that the pods are in the mesh, and what its proxies
// counted.
func (l *Layer) Observe(ctx context.Context, s model.Site) (model.Ledger, error) {
	site, ok := s.(model.MeshSite)
	if !ok {
		return nil, across.OnlyOnKube(l.kind.name)
	}
	counted, err := site.Counted(ctx, l.mesh)
	if err != nil {
		return nil, err
	}
	ledger := append(slices.Clone(l.joined), counted...)
	var more model.Ledger
	if own, ok := s.(model.ServiceSite); ok && l.own {
		more, err = own.Exposed(ctx, l.kind.name)
		for i := range more { // the mesh balances over the Service's endpoints itself
			if more[i].Key == model.FactBalancing {
				more[i].Key = keyService
			}
		}
	}
	if l.merged {
		more, err = l.kind.across(l.config).Observe(ctx, s)
	}
	return append(ledger, more...), err
}

// Artefacts are the mesh's live configuration, for the run folder.
func (l *Layer) Artefacts(ctx context.Context, s model.Site) (map[string][]byte, error) {
	site, ok := s.(model.MeshSite)
	if !ok {
		return nil, across.OnlyOnKube(l.kind.name)
	}
	return site.Dump(ctx, l.mesh)
}
