package study

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/invopop/jsonschema"
	"go.yaml.in/yaml/v3"
)

// RateConfig is a rate: constant, or a mapping of one of the forms below.
type RateConfig struct {
	constant Rate
	form     any // one of rateForms; nil: constant
}

// RampConfig is a rate that goes evenly from one value to another over the
// window.
type RampConfig struct {
	From Rate `json:"from" jsonschema_description:"At the window's start, and in the warm-up."`
	To   Rate `json:"to" jsonschema_description:"At the window's end."`
}

// StepsConfig is a rate that changes in equal parts of the window.
type StepsConfig struct {
	Steps []Rate `json:"steps" jsonschema:"minItems=2,maxItems=1000" jsonschema_description:"The rates, one after the other, each for an equal part of the window."`
}

// ReplayConfig is a list of times.
type ReplayConfig struct {
	Replay Times `json:"replay" jsonschema_description:"When requests are due, from the window's start: a list such as [0s, 1ms, 3ms], or {file: NAME} with one time a line, with a unit or in seconds."`
}

// LadderConfig makes one load of each rate.
type LadderConfig struct {
	Ladder []Rate `json:"ladder" jsonschema:"minItems=1,maxItems=100" jsonschema_description:"One load is made of each rate, a whole number, and named NAME-RATE."`
}

// ShareConfig is a rate as a share of another load's result.
type ShareConfig struct {
	Percent int    `json:"percent" jsonschema:"minimum=1,maximum=1000" jsonschema_description:"How many hundredths of it."`
	Of      string `json:"of" jsonschema:"minLength=1" jsonschema_description:"lowest, highest or own, and the name of a load in closed loop or with a search: the lowest or highest rate that any variant achieved under it, or each variant's own. Calibration trials before the first block find it."`
}

// SearchConfig looks for the highest rate that holds.
type SearchConfig struct {
	Highest   Texts    `json:"highest" jsonschema_description:"A condition on the load's result, or several, e.g. response.p99 < 20ms. Unless one is about success or loss, success >= 99.9% is added."`
	From      Rate     `json:"from,omitempty" default:"100/s" jsonschema_description:"The lowest rate that is tried."`
	To        Rate     `json:"to,omitempty" default:"100000/s" jsonschema_description:"The highest rate that is tried."`
	Precision Percent  `json:"precision,omitempty" default:"5%" jsonschema_description:"How close the rate that holds and one that does not must come; 0.5% to 50%."`
	Probe     Duration `json:"probe,omitempty" default:"1s" jsonschema_description:"Window of one probe."`
	Confirm   int      `json:"confirm,omitempty" default:"2" jsonschema:"minimum=1,maximum=10" jsonschema_description:"How often in a row the rate that was found must hold for the load's whole duration."`
}

// rateForm is a mapping that a rate may be: the keys that tell it from others.
type rateForm struct {
	keys []string
	zero any
}

// rateForms are tried in order: from and to are also keys of a search.
func rateForms() []rateForm {
	return []rateForm{
		{[]string{"highest"}, SearchConfig{}},
		{[]string{"percent", "of"}, ShareConfig{}},
		{[]string{"steps"}, StepsConfig{}},
		{[]string{"replay"}, ReplayConfig{}},
		{[]string{"ladder"}, LadderConfig{}},
		{[]string{"from", "to"}, RampConfig{}},
	}
}

const wantsRate = "requests per second, such as 2000/s, or a mapping with highest, percent and of, steps, replay, ladder, or from and to"

func (c *RateConfig) decode(d *decoder, n *yaml.Node, path string) {
	if n.Kind != yaml.MappingNode {
		d.text(n, &c.constant, path, rules{wants: wantsRate})
		return
	}
	for _, f := range rateForms() {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !slices.Contains(f.keys, n.Content[i].Value) {
				continue
			}
			form := reflect.New(reflect.TypeOf(f.zero))
			d.fields(n, form.Elem(), path, nil)
			c.form = form.Elem().Interface()
			return
		}
	}
	d.report(n, path, "has none of the keys that say how the rate is given; here goes "+wantsRate)
}

// JSONSchema is a constant rate or one of the forms.
func (RateConfig) JSONSchema() *jsonschema.Schema {
	s := Rate(0).JSONSchema()
	for _, f := range rateForms() {
		form := reflector(false).Reflect(f.zero)
		form.Version = ""
		s.AnyOf = append(s.AnyOf, form)
	}
	return s
}

// annotateRate gives the forms of a rate their defaults.
func annotateRate(s *jsonschema.Schema) error {
	forms := rateForms()
	for i, f := range forms {
		if err := annotate(s.AnyOf[len(s.AnyOf)-len(forms)+i], reflect.TypeOf(f.zero)); err != nil {
			return err
		}
	}
	return nil
}

// Texts are one text or a list of them.
type Texts []string

// Pods are one pod or a list of them.
type Pods []string

func (t *Texts) decode(d *decoder, n *yaml.Node, path string) {
	*t = d.oneOrMore(n, path, "a condition, or a list of them")
}

func (p *Pods) decode(d *decoder, n *yaml.Node, path string) {
	*p = d.oneOrMore(n, path, "a pod, or a list of pods")
}

func (d *decoder) oneOrMore(n *yaml.Node, path, wants string) []string {
	list := []string{""}
	if n.Kind != yaml.SequenceNode {
		d.str(n, reflect.ValueOf(list).Index(0), path, rules{wants: wants, minLength: 1})
		return list
	}
	d.list(n, reflect.ValueOf(&list).Elem(), path, rules{minItems: 1})
	return list
}

// JSONSchema is a text or a list of them.
func (Texts) JSONSchema() *jsonschema.Schema { return oneOrMore() }

// JSONSchema is a name or a list of them.
func (Pods) JSONSchema() *jsonschema.Schema { return oneOrMore() }

func oneOrMore() *jsonschema.Schema {
	one, least := &jsonschema.Schema{Type: "string"}, uint64(1)
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{one, {Type: "array", Items: one, MinItems: &least}}}
}

// Times are when requests are due, ascending.
type Times []time.Duration

// maxTimes bounds a replay: it is part of the plan.
const maxTimes = 100_000

func (t *Times) decode(d *decoder, n *yaml.Node, path string) {
	if name := fileOf(n); name != nil {
		if data, ok := d.content(name, path); ok {
			if err := t.parse(string(data)); err != nil {
				d.report(name, path, fmt.Sprintf("file %s, %v", name.Value, err))
			}
		}
		return
	}
	if !d.is(n, path, "a list of times, or {file: NAME}", yaml.SequenceNode) {
		return
	}
	var list []Duration
	d.list(n, reflect.ValueOf(&list).Elem(), path, rules{minItems: 1})
	for i, at := range list {
		if err := t.add(time.Duration(at)); err != nil {
			d.report(n.Content[i], path, err.Error())
			return
		}
	}
}

// parse reads one time a line; empty lines and those that begin with # are
// left out.
func (t *Times) parse(text string) error {
	number := 0
	for line := range strings.Lines(text) {
		number++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if _, err := strconv.ParseFloat(line, 64); err == nil {
			line += "s"
		}
		at, err := ParseDuration(line)
		if err == nil {
			err = t.add(time.Duration(at))
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
	if len(*t) == 0 {
		return fmt.Errorf("line %d: there are no times", max(1, number))
	}
	return nil
}

func (t *Times) add(at time.Duration) error {
	switch n := len(*t); {
	case n == maxTimes:
		return fmt.Errorf("more than %d times", maxTimes)
	case n > 0 && at < (*t)[n-1]:
		return fmt.Errorf("%s comes after %s: times must not fall", at, (*t)[n-1])
	}
	*t = append(*t, at)
	return nil
}

// JSONSchema is a list of durations or {file: NAME}.
func (Times) JSONSchema() *jsonschema.Schema {
	least, most := uint64(1), uint64(maxTimes)
	return orFile(&jsonschema.Schema{Type: "array", Items: Duration(0).JSONSchema(), MinItems: &least, MaxItems: &most})
}
