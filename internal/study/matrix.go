package study

import (
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"
	"go.yaml.in/yaml/v3"
)

// maxCombinations bounds what one entry with a matrix is expanded into.
const maxCombinations = 200

// Crossed is a list whose entries may have a matrix: such an entry is written
// once, and stands for one entry of each combination of its factors' levels.
type Crossed[T any] []T

func (c *Crossed[T]) decode(d *decoder, n *yaml.Node, path string) {
	if n.Kind == yaml.SequenceNode {
		n = d.expand(n, path)
	}
	if d.unexpanded(path) { // which has been reported
		d.bad[path] = true
		return
	}
	d.list(n, reflect.ValueOf((*[]T)(c)).Elem(), path, rules{minItems: 1})
}

// MatrixConfig is the factors of an entry and their levels.
type MatrixConfig struct{}

func (*MatrixConfig) decode(d *decoder, n *yaml.Node, path string) {
	d.report(n, path, "cannot stand here: it belongs to an entry of variants or of loads")
}

// JSONSchema is a mapping of factors to a list of levels, or to named ones.
func (MatrixConfig) JSONSchema() *jsonschema.Schema {
	least := uint64(1)
	return &jsonschema.Schema{
		Type: "object", MinProperties: &least,
		AdditionalProperties: &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "array", MinItems: &least, Items: &jsonschema.Schema{Type: "string"}},
			{Type: "array", MinItems: &least, Items: &jsonschema.Schema{Type: "number"}},
			{Type: "object", MinProperties: &least},
		}},
	}
}

// ExceptConfig is a combination by some factors' levels.
type ExceptConfig struct{}

func (*ExceptConfig) decode(d *decoder, n *yaml.Node, path string) {
	d.report(n, path, "leaves out combinations of a matrix, and there is none")
}

// JSONSchema is a mapping of factors to one level each.
func (ExceptConfig) JSONSchema() *jsonschema.Schema {
	least := uint64(1)
	return &jsonschema.Schema{Type: "object", MinProperties: &least}
}

// Where the schema must take <factor> for a level.
const (
	patternCrossed = `^([a-z0-9-]|<[a-z0-9-]+>)+$`
	patternLevel   = `^<[a-z0-9-]+>$`
)

// allowFactors lets names, limits and stacks have factors in the schema.
func allowFactors(s *jsonschema.Schema) {
	for _, list := range []string{"variants", "loads"} {
		name := items(child(s, list), "name")
		name.Pattern = patternCrossed
	}
	limits := items(child(s, "variants"), "limits")
	for pair := limits.Properties.Oldest(); pair != nil; pair = pair.Next() {
		for one := pair.Value.Properties.Oldest(); one != nil; one = one.Next() {
			one.Value = orLevel(one.Value)
		}
		pair.Value = orLevel(pair.Value)
	}
	stack := items(child(s, "variants"), "stack").Items
	stack.AnyOf = append(stack.AnyOf,
		&jsonschema.Schema{Type: "string", Pattern: patternLevel},
		&jsonschema.Schema{Type: "object", PatternProperties: map[string]*jsonschema.Schema{patternLevel: {Type: "object"}}, AdditionalProperties: jsonschema.FalseSchema})
}

// orLevel is the schema of a value that a factor's level may stand for.
func orLevel(s *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{Description: s.Description, AnyOf: []*jsonschema.Schema{s, {Type: "string", Pattern: patternLevel}}}
}

// factor is one thing that differs, with the values that it takes.
type factor struct {
	name   string
	levels []level
}

type level struct {
	name  string
	value *yaml.Node
}

// expand replaces every entry that has a matrix by its combinations, the last
// factor changing fastest. Positions stay those of the file.
func (d *decoder) expand(list *yaml.Node, path string) *yaml.Node {
	out := *list
	out.Content = nil
	for _, entry := range list.Content {
		at := at(path, len(out.Content))
		matrix, except, rest := crossed(entry)
		if matrix == nil {
			out.Content = append(out.Content, entry)
			continue
		}
		factors := d.factors(matrix, at+".matrix")
		left := d.exceptions(except, factors, at+".except")
		if d.unexpanded(at) {
			continue
		}
		before := len(out.Content)
		for _, chosen := range combinations(factors) {
			if !left.has(chosen) {
				out.Content = append(out.Content, d.substitute(rest, chosen, at, false))
			}
		}
		if len(out.Content) == before {
			d.report(except, at+".except", "leaves out every combination")
		}
	}
	return &out
}

// unexpanded says whether a matrix at or below a path has a problem.
func (d *decoder) unexpanded(path string) bool {
	for bad := range d.bad {
		if strings.HasPrefix(bad, path) && (strings.Contains(bad[len(path):], ".matrix") || strings.Contains(bad[len(path):], ".except")) {
			return true
		}
	}
	return false
}

// crossed takes the matrix out of an entry; nil: it has none.
func crossed(entry *yaml.Node) (matrix, except, rest *yaml.Node) {
	copied := *entry
	copied.Content = nil
	if entry.Kind != yaml.MappingNode {
		return nil, nil, entry
	}
	for i := 0; i+1 < len(entry.Content); i += 2 {
		switch key, value := entry.Content[i], entry.Content[i+1]; key.Value {
		case "matrix":
			matrix = value
		case "except":
			except = value
		default:
			copied.Content = append(copied.Content, key, value)
		}
	}
	return matrix, except, &copied
}

// factors reads a matrix; the order is the file's.
func (d *decoder) factors(n *yaml.Node, path string) []factor {
	const wants = "factors, each with its levels, such as {mtu: [native, equal]}"
	if !d.plain(n, path) || !d.is(n, path, wants, yaml.MappingNode) {
		return nil
	}
	var all []factor
	product := 1
	d.entries(n, path, func(key, value *yaml.Node) {
		f := factor{name: key.Value, levels: d.levels(value, join(path, key.Value))}
		if _, err := ParseName(f.name); err != nil {
			d.report(key, join(path, key.Value), "as the name of a factor: "+err.Error())
		}
		all = append(all, f)
		product *= max(1, len(f.levels))
	})
	switch {
	case len(all) == 0:
		d.report(n, path, "has no factor: here go "+wants)
	case product > maxCombinations:
		d.report(n, path, fmt.Sprintf("has %d combinations: at most %d", product, maxCombinations))
	}
	return all
}

// levels are a list of plain values, whose text is their name, or a mapping of
// names to values of any form.
func (d *decoder) levels(n *yaml.Node, path string) []level {
	const wants = "the factor's levels: a list such as [native, equal], or a mapping of their names to values"
	var all []level
	seen := map[string]bool{}
	switch {
	case !d.plain(n, path):
	case n.Kind == yaml.MappingNode:
		d.entries(n, path, func(key, value *yaml.Node) {
			if d.plain(value, join(path, key.Value)) {
				all = append(all, level{key.Value, value})
			}
		})
	case d.is(n, path, wants, yaml.SequenceNode):
		for i, v := range n.Content {
			if !d.is(v, at(path, i), "one level, a plain value; give levels of other forms as a mapping of names to values", yaml.ScalarNode) {
				continue
			}
			if seen[v.Value] {
				d.report(v, at(path, i), fmt.Sprintf("%q is listed twice", v.Value))
			}
			seen[v.Value] = true
			all = append(all, level{v.Value, v})
		}
	}
	if len(all) == 0 && !d.bad[path] {
		d.report(n, path, "is empty: here go "+wants)
	}
	return all
}

// exceptions are combinations that are left out, each by some factors' levels.
type exceptions []map[string]string

func (e exceptions) has(chosen map[string]level) bool {
	for _, one := range e {
		all := true
		for f, l := range one {
			all = all && chosen[f].name == l
		}
		if all {
			return true
		}
	}
	return false
}

func (d *decoder) exceptions(n *yaml.Node, factors []factor, path string) exceptions {
	if n == nil || !d.plain(n, path) || !d.is(n, path, "a list of combinations, such as [{mtu: equal}]", yaml.SequenceNode) {
		return nil
	}
	var all exceptions
	for i, entry := range n.Content {
		one := map[string]string{}
		where := at(path, i)
		if !d.is(entry, where, "levels by factor, such as {mtu: equal}", yaml.MappingNode) {
			continue
		}
		d.entries(entry, where, func(key, value *yaml.Node) {
			d.exception(key, value, factors, join(where, key.Value))
			one[key.Value] = value.Value
		})
		if len(one) == 0 && !d.bad[where] {
			d.report(entry, where, "names no factor, and so would leave out everything")
		}
		all = append(all, one)
	}
	return all
}

func (d *decoder) exception(key, value *yaml.Node, factors []factor, path string) {
	var names, levels []string
	for _, f := range factors {
		names = append(names, f.name)
		if f.name != key.Value {
			continue
		}
		for _, l := range f.levels {
			if l.name == value.Value {
				return
			}
			levels = append(levels, l.name)
		}
	}
	if levels == nil {
		d.report(key, path, unknown("factor", key.Value, names))
		return
	}
	d.report(value, path, unknown("level", value.Value, levels))
}

func combinations(factors []factor) []map[string]level {
	all := []map[string]level{{}}
	for _, f := range factors {
		var next []map[string]level
		for _, chosen := range all {
			for _, l := range f.levels {
				with := map[string]level{f.name: l}
				maps.Copy(with, chosen)
				next = append(next, with)
			}
		}
		all = next
	}
	return all
}

// substitute copies an entry with the levels in place of <factor>: a level's
// value where that is all there is, and else, as in a name, the level's name.
func (d *decoder) substitute(n *yaml.Node, chosen map[string]level, path string, name bool) *yaml.Node {
	out := *n
	out.Content = nil
	switch n.Kind {
	case yaml.ScalarNode:
		return withLevels(n, chosen, name)
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := d.substitute(n.Content[i], chosen, path, false)
			if key.Kind != yaml.ScalarNode {
				d.report(key, path+".matrix", fmt.Sprintf("has a level that is %s, where %s stands for a key", describe(key), n.Content[i].Value))
				continue
			}
			out.Content = append(out.Content, key, d.substitute(n.Content[i+1], chosen, path, key.Value == "name"))
		}
	default:
		for _, item := range n.Content {
			out.Content = append(out.Content, d.substitute(item, chosen, path, false))
		}
	}
	return &out
}

func withLevels(n *yaml.Node, chosen map[string]level, name bool) *yaml.Node {
	value := n.Value
	for f, l := range chosen {
		if n.Value == "<"+f+">" && !name {
			return l.value
		}
		value = strings.ReplaceAll(value, "<"+f+">", l.name)
	}
	if value == n.Value {
		return n
	}
	out := *n
	out.Value, out.Tag = value, "!!str"
	return &out
}
