package study

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"
	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/model"
)

// TargetConfig is where trials run: the name of a target, or a target with
// what it needs to know.
type TargetConfig struct {
	name string
	kube *model.Kube
}

// kubeConfig is what the target kube needs to know.
type kubeConfig struct {
	Contexts  []string          `json:"contexts,omitempty" jsonschema:"maxItems=16" jsonschema_description:"Contexts of the kubeconfig: one for each cluster of the topology in order, or one whose zones are the clusters. If absent: the current one."`
	Namespace string            `json:"namespace,omitempty" jsonschema_description:"A namespace that exists, to work in. If absent: one is made for the run and removed with it."`
	Image     string            `json:"image,omitempty" jsonschema_description:"Image of the pods. If absent: the one that make image makes."`
	Nodes     map[string]string `json:"nodes,omitempty" jsonschema_description:"Real nodes by node of the topology. If absent: the scheduler chooses, once for the whole run."`
}

const wantsTarget = "the name of a target, or {kube: {contexts: [...]}}"

func (c *TargetConfig) decode(d *decoder, n *yaml.Node, path string) {
	if n.Kind == yaml.ScalarNode {
		if d.is(n, path, wantsTarget, yaml.ScalarNode, "!!str") {
			c.name = n.Value
		}
		return
	}
	if !d.is(n, path, wantsTarget, yaml.MappingNode) {
		return
	}
	if len(n.Content) != 2 || n.Content[0].Value != model.TargetKube {
		d.report(n, path, "here goes "+wantsTarget)
		return
	}
	var k kubeConfig
	inner := join(path, model.TargetKube)
	d.value(n.Content[1], reflect.ValueOf(&k).Elem(), inner, rules{})
	c.name, c.kube = model.TargetKube, (*model.Kube)(&k)
	if i := twice(k.Contexts); i >= 0 {
		d.reject(at(inner+".contexts", i), fmt.Sprintf("%q is listed twice", k.Contexts[i]))
	}
}

// twice is the index of the first entry that was there before, or -1.
func twice(list []string) int {
	for i, s := range list {
		if slices.Contains(list[:i], s) {
			return i
		}
	}
	return -1
}

// JSONSchema is the name of a target, or {kube: {...}}.
func (TargetConfig) JSONSchema() *jsonschema.Schema {
	properties := jsonschema.NewProperties()
	kube := reflector(true).Reflect(kubeConfig{})
	kube.Version = ""
	properties.Set(model.TargetKube, kube)
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
		{Type: "string"},
		{Type: "object", Properties: properties, Required: []string{model.TargetKube}, AdditionalProperties: jsonschema.FalseSchema},
	}}
}

// target takes over where the study runs.
func (b *builder) target(c TargetConfig, s *model.Study) {
	s.Target = c.name
	if !b.bad["target"] {
		b.oneOf("target", "target", c.name, b.known.Targets)
	}
	if s.Target != model.TargetKube {
		return
	}
	s.Kube = &model.Kube{}
	if c.kube != nil {
		s.Kube = c.kube
	}
	for name := range s.Kube.Nodes {
		if !slices.ContainsFunc(s.Topology.Nodes(), func(n model.Node) bool { return n.Name == name }) && len(s.Topology.Regions) > 0 {
			b.reject(join("target.kube.nodes", name), "is no node of the topology")
		}
	}
}

// OnTarget leaves out the variants that do not run on the study's target, with
// the gates on them, and says so in the study.
func OnTarget(s model.Study) (model.Study, error) {
	runs := func(v model.Variant) bool { return len(v.Targets) == 0 || slices.Contains(v.Targets, s.Target) }
	var left []model.Variant
	for _, v := range s.Variants {
		if runs(v) {
			left = append(left, v)
			continue
		}
		if v.Name == s.Baseline {
			return s, fmt.Errorf("the baseline %s runs on %s only, not on the target %s", v.Name, strings.Join(v.Targets, ", "), s.Target)
		}
		s.Skipped = append(s.Skipped, model.Skipped{
			Variant: v.Name, Reason: fmt.Sprintf("it runs on %s only; this run is on %s", strings.Join(v.Targets, ", "), s.Target),
		})
	}
	if len(left) == 0 {
		return s, errors.New("no variant runs on the target " + s.Target)
	}
	skipped := func(name string) bool {
		return slices.ContainsFunc(s.Skipped, func(k model.Skipped) bool { return k.Variant == name })
	}
	s.Variants = left
	s.Gates = slices.DeleteFunc(slices.Clone(s.Gates), func(g model.Gate) bool { return skipped(g.Variant) })
	return s, nil
}
