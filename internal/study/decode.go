package study

import (
	"encoding"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// regexWhole matches whole decimal numbers; YAML's octals and underscores are
// left to other programs.
var regexWhole = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// decoder reads YAML nodes into the config types and collects what is wrong.
type decoder struct {
	name     string
	given    map[string]*yaml.Node            // what the file says, by path
	bad      map[string]bool                  // paths with a problem
	foreign  map[string]map[string]*yaml.Node // keys that are a plug-in's, by path and name
	problems Problems
	filling  bool // decoding a default: not from the file
	readFile func(name string) ([]byte, error)
}

func newDecoder(name string) *decoder {
	return &decoder{name: name, given: map[string]*yaml.Node{}, bad: map[string]bool{}, foreign: map[string]map[string]*yaml.Node{}}
}

func (d *decoder) sorted() Problems {
	d.problems.sort()
	return d.problems
}

func (d *decoder) report(n *yaml.Node, path, text string) {
	d.bad[path] = true
	d.problems = append(d.problems, Problem{File: d.name, Line: n.Line, Column: n.Column, Path: path, Text: text})
}

// reject reports a problem at a path: where its value stands or, if the file
// does not have it, where its parent does.
func (d *decoder) reject(path, text string) {
	for p := path; ; p = p[:strings.LastIndexAny(p, ".[")] {
		if n := d.given[p]; n != nil {
			d.report(n, path, text)
			return
		}
		if !strings.ContainsAny(p, ".[") {
			break
		}
	}
	d.report(d.given[""], path, text)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func at(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// customDecoder is a config type with a form of its own.
type customDecoder interface {
	decode(d *decoder, n *yaml.Node, path string)
}

// value reads a node into v.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string, r rules) {
	if !d.filling {
		d.given[path] = n
	}
	if !d.plain(n, path) {
		return
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		d.report(n, path, "has no value: give it one or leave the key out")
		return
	}
	switch t := v.Addr().Interface().(type) {
	case customDecoder:
		t.decode(d, n, path)
	case encoding.TextUnmarshaler:
		d.text(n, t, path, r)
	default:
		d.kind(n, v, path, r)
	}
}

func (d *decoder) kind(n *yaml.Node, v reflect.Value, path string, r rules) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), path, r)
	case reflect.Struct:
		d.fields(n, v, path, nil)
	case reflect.Slice:
		d.list(n, v, path, r)
	case reflect.Map:
		d.table(n, v, path)
	case reflect.Bool:
		if d.is(n, path, r.or("true or false"), yaml.ScalarNode, "!!bool") {
			v.SetBool(strings.EqualFold(n.Value, "true"))
		}
	case reflect.Int, reflect.Uint64:
		d.number(n, v, path, r)
	default:
		d.str(n, v, path, r)
	}
}

// is reports a node that is not of the kind, or of none of the tags, that are
// wanted.
func (d *decoder) is(n *yaml.Node, path, wants string, kind yaml.Kind, tags ...string) bool {
	if n.Kind == kind && (len(tags) == 0 || slices.Contains(tags, n.ShortTag())) {
		return true
	}
	text := fmt.Sprintf("is %s; here goes %s", describe(n), wants)
	if n.Kind == yaml.ScalarNode && slices.Contains(tags, "!!str") {
		text += "; quote it if it is meant as text"
	}
	d.report(n, path, text)
	return false
}

func (d *decoder) text(n *yaml.Node, v encoding.TextUnmarshaler, path string, r rules) {
	tags := []string{"!!str", "!!timestamp"}
	wants := "a name"
	if _, name := v.(*Name); !name {
		tags, wants = append(tags, "!!int", "!!float"), "a quantity"
	}
	if !d.is(n, path, r.or(wants), yaml.ScalarNode, tags...) {
		return
	}
	if err := v.UnmarshalText([]byte(n.Value)); err != nil {
		d.report(n, path, err.Error())
	}
}

func (d *decoder) str(n *yaml.Node, v reflect.Value, path string, r rules) {
	if !d.is(n, path, r.or("text"), yaml.ScalarNode, "!!str", "!!timestamp") {
		return
	}
	switch {
	case len(r.enum) > 0 && !slices.Contains(r.enum, n.Value):
		d.report(n, path, unknown("value", n.Value, r.enum))
	case r.minLength > 0 && strings.TrimSpace(n.Value) == "":
		d.report(n, path, "is empty")
	default:
		v.SetString(n.Value)
	}
}

func (d *decoder) number(n *yaml.Node, v reflect.Value, path string, r rules) {
	if !d.is(n, path, r.or("a whole number"), yaml.ScalarNode, "!!int") {
		return
	}
	if !regexWhole.MatchString(n.Value) {
		d.report(n, path, n.Value+" is not a plain decimal number")
		return
	}
	if v.Kind() == reflect.Uint64 {
		u, err := strconv.ParseUint(n.Value, 10, 64)
		if err != nil {
			d.report(n, path, fmt.Sprintf("%s is out of range: 0 to %d", n.Value, uint64(1<<64-1)))
		}
		v.SetUint(u)
		return
	}
	i, err := strconv.ParseInt(n.Value, 10, 32)
	if err != nil || i < r.minimum || i > r.maximum {
		text := fmt.Sprintf("%s is out of range: %d to %d", n.Value, r.minimum, r.maximum)
		if r.why != "" {
			text += " (" + r.why + ")"
		}
		d.report(n, path, text)
		return
	}
	v.SetInt(i)
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, path string, r rules) {
	if !d.is(n, path, r.or("a list"), yaml.SequenceNode) {
		return
	}
	if len(n.Content) < r.minItems {
		d.report(n, path, tooShort(len(n.Content), r.minItems))
	}
	if r.maxItems > 0 && len(n.Content) > r.maxItems {
		d.report(n, path, fmt.Sprintf("has %d entries: at most %d", len(n.Content), r.maxItems))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		d.value(item, v.Index(i), at(path, i), rules{})
	}
}

func tooShort(length, least int) string {
	if length == 0 && least == 1 {
		return "is an empty list: at least one is needed"
	}
	return fmt.Sprintf("has %d entries: at least %d are needed", length, least)
}

func (d *decoder) table(n *yaml.Node, v reflect.Value, path string) {
	if !d.is(n, path, "a mapping of names to text", yaml.MappingNode) {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	d.entries(n, path, func(key, value *yaml.Node) {
		elem := reflect.New(v.Type().Elem()).Elem()
		d.value(value, elem, join(path, key.Value), rules{})
		v.SetMapIndex(reflect.ValueOf(key.Value), elem)
	})
}

// fields reads a mapping into a struct, fills in the defaults of absent keys
// and reports absent keys without one. other is offered unknown keys; nil: they
// are problems.
func (d *decoder) fields(n *yaml.Node, v reflect.Value, path string, other func(key, value *yaml.Node)) {
	if !d.is(n, path, "a mapping", yaml.MappingNode) {
		return
	}
	fields := fieldsOf(v.Type())
	seen := map[string]bool{}
	d.entries(n, path, func(key, value *yaml.Node) {
		f, ok := fields.find(key.Value)
		switch {
		case ok:
			seen[f.key] = true
			d.value(value, v.Field(f.index), join(path, key.Value), f.rules)
		case other != nil:
			other(key, value)
		default:
			d.report(key, join(path, key.Value), unknownKey(join(path, key.Value), key.Value, fields.keys()))
		}
	})
	for _, f := range fields {
		if seen[f.key] || d.bad[join(path, f.key)] {
			continue
		}
		d.absent(n, f, v.Field(f.index), join(path, f.key))
	}
}

// absent is the one place where defaults come from.
func (d *decoder) absent(n *yaml.Node, f field, v reflect.Value, path string) {
	switch {
	case f.fallback != "":
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(f.fallback), &doc); err != nil {
			d.report(n, path, "has a default that is not YAML: "+err.Error())
			return
		}
		was := d.filling
		d.filling = true
		d.value(doc.Content[0], v, path, f.rules)
		d.filling = was
	case f.required:
		d.report(n, path, "is required. "+f.description)
	}
}

func unknownKey(path, key string, known []string) string {
	notYet := map[string]string{
		"design.redeploy": "every trial is deployed afresh in this version",
	}
	if text, ok := notYet[path]; ok {
		return "unknown key: " + text
	}
	return unknown("key", key, known)
}
