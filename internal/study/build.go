package study

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/model"
)

// ControlName is the variant that the A/A control runs as. No study may use it.
const ControlName = "control"

// builder turns a decoded file into the model, and checks what one key alone
// cannot show. It never changes the config.
type builder struct {
	*decoder
	known Known
	// Whether every name of the list could be read: if not, a reference to an
	// unknown one may be right.
	wholeVariants, wholeLoads, wholeFaults bool
	loadPaths                              []string // where each load stands in the file
}

func (b *builder) study(c Config) model.Study {
	s := model.Study{
		Name:     string(c.Metadata.Name),
		Question: strings.TrimSpace(c.Question),
		Baseline: string(c.Baseline),
	}
	s.App = b.app(c.App)
	s.Topology = b.topology(c.Topology, c.App.Replicas)
	b.fits(s.App, s.Topology)
	b.target(c.Target, &s)
	s.Variants = b.variants(c.Variants)
	s.Limits = b.limits(c.Limits, "limits")
	s.Faults = b.faults(c.Faults)
	s.Loads = b.loads(c.Loads, s.Topology)
	b.spoken(s)
	b.underFaults(s)
	s.Design = b.design(c.Design)
	s.Gates = b.gates(c.Gates, s)
	s.Published = b.published(c.Published, s)
	if c.Fleet != nil {
		s.Fleet = &model.Fleet{Pods: c.Fleet.Pods, Rate: float64(c.Fleet.RPS)}
	}
	return b.control(s)
}

// oneOf reports a name that is not known, unless something else is already
// wrong with it.
func (b *builder) oneOf(path, what, name string, known []string) bool {
	if b.bad[path] || slices.Contains(known, name) {
		return true
	}
	b.reject(path, unknown(what, name, known))
	return false
}

// unique reports names that are used twice. known is false if some are unknown
// because of other problems.
func (b *builder) unique(list string, names []string) (known bool) {
	known = !b.bad[list]
	first := map[string]int{}
	for i, name := range names {
		path := at(list, i)
		if b.bad[path] || b.bad[path+".name"] {
			known = false
			continue
		}
		if j, twice := first[name]; twice {
			b.reject(path+".name", fmt.Sprintf("%q is already the name of %s", name, at(list, j)))
			continue
		}
		first[name] = i
	}
	return known
}

func (b *builder) variants(cs []VariantConfig) []model.Variant {
	variants := make([]model.Variant, len(cs))
	for i, c := range cs {
		path := at("variants", i)
		if c.Name == ControlName {
			b.reject(path+".name", `"control" is reserved for the A/A control; ask for that with design.control`)
		}
		variants[i] = model.Variant{Name: string(c.Name), Stack: make([]model.PluginRef, len(c.Stack)), Targets: c.Targets}
		variants[i].Limits = b.limits(c.Limits, path+".limits")
		for j, target := range c.Targets {
			b.oneOf(at(path+".targets", j), "target", target, b.known.Targets)
		}
		for j, l := range c.Stack {
			variants[i].Stack[j] = b.layer(l, at(path+".stack", j))
		}
	}
	b.wholeVariants = b.unique("variants", names(cs, func(c VariantConfig) Name { return c.Name }))
	return variants
}

func names[T any](list []T, name func(T) Name) []string {
	all := make([]string, len(list))
	for i, c := range list {
		all[i] = string(name(c))
	}
	return all
}

func (b *builder) layer(c LayerConfig, path string) model.PluginRef {
	ref := model.PluginRef{Kind: c.name, Config: c.config}
	if b.bad[path] || c.name == "" {
		return ref
	}
	if b.given[join(path, c.name)] != nil {
		path = join(path, c.name)
	}
	known := make([]string, len(b.known.Layers))
	for i, p := range b.known.Layers {
		known[i] = p.Name
	}
	if !b.oneOf(path, "layer", c.name, known) {
		return ref
	}
	_, err := b.known.Layers[slices.Index(known, c.name)].New(c.config)
	b.refused(path, err)
	return ref
}

func (b *builder) app(c AppConfig) model.PluginRef {
	ref := model.PluginRef{Kind: c.Kind, Config: c.config}
	known := make([]string, len(b.known.Apps))
	for i, p := range b.known.Apps {
		known[i] = p.Name
	}
	if b.bad["app"] || b.bad["app.kind"] || !b.oneOf("app.kind", "app", c.Kind, known) {
		return ref
	}
	_, err := b.known.Apps[slices.Index(known, c.Kind)].New(c.config)
	b.refused("app", err)
	return ref
}

// made is the app, if all that concerns it is sound.
func (b *builder) made(ref model.PluginRef) (model.App, bool) {
	i := slices.IndexFunc(b.known.Apps, func(p model.Plugin[model.App]) bool { return p.Name == ref.Kind })
	if i < 0 || b.unsound("app") {
		return nil, false
	}
	app, err := b.known.Apps[i].New(ref.Config)
	return app, err == nil
}

// fits lets an app that needs certain services look at the topology.
func (b *builder) fits(ref model.PluginRef, t model.Topology) {
	app, ok := b.made(ref)
	if c, looks := app.(model.TopologyChecker); ok && looks && len(t.Services) > 0 {
		b.refused("app", c.CheckTopology(t))
	}
}

// spoken lets an app that does not speak every protocol look at the loads.
func (b *builder) spoken(s model.Study) {
	app, ok := b.made(s.App)
	c, looks := app.(model.LoadChecker)
	if !ok || !looks {
		return
	}
	for i, l := range s.Loads {
		if err := c.CheckLoad(l); err != nil && !b.bad[b.loadPaths[i]] && !b.bad[b.loadPaths[i]+".protocol"] {
			b.reject(b.loadPaths[i]+".protocol", err.Error())
		}
	}
}

// refused reports what a plug-in says about its configuration: key by key
// where it names the keys.
func (b *builder) refused(path string, err error) {
	if err == nil {
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			b.refused(path, e)
		}
		return
	}
	if key := new(model.ConfigError); errors.As(err, &key) {
		b.reject(join(path, key.Key), key.Text)
		return
	}
	b.reject(path, strings.ReplaceAll(err.Error(), "\n", "; "))
}

func (b *builder) design(c DesignConfig) model.Design {
	d := model.Design{
		Blocks: c.Blocks, MaxBlocks: c.Blocks, Warmup: time.Duration(c.Warmup), Control: c.Control,
		Equivalence: float64(c.Equivalence), Primary: c.Primary, Seed: c.Seed,
	}
	if c.Equivalence == 1 {
		b.reject("design.equivalence", "is 100%: a margin that wide makes everything equivalent")
	}
	first := map[string]bool{}
	for i, m := range c.Primary {
		path := at("design.primary", i)
		if b.given[path] == nil {
			path = "design.primary" // a default that this catalog does not have
		}
		if b.oneOf(path, "metric", m, b.known.Metrics) && first[m] {
			b.reject(path, fmt.Sprintf("%q is listed twice", m))
		}
		first[m] = true
	}
	if c.Stop != nil {
		b.stop(c, &d)
	}
	return d
}

func (b *builder) stop(c DesignConfig, d *model.Design) {
	d.StopInterval = float64(c.Stop.Interval)
	if !b.bad["design.stop.interval"] && (c.Stop.Interval <= 0 || c.Stop.Interval >= 1) {
		b.reject("design.stop.interval", "must be more than 0% and less than 100%")
	}
	const perBlocks, most = 3, 1000
	d.MaxBlocks = min(perBlocks*c.Blocks, most)
	if b.given["design.stop.max_blocks"] == nil {
		return
	}
	d.MaxBlocks = c.Stop.MaxBlocks
	if !b.bad["design.blocks"] && !b.bad["design.stop.max_blocks"] && d.MaxBlocks < c.Blocks {
		b.reject("design.stop.max_blocks", fmt.Sprintf("%d is less than blocks, which is %d", d.MaxBlocks, c.Blocks))
	}
}

func variantNames(s model.Study) []string {
	all := make([]string, len(s.Variants))
	for i, v := range s.Variants {
		all[i] = v.Name
	}
	return all
}

// control checks the baseline and adds it a second time, as the A/A control.
func (b *builder) control(s model.Study) model.Study {
	i := slices.IndexFunc(s.Variants, func(v model.Variant) bool { return v.Name == s.Baseline })
	if i < 0 {
		if b.wholeVariants && !b.bad["baseline"] {
			b.reject("baseline", unknown("variant", s.Baseline, variantNames(s)))
		}
		return s
	}
	if s.Design.Control {
		s.Variants = append(s.Variants, model.Variant{
			Name: ControlName, Stack: slices.Clone(s.Variants[i].Stack), Control: true, Targets: s.Variants[i].Targets,
			Limits: s.Variants[i].Limits,
		})
	}
	return s
}

// decode reads a layer: its name, or a mapping of its name to its configuration.
func (c *LayerConfig) decode(d *decoder, n *yaml.Node, path string) {
	const wants = "the name of a layer, or {name: {its configuration}}"
	if n.Kind == yaml.ScalarNode {
		if d.is(n, path, wants, yaml.ScalarNode, "!!str") {
			c.name = n.Value
		}
		return
	}
	if !d.is(n, path, wants, yaml.MappingNode) {
		return
	}
	if len(n.Content) != 2 {
		d.report(n, path, fmt.Sprintf("has %d keys; here goes %s", len(n.Content)/2, wants))
		return
	}
	d.entries(n, path, func(key, value *yaml.Node) {
		inner := join(path, key.Value)
		d.given[inner] = key
		if !d.is(value, inner, "the layer's configuration, a mapping", yaml.MappingNode) {
			return
		}
		if raw, ok := d.json(value, inner); ok {
			c.name, c.config = key.Value, raw
		}
	})
}

// decode reads the app's own keys beside the common ones.
func (c *AppConfig) decode(d *decoder, n *yaml.Node, path string) {
	type common AppConfig // without this method
	if rest := d.open(n, reflect.ValueOf((*common)(c)).Elem(), path); len(rest.Content) > 0 {
		c.config, _ = d.json(rest, path)
	}
}

// decode reads the protocol's keys beside the common ones.
func (c *LoadConfig) decode(d *decoder, n *yaml.Node, path string) {
	type common LoadConfig // without this method
	c.rest = d.open(n, reflect.ValueOf((*common)(c)).Elem(), path)
}

// open reads a mapping into a struct; keys that it does not have are a
// plug-in's, and returned.
func (d *decoder) open(n *yaml.Node, common reflect.Value, path string) (rest *yaml.Node) {
	rest = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: n.Line, Column: n.Column}
	d.fields(n, common, path, func(key, value *yaml.Node) {
		d.give(value, join(path, key.Value))
		if d.foreign[path] == nil {
			d.foreign[path] = map[string]*yaml.Node{}
		}
		d.foreign[path][key.Value] = key
		rest.Content = append(rest.Content, key, value)
	})
	return rest
}

// give remembers where a plug-in's values stand.
func (d *decoder) give(n *yaml.Node, path string) {
	d.given[path] = n
	if n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		d.give(n.Content[i+1], join(path, n.Content[i].Value))
	}
}
