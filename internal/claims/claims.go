// Package claims holds what somebody says of results against the results:
// comparisons, thresholds and printed tables. Each claim gets a verdict, with
// the test and the interval that it rests on. It computes and nothing else.
package claims

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// File is a file of claims.
type File struct {
	Claims []Claim
}

// Claim is one statement: a comparison or threshold in words, or a printed table.
type Claim struct {
	Line int
	Text string // the claim in words; of a table its file's name
	Says string // the sentence of the source, where it is given
	Data string // a CSV file whose columns are compared, instead of the runs
	// Table is a CSV file whose figures are looked for in the runs. Names say
	// which word of the runs a word of the table stands for; Runs is how many
	// repetitions its figures rest on (0: those at hand).
	Table string
	Names map[string]string
	Runs  int
	// Margin is the share within which "=" counts as equal.
	Margin float64

	expression expression
}

// Parse reads a file of claims: all problems at once, each with its place.
func Parse(name string, data []byte) (File, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return File{}, fmt.Errorf("%s: %w", name, err)
	}
	p := parser{name: name}
	var f File
	if len(root.Content) == 0 {
		p.problem(&root, "it is empty: write claims: and a list below it")
		return f, errors.Join(p.errs...)
	}
	p.mapping(root.Content[0], map[string]func(*yaml.Node){
		"claims": func(n *yaml.Node) {
			if n.Kind != yaml.SequenceNode {
				p.problem(n, "claims must be a list")
				return
			}
			for _, item := range n.Content {
				f.Claims = append(f.Claims, p.claim(item))
			}
		},
	})
	if len(f.Claims) == 0 && len(p.errs) == 0 {
		p.problem(root.Content[0], "it has no claims")
	}
	slices.SortStableFunc(p.errs, func(a, b error) int { return cmp.Compare(lineOf(a), lineOf(b)) })
	return f, errors.Join(p.errs...)
}

// positioned is a problem with its line, so that problems can be sorted.
type positioned struct {
	line int
	text string
}

func (e *positioned) Error() string { return e.text }

func lineOf(err error) int {
	if p, ok := errors.AsType[*positioned](err); ok {
		return p.line
	}
	return 0
}

type parser struct {
	name string
	errs []error
}

func (p *parser) problem(n *yaml.Node, format string, args ...any) {
	p.errs = append(p.errs, &positioned{n.Line, fmt.Sprintf("%s:%d:%d: %s", p.name, max(n.Line, 1), max(n.Column, 1), fmt.Sprintf(format, args...))})
}

// mapping calls what is known for each key, and complains about the others.
func (p *parser) mapping(n *yaml.Node, known map[string]func(*yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		p.problem(n, "a mapping is wanted here, with the keys %s", list(known))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch read := known[key.Value]; {
		case read == nil:
			p.problem(key, "unknown key %q; known: %s", key.Value, list(known))
		case seen[key.Value]:
			p.problem(key, "%s stands here twice", key.Value)
		default:
			read(value)
		}
		seen[key.Value] = true
	}
}

func list(known map[string]func(*yaml.Node)) string {
	var all []string
	for k := range known {
		all = append(all, k)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func (p *parser) text(into *string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.Value == "" {
			p.problem(n, "a text is wanted here")
			return
		}
		*into = n.Value
	}
}

func (p *parser) claim(n *yaml.Node) Claim {
	c := Claim{Line: n.Line, Names: map[string]string{}}
	p.mapping(n, map[string]func(*yaml.Node){
		"claim":  p.text(&c.Text),
		"says":   p.text(&c.Says),
		"data":   p.text(&c.Data),
		"table":  p.text(&c.Table),
		"names":  func(v *yaml.Node) { p.names(v, c.Names) },
		"runs":   func(v *yaml.Node) { c.Runs = p.count(v) },
		"margin": func(v *yaml.Node) { c.Margin = p.share(v) },
	})
	switch {
	case n.Kind != yaml.MappingNode:
	case (c.Text == "") == (c.Table == ""):
		p.problem(n, "a claim has either claim: with a statement or table: with a file")
	case c.Table != "" && (c.Data != "" || c.Margin != 0):
		p.problem(n, "data and margin belong to claim:, not to table:")
	case c.Text != "" && (len(c.Names) > 0 || c.Runs != 0):
		p.problem(n, "names and runs belong to table:, not to claim:")
	case c.Text != "":
		var err error
		if c.expression, err = parseExpression(c.Text, c.Data != ""); err != nil {
			p.problem(n, "%s", err)
		}
	default:
		c.Text = "table " + c.Table
	}
	return c
}

func (p *parser) names(n *yaml.Node, into map[string]string) {
	if n.Kind != yaml.MappingNode {
		p.problem(n, "names is a mapping from words of the table to words of the runs")
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		into[n.Content[i].Value] = n.Content[i+1].Value
	}
}

func (p *parser) count(n *yaml.Node) int {
	v, err := strconv.Atoi(n.Value)
	if err != nil || v < 1 {
		p.problem(n, "runs is a number of repetitions, at least 1: %q is none", n.Value)
		return 0
	}
	return v
}

func (p *parser) share(n *yaml.Node) float64 {
	v, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(n.Value, "%")), 64)
	if err != nil || !strings.HasSuffix(n.Value, "%") || v <= 0 || v >= 100 {
		p.problem(n, "margin is a share such as 5%%: %q is none", n.Value)
		return 0
	}
	return v / 100
}
