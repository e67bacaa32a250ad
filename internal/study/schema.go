package study

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/invopop/jsonschema"
	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/model"
)

// SchemaID is the schema's own address.
const SchemaID = "https://raw.githubusercontent.com/windtunnel/windtunnel/main/schema/study.schema.json"

// Schema is the JSON Schema of a study file, for editors and other programs.
// It is made from the types that Parse decodes into and from the catalog, so
// that the two cannot drift apart. What one key alone cannot show (names that
// refer to each other, a rate in a closed loop) only Parse checks.
func Schema(known Known) ([]byte, error) {
	s := reflector(false).Reflect(Config{})
	s.ID, s.Title, s.Description = SchemaID, "Windtunnel study", "A question about a Kubernetes network and the experiment that answers it."
	if err := annotate(s, reflect.TypeFor[Config]()); err != nil {
		return nil, err
	}
	enum(child(s, "target").AnyOf[0], known.Targets)
	enum(items(child(s, "variants"), "targets").Items, known.Targets)
	items(child(s, "variants"), "stack").Items = layers(known.Layers)
	allowFactors(s)
	if err := setLoads(s, known.Protocols); err != nil {
		return nil, err
	}
	setFaults(s, known.Faults)
	enum(child(s, "design", "primary").Items, known.Metrics)
	if err := setApps(s, known.Apps); err != nil {
		return nil, err
	}
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the schema of study files: %w", err)
	}
	return append(raw, '\n'), nil
}

// reflector makes schemas without references: plug-ins' config types often
// have the same name. Plug-ins' keys are all optional unless tagged required.
func reflector(plugin bool) *jsonschema.Reflector {
	return &jsonschema.Reflector{
		Anonymous: true, ExpandedStruct: true, DoNotReference: true, RequiredFromJSONSchemaTags: plugin,
	}
}

func child(s *jsonschema.Schema, path ...string) *jsonschema.Schema {
	for _, key := range path {
		s, _ = s.Properties.Get(key)
	}
	return s
}

func items(list *jsonschema.Schema, key string) *jsonschema.Schema { return child(list.Items, key) }

func enum(s *jsonschema.Schema, names []string) {
	for _, n := range names {
		s.Enum = append(s.Enum, n)
	}
}

// annotate copies defaults from the tags of a config type and of those in it.
func annotate(s *jsonschema.Schema, t reflect.Type) error {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if t.Kind() == reflect.Slice {
			s = s.Items
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || s.Properties == nil {
		return nil
	}
	for _, f := range fieldsOf(t) {
		property := child(s, f.key)
		if f.fallback != "" {
			if err := yaml.Unmarshal([]byte(f.fallback), &property.Default); err != nil {
				return fmt.Errorf("reading the default of %s: %w", f.key, err)
			}
		}
		if err := annotate(property, t.Field(f.index).Type); err != nil {
			return err
		}
	}
	return nil
}

// config is the schema of a plug-in's configuration; of one that has none, the
// empty mapping.
func config(zero any) *jsonschema.Schema {
	if zero == nil {
		return &jsonschema.Schema{Type: "object", AdditionalProperties: jsonschema.FalseSchema, Properties: jsonschema.NewProperties()}
	}
	s := reflector(true).Reflect(zero)
	s.Version = ""
	return s
}

// layers is the schema of one entry of a stack.
func layers(plugins []model.Plugin[model.Layer]) *jsonschema.Schema {
	var entries []*jsonschema.Schema
	for _, p := range plugins {
		properties := jsonschema.NewProperties()
		properties.Set(p.Name, config(p.Config))
		entries = append(entries,
			&jsonschema.Schema{Const: p.Name, Description: p.Summary},
			&jsonschema.Schema{
				Type: "object", Description: p.Summary, Properties: properties,
				Required: []string{p.Name}, AdditionalProperties: jsonschema.FalseSchema,
			})
	}
	return &jsonschema.Schema{AnyOf: entries, Description: "A layer: its name, or its name with its configuration."}
}

// setApps makes the schema of the app: the common keys and those of one kind.
func setApps(s *jsonschema.Schema, plugins []model.Plugin[model.App]) error {
	app := child(s, "app")
	var kinds []*jsonschema.Schema
	for _, p := range plugins {
		kind, err := extend(app, "kind", p.Name, p.Summary, p.Config)
		if err != nil {
			return err
		}
		kinds = append(kinds, kind)
	}
	s.Properties.Set("app", &jsonschema.Schema{OneOf: kinds, Description: app.Description})
	return nil
}

// setLoads makes the schema of a load: the common keys and those of a protocol.
func setLoads(s *jsonschema.Schema, protocols []Protocol) error {
	list := child(s, "loads")
	if err := annotateRate(items(list, "rate")); err != nil {
		return err
	}
	var kinds []*jsonschema.Schema
	for _, p := range protocols {
		kind, err := extend(list.Items, "protocol", p.Name, p.Summary, p.Config)
		if err != nil {
			return err
		}
		for pair := kind.Properties.Oldest(); pair != nil; pair = pair.Next() {
			if _, common := list.Items.Properties.Get(pair.Key); !common {
				pair.Value = withFiles(pair.Value)
			}
		}
		kinds = append(kinds, kind)
	}
	list.Items = &jsonschema.Schema{OneOf: kinds}
	return nil
}

// withFiles is the schema of a protocol's value in which files may hold text.
func withFiles(s *jsonschema.Schema) *jsonschema.Schema {
	if s.Type == "string" && len(s.Enum) == 0 && s.ContentEncoding == "" {
		return orFile(s)
	}
	for pair := s.Properties.Oldest(); pair != nil; pair = pair.Next() {
		pair.Value = withFiles(pair.Value)
	}
	if s.Items != nil {
		s.Items = withFiles(s.Items)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Type != "" {
		s.AdditionalProperties = withFiles(s.AdditionalProperties)
	}
	return s
}

// extend is the schema of a mapping that has common keys and, where the key
// that tells its kind has the name, a plug-in's.
func extend(common *jsonschema.Schema, key, name, summary string, zero any) (*jsonschema.Schema, error) {
	kind := config(zero)
	for pair := common.Properties.Oldest(); pair != nil; pair = pair.Next() {
		if _, taken := kind.Properties.Get(pair.Key); taken {
			return nil, fmt.Errorf("%s %s has a key %q of its own, which all have", key, name, pair.Key)
		}
		kind.Properties.Set(pair.Key, pair.Value)
	}
	kind.Properties.Set(key, &jsonschema.Schema{Const: name, Description: summary})
	kind.Required = append(kind.Required, common.Required...)
	if !slices.Contains(kind.Required, key) {
		kind.Required = append(kind.Required, key)
	}
	return kind, nil
}

// text makes the schema of a quantity.
func text(pattern, example string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: pattern, Examples: []any{example}}
}

// JSONSchema is a plain number or text such as 2000/s.
func (Rate) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		AnyOf: []*jsonschema.Schema{
			{Type: "number", ExclusiveMinimum: "0", Maximum: json.Number(strconv.Itoa(int(MaxRate)))},
			{Type: "string", Pattern: patternRate},
		},
		Examples: []any{"2000/s"},
	}
}

// JSONSchema is text such as 5%.
func (Percent) JSONSchema() *jsonschema.Schema { return text(patternPercent, "5%") }

// JSONSchema is text such as 500ms.
func (Duration) JSONSchema() *jsonschema.Schema { return text(patternDuration, "500ms") }

// JSONSchema is text such as 64KiB.
func (Bytes) JSONSchema() *jsonschema.Schema { return text(patternBytes, "64KiB") }

// JSONSchema is text such as 100Mbit/s.
func (BitRate) JSONSchema() *jsonschema.Schema { return text(patternBitRate, "100Mbit/s") }

// JSONSchema is a DNS label.
func (Name) JSONSchema() *jsonschema.Schema {
	longest := uint64(maxName)
	return &jsonschema.Schema{Type: "string", Pattern: patternName, MaxLength: &longest}
}
