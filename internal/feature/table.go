package feature

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Stack is a variant to be checked.
type Stack struct {
	Name   string
	Layers []string // their names
	// Make makes the layers anew, bottom up.
	Make func() ([]model.Layer, error)
}

// Prove does all checks with every stack, each on a site of its own, one after
// the other. progress is told what is being done.
func Prove(ctx context.Context, target model.Target, stacks []Stack, checks []Check, progress func(stack, check string)) (Table, error) {
	var t Table
	for _, c := range checks {
		t.Lines = append(t.Lines, Line{Group: c.Group, Feature: c.Name, Asks: c.Asks})
	}
	for _, s := range stacks {
		column, results, err := prove(ctx, target, s, checks, progress)
		if err != nil {
			return t, fmt.Errorf("variant %s: %w", s.Name, err)
		}
		t.Variants = append(t.Variants, column)
		for i, r := range results {
			t.Lines[i].Results = append(t.Lines[i].Results, r)
		}
	}
	return t, nil
}

func prove(ctx context.Context, target model.Target, s Stack, checks []Check, progress func(stack, check string)) (c Column, results []Result, err error) {
	c = Column{Name: s.Name, Layers: s.Layers}
	layers, err := s.Make()
	if err != nil {
		return c, nil, err
	}
	progress(s.Name, "deploying")
	site, err := target.Provision(ctx, Topology())
	if err != nil {
		return c, nil, err
	}
	after := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, site.Close(after)) }()
	b, err := Open(ctx, site, layers)
	defer func() { err = errors.Join(err, b.Close(after)) }()
	if err != nil {
		return c, nil, b.withLog(ctx, err)
	}
	for _, check := range checks {
		progress(s.Name, check.Name)
		var r Result
		if r, err = b.Run(ctx, check); err != nil {
			return c, nil, b.withLog(ctx, err)
		}
		results = append(results, r)
	}
	c.Programs, err = b.Programs(ctx)
	return c, results, err
}

// withLog adds the ends of the logs to an error, unless it is what was asked for.
func (b *Bench) withLog(ctx context.Context, err error) error {
	const most = 2000
	log := strings.TrimSpace(string(b.logs()))
	if ctx.Err() != nil || log == "" {
		return err
	}
	return fmt.Errorf("%w\nthe last that was logged: %s", err, log[max(0, len(log)-most):])
}

// WriteJSON writes the whole table.
func (t Table) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(t)
}

// WriteText writes a line a feature with all verdicts, and below it the
// evidence by variant.
func (t Table) WriteText(w io.Writer) error {
	var b strings.Builder
	wide, name := len("partly"), 0
	for _, v := range t.Variants {
		wide = max(wide, len(v.Name))
	}
	for _, l := range t.Lines {
		name = max(name, len(l.Feature))
	}
	fmt.Fprintf(&b, "%-*s", name, "")
	for _, v := range t.Variants {
		fmt.Fprintf(&b, "  %-*s", wide, v.Name)
	}
	b.WriteString("\n")
	group := ""
	for _, l := range t.Lines {
		if l.Group != group {
			group = l.Group
			fmt.Fprintf(&b, "\n%s\n", strings.ToUpper(group))
		}
		fmt.Fprintf(&b, "%-*s", name, l.Feature)
		for _, r := range l.Results {
			fmt.Fprintf(&b, "  %-*s", wide, r.Verdict)
		}
		fmt.Fprintf(&b, "\n  asked: %s\n", l.Asks)
		for i, r := range l.Results {
			fmt.Fprintf(&b, "  %s: %s -> %s%s\n", t.Variants[i].Name, r.Sent, r.Seen, r.rules(" ["))
		}
	}
	b.WriteString("\n")
	for _, v := range t.Variants {
		fmt.Fprintf(&b, "%s: %s\n", v.Name, v.describe())
	}
	_, err := io.WriteString(w, trimmed(b.String()))
	return err
}

// trimmed has no spaces at the ends of lines.
func trimmed(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n")
}

// rules is what became of the rules, in brackets, unless they simply held.
func (r Result) rules(open string) string {
	if r.Rules == "" || r.Rules == applied {
		return ""
	}
	return open + r.Rules + "]"
}

func (c Column) describe() string {
	stack := "no layer: pod to pod"
	if len(c.Layers) > 0 {
		stack = strings.Join(c.Layers, ", ")
	}
	if len(c.Programs) > 0 {
		stack += " (" + strings.Join(c.Programs, "; ") + ")"
	}
	return stack
}

// WriteMarkdown writes a table of verdicts and one of the evidence.
func (t Table) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	row := func(cells ...string) {
		for i, c := range cells {
			cells[i] = strings.ReplaceAll(c, "|", "\\|")
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	head, rule := []string{"", "feature"}, []string{"---", "---"}
	for _, v := range t.Variants {
		head, rule = append(head, v.Name), append(rule, "---")
	}
	row(head...)
	row(rule...)
	group := ""
	for _, l := range t.Lines {
		cells := []string{"", l.Feature}
		if l.Group != group {
			group, cells[0] = l.Group, l.Group
		}
		for _, r := range l.Results {
			cells = append(cells, string(r.Verdict))
		}
		row(cells...)
	}
	b.WriteString("\n")
	row("feature", "asked", "variant", "", "sent", "seen")
	row("---", "---", "---", "---", "---", "---")
	for _, l := range t.Lines {
		name, asks := l.Feature, l.Asks
		for i, r := range l.Results {
			row(name, asks, t.Variants[i].Name, string(r.Verdict), r.Sent, r.Seen+r.rules(" ["))
			name, asks = "", ""
		}
	}
	b.WriteString("\n")
	for _, v := range t.Variants {
		fmt.Fprintf(&b, "- %s: %s\n", v.Name, v.describe())
	}
	_, err := io.WriteString(w, b.String())
	return err
}
