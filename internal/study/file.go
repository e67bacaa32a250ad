package study

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/invopop/jsonschema"
	"go.yaml.in/yaml/v3"
)

// maxContent bounds a file that a study names, in bytes: its content goes into
// the plan and over the agent's pipe, in the worst case six times as long.
const maxContent = 1 << 20

// Text is text, written out or {file: NAME}.
type Text string

func (t *Text) decode(d *decoder, n *yaml.Node, path string) {
	if name := fileOf(n); name != nil {
		data, ok := d.content(name, path)
		if ok && !utf8.Valid(data) {
			d.report(name, path, fmt.Sprintf("file %s is not UTF-8 text", name.Value))
		}
		*t = Text(data)
		return
	}
	if d.is(n, path, "text, or {file: NAME}", yaml.ScalarNode, "!!str") {
		*t = Text(n.Value)
	}
}

// JSONSchema is text or {file: NAME}.
func (Text) JSONSchema() *jsonschema.Schema { return orFile(&jsonschema.Schema{Type: "string"}) }

// orFile is the schema of a value that a file may hold.
func orFile(s *jsonschema.Schema) *jsonschema.Schema {
	file := jsonschema.NewProperties()
	file.Set("file", &jsonschema.Schema{Type: "string", Description: "A file, relative to the study's folder and below it."})
	return &jsonschema.Schema{
		Description: s.Description, Default: s.Default,
		AnyOf: []*jsonschema.Schema{s, {Type: "object", Properties: file, Required: []string{"file"}, AdditionalProperties: jsonschema.FalseSchema}},
	}
}

// fileOf is the name in {file: NAME}, or nil.
func fileOf(n *yaml.Node) *yaml.Node {
	const pair = 2
	if n.Kind != yaml.MappingNode || len(n.Content) != pair || n.Content[0].Value != "file" || n.Content[1].Kind != yaml.ScalarNode {
		return nil
	}
	return n.Content[1]
}

// content reads a file that the study names.
func (d *decoder) content(name *yaml.Node, path string) (data []byte, ok bool) {
	if !d.plain(name, path) || !d.is(name, path, "a file's name", yaml.ScalarNode, "!!str") {
		return nil, false
	}
	var err error
	switch {
	case d.readFile == nil:
		d.report(name, path, "files cannot be named here: this study was not read from a folder")
		return nil, false
	case !filepath.IsLocal(name.Value):
		d.report(name, path, fmt.Sprintf("file %q is not below the study's folder: names are relative to it", name.Value))
		return nil, false
	}
	if data, err = d.readFile(name.Value); err != nil {
		d.report(name, path, fmt.Sprintf("file %s cannot be read: %v", name.Value, err))
		return nil, false
	}
	if len(data) > maxContent {
		d.report(name, path, fmt.Sprintf("file %s has more than %d bytes", name.Value, maxContent))
		return nil, false
	}
	return data, true
}

// inline returns a plug-in's configuration with files in place of their names,
// wherever the type has text. What is no text goes to the key's sibling of the
// same name with "_base64", if there is one.
func (d *decoder) inline(n *yaml.Node, t reflect.Type, path string) *yaml.Node {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	out := *n
	switch {
	case t.Kind() == reflect.String && fileOf(n) != nil:
		if data, ok := d.content(fileOf(n), path); ok {
			if !utf8.Valid(data) {
				d.report(n, path, fmt.Sprintf("file %s is not UTF-8 text", fileOf(n).Value))
			}
			return scalar(n, string(data))
		}
		return scalar(n, "")
	case t.Kind() == reflect.Struct && n.Kind == yaml.MappingNode:
		return d.inlineFields(n, t, path)
	case t.Kind() == reflect.Map && n.Kind == yaml.MappingNode:
		out.Content = nil
		for i := 0; i+1 < len(n.Content); i += 2 {
			out.Content = append(out.Content, n.Content[i], d.inline(n.Content[i+1], t.Elem(), join(path, n.Content[i].Value)))
		}
	case t.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode:
		out.Content = nil
		for i, c := range n.Content {
			out.Content = append(out.Content, d.inline(c, t.Elem(), at(path, i)))
		}
	default:
	}
	return &out
}

func (d *decoder) inlineFields(n *yaml.Node, t reflect.Type, path string) *yaml.Node {
	types := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); key != "" {
			types[key] = f.Type
		}
	}
	out := *n
	out.Content = nil
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		sibling, binary := key.Value+"_base64", false
		if name := fileOf(value); name != nil && types[sibling] != nil && types[key.Value] != nil && types[key.Value].Kind() == reflect.String {
			data, ok := d.content(name, join(path, key.Value))
			if value = scalar(value, string(data)); ok && !utf8.Valid(data) {
				binary = true
				value.Value = base64.StdEncoding.EncodeToString(data)
			}
		}
		switch {
		case binary:
			key = scalar(key, sibling)
		case types[key.Value] != nil:
			value = d.inline(value, types[key.Value], join(path, key.Value))
		}
		out.Content = append(out.Content, key, value)
	}
	return &out
}

// scalar is text at the place of another node.
func scalar(n *yaml.Node, text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Line: n.Line, Column: n.Column}
}
