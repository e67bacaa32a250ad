package study

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/invopop/jsonschema"
	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/model"
)

// FaultConfig is a scenario: harms on one timeline, under which loads are run
// that name it.
type FaultConfig struct {
	Name   Name          `json:"name" jsonschema_description:"Unique among faults; loads name it in fault."`
	Events []EventConfig `json:"events" jsonschema:"minItems=1,maxItems=100" jsonschema_description:"The harms, each with one key more: the kind of harm, with its own configuration, e.g. kill: {pods: [server-0]}."`
}

// EventConfig is one harm of a scenario. One further key names its kind.
type EventConfig struct {
	At   Duration `json:"at" jsonschema_description:"When it is done, from the start of the measured window."`
	Heal Duration `json:"heal,omitempty" jsonschema_description:"When it is undone, from the start of the measured window. If absent: when the load has ended."`

	kind   string
	config json.RawMessage
}

// decode reads the event's kind beside the common keys.
func (c *EventConfig) decode(d *decoder, n *yaml.Node, path string) {
	type common EventConfig // without this method
	before := len(d.problems)
	rest := d.open(n, reflect.ValueOf((*common)(c)).Elem(), path)
	if len(d.problems) > before {
		return
	}
	const pair = 2
	if len(rest.Content) != pair {
		d.report(n, path, "needs exactly one kind of harm beside at and heal, such as kill: {pods: [server-0]}")
		return
	}
	key, value := rest.Content[0], rest.Content[1]
	inner := join(path, key.Value)
	if !d.is(value, inner, "the harm's configuration, a mapping", yaml.MappingNode) {
		return
	}
	if raw, ok := d.json(value, inner); ok {
		c.kind, c.config = key.Value, raw
	}
}

// faults makes the scenarios of the model.
func (b *builder) faults(cs []FaultConfig) []model.Scenario {
	var all []model.Scenario
	for i, c := range cs {
		s := model.Scenario{Name: string(c.Name)}
		for j, e := range c.Events {
			s.Events = append(s.Events, b.event(e, at(at("faults", i)+".events", j)))
		}
		all = append(all, s)
	}
	b.wholeFaults = b.unique("faults", names(cs, func(c FaultConfig) Name { return c.Name }))
	return all
}

func (b *builder) event(c EventConfig, path string) model.FaultEvent {
	e := model.FaultEvent{Fault: model.PluginRef{Kind: c.kind, Config: c.config}, At: time.Duration(c.At), Heal: time.Duration(c.Heal)}
	if b.bad[path] || c.kind == "" {
		return e
	}
	if b.given[path+".heal"] != nil && !b.bad[path+".heal"] && c.Heal <= c.At {
		b.reject(path+".heal", fmt.Sprintf("is not after at, which is %s: both count from the start of the window", e.At))
	}
	known := make([]string, len(b.known.Faults))
	for i, p := range b.known.Faults {
		known[i] = p.Name
	}
	inner := join(path, c.kind)
	if b.oneOf(inner, "fault", c.kind, known) {
		_, err := b.known.Faults[slices.Index(known, c.kind)].New(c.config)
		b.refused(inner, err)
	}
	return e
}

// underFaults checks the scenarios that loads name. A ladder's loads stand at the
// same place of the file: a problem of all of them is told once.
func (b *builder) underFaults(s model.Study) {
	for i, l := range s.Loads {
		if path := b.loadPaths[i]; !b.bad[path+".fault"] {
			b.underFault(l, s.Faults, path)
		}
	}
}

// underFault checks the scenario that a load names, and that the load is long
// enough for it and can be traced.
func (b *builder) underFault(l model.Load, faults []model.Scenario, path string) {
	key := path + ".fault"
	if l.Fault == "" || b.bad[key] || !b.wholeFaults {
		return
	}
	i := slices.IndexFunc(faults, func(s model.Scenario) bool { return s.Name == l.Fault })
	if i < 0 {
		b.reject(key, unknown("fault", l.Fault, scenarioNames(faults)))
		return
	}
	for _, e := range faults[i].Events {
		if last := max(e.At, e.Heal); last >= l.Duration {
			b.reject(key, fmt.Sprintf("goes on to %s, and the load's window ends after %s: give it a longer duration", last, l.Duration))
			break
		}
	}
	if n := l.Rate * l.Duration.Seconds(); n > model.MaxTrace {
		b.reject(key, fmt.Sprintf("needs every request to be kept, and %.0f are more than %d: lower the rate or the duration", n, model.MaxTrace))
	}
	if l.Driver != "" {
		b.reject(key, "needs every request to be kept, which outside tools do not tell: leave out driver")
	}
	if l.Search != nil {
		b.reject(key, "cannot be used while a rate is searched for")
	}
}

func scenarioNames(faults []model.Scenario) []string {
	all := make([]string, len(faults))
	for i, s := range faults {
		all[i] = s.Name
	}
	return all
}

// setFaults makes the schema of events: the common keys and those of one kind.
func setFaults(s *jsonschema.Schema, plugins []model.Plugin[model.Fault]) {
	list := items(child(s, "faults"), "events")
	var kinds []*jsonschema.Schema
	for _, p := range plugins {
		properties := jsonschema.NewProperties()
		for pair := list.Items.Properties.Oldest(); pair != nil; pair = pair.Next() {
			properties.Set(pair.Key, pair.Value)
		}
		one := config(p.Config)
		one.Description = p.Summary
		properties.Set(p.Name, one)
		kinds = append(kinds, &jsonschema.Schema{
			Type: "object", Properties: properties, Required: append(slices.Clone(list.Items.Required), p.Name),
			AdditionalProperties: jsonschema.FalseSchema,
		})
	}
	list.Items = &jsonschema.Schema{OneOf: kinds}
}
