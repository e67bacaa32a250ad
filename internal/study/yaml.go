package study

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxFile bounds a study file, in bytes.
const maxFile = 1 << 20

// regexLine finds the position in the YAML library's messages, which have no
// other form for it.
var regexLine = regexp.MustCompile(`^line (\d+): `)

// read turns the file into YAML nodes; ok is false if there is nothing to decode.
func (d *decoder) read(data []byte) (root *yaml.Node, ok bool) {
	if len(data) > maxFile {
		return nil, d.file(1, 1, fmt.Sprintf("the file has %d bytes; a study has at most %d", len(data), maxFile))
	}
	if line, column, bad := notText(data); bad {
		return nil, d.file(line, column, "this is not UTF-8 text")
	}
	in := yaml.NewDecoder(bytes.NewReader(data))
	var doc, next yaml.Node
	if err := in.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, d.file(1, 1, "the file is empty; a study begins with apiVersion: "+APIVersion)
	} else if err != nil {
		return nil, d.syntax(data, err)
	}
	if err := in.Decode(&next); err == nil {
		return nil, d.file(next.Line, next.Column, "a second document begins here; a file holds one study")
	} else if !errors.Is(err, io.EOF) {
		return nil, d.syntax(data, err)
	}
	return doc.Content[0], true
}

// file reports a problem of the file as a whole; it returns false.
func (d *decoder) file(line, column int, text string) bool {
	d.problems = append(d.problems, Problem{File: d.name, Line: max(1, line), Column: max(1, column), Text: text})
	return false
}

// syntax reports an error of the YAML library, which knows the line at best.
func (d *decoder) syntax(data []byte, err error) bool {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if m := regexLine.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	column := 1
	if lines := bytes.Split(data, []byte("\n")); line >= 1 && line <= len(lines) {
		l := lines[line-1]
		column += len(l) - len(bytes.TrimLeft(l, " \t"))
	}
	return d.file(line, column, "not YAML: "+text)
}

func notText(data []byte) (line, column int, bad bool) {
	line, column = 1, 1
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size <= 1 {
			return line, column, true
		}
		column++
		if r == '\n' {
			line, column = line+1, 1
		}
		i += size
	}
	return 0, 0, false
}

// version checks what says how to read everything else.
func (d *decoder) version(root *yaml.Node) bool {
	if !d.plain(root, "") {
		return false
	}
	if root.Kind != yaml.MappingNode {
		return d.file(root.Line, root.Column, "this is "+describe(root)+"; a study is a mapping that begins with apiVersion: "+APIVersion)
	}
	for _, want := range [][2]string{{"apiVersion", APIVersion}, {"kind", Kind}} {
		n := root
		for i := 0; i+1 < len(root.Content); i += 2 {
			if root.Content[i].Value == want[0] {
				n = root.Content[i+1]
				break
			}
		}
		switch {
		case n == root:
			d.report(root, want[0], "is required: "+want[1])
		case n.Kind != yaml.ScalarNode || n.Value != want[1]:
			d.report(n, want[0], fmt.Sprintf("is %s; this program reads %s", describe(n), want[1]))
		}
	}
	return len(d.problems) == 0
}

// plain refuses the parts of YAML that a study does not need: they make it
// unclear what a file says, and where.
func (d *decoder) plain(n *yaml.Node, path string) bool {
	var what string
	switch {
	case n.Kind == yaml.AliasNode:
		what = "aliases are"
	case n.Anchor != "":
		what = "anchors are"
	case n.Style&yaml.TaggedStyle != 0:
		what = "tags are"
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!merge":
		what = "merge keys are"
	default:
		return true
	}
	d.report(n, path, what+" not part of the study format: write the value out")
	return false
}

// describe says what a node is, in words that fit after "is".
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	default:
	}
	switch n.ShortTag() {
	case "!!null":
		return "empty"
	case "!!int", "!!float":
		return "the number " + n.Value
	case "!!bool":
		return "the truth value " + n.Value
	}
	return strconv.Quote(n.Value)
}

// json turns a node into the JSON that plug-ins read: keys sorted, so that the
// same configuration is always the same bytes.
func (d *decoder) json(n *yaml.Node, path string) (json.RawMessage, bool) {
	v, ok := d.any(n, path)
	if !ok {
		return nil, false
	}
	raw, err := json.Marshal(v)
	if err != nil {
		d.report(n, path, "cannot be passed on: "+err.Error())
		return nil, false
	}
	return raw, true
}

func (d *decoder) any(n *yaml.Node, path string) (any, bool) {
	if !d.plain(n, path) {
		return nil, false
	}
	switch n.Kind {
	case yaml.MappingNode:
		m, ok := make(map[string]any, len(n.Content)/2), true
		d.entries(n, path, func(key, value *yaml.Node) {
			v, good := d.any(value, join(path, key.Value))
			m[key.Value], ok = v, ok && good
		})
		return m, ok
	case yaml.SequenceNode:
		list, ok := make([]any, len(n.Content)), true
		for i, c := range n.Content {
			v, good := d.any(c, at(path, i))
			list[i], ok = v, ok && good
		}
		return list, ok
	default:
		return d.scalar(n, path)
	}
}

func (d *decoder) scalar(n *yaml.Node, path string) (any, bool) {
	switch n.ShortTag() {
	case "!!bool":
		return strings.EqualFold(n.Value, "true"), true
	case "!!int", "!!float":
		if !json.Valid([]byte(n.Value)) {
			d.report(n, path, n.Value+" is not a plain decimal number")
			return nil, false
		}
		return json.Number(n.Value), true
	case "!!null":
		d.report(n, path, "has no value")
		return nil, false
	}
	return n.Value, true
}

// entries calls f for each key that is text and has not been seen before;
// others are problems.
func (d *decoder) entries(n *yaml.Node, path string, f func(key, value *yaml.Node)) {
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if !d.plain(key, path) {
			continue
		}
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
			d.report(key, path, "a key is "+describe(key)+"; keys are text")
			continue
		}
		if line, twice := seen[key.Value]; twice {
			d.report(key, join(path, key.Value), fmt.Sprintf("appears twice, first on line %d", line))
			continue
		}
		seen[key.Value] = key.Line
		f(key, value)
	}
}
