// Package study reads study files: a question and its design, as YAML, into a
// model.Study in which nothing is left to interpret.
//
// Reading is strict. The version comes first; unknown keys, wrong types, values
// out of range and names that nothing answers to are problems, and all of them
// are reported at once, each with its position in the file. What the file does
// not say is filled in here, from the `default` tags of the config types, and
// nowhere else: no later stage re-parses, defaults or rounds a value. Files that
// it names are read here too, so that what they held is part of the plan.
//
// The same config types make the published JSON Schema (Schema).
package study

import (
	"encoding/json"
	"reflect"

	"github.com/windtunnel/windtunnel/internal/model"
)

// The version of the study format that this package reads.
const (
	APIVersion = "windtunnel/v1"
	Kind       = "Study"
)

// Known is what a study may name: the catalog of plug-ins, the targets and
// protocols, and the metrics that gates and primary comparisons can be about.
type Known struct {
	Layers    []model.Plugin[model.Layer]
	Apps      []model.Plugin[model.App]
	Protocols []Protocol
	Faults    []model.Plugin[model.Fault]
	Targets   []string
	Metrics   []string
	Drivers   []string // outside tools that can send a load
	// ReadFile reads a file beside the study; nil: studies cannot have any. Names
	// are relative, and below the study's folder.
	ReadFile func(name string) ([]byte, error)
}

// Protocol is one that loads may speak: what the catalog has of it that does
// not need the load engine.
type Protocol struct {
	Name, Summary string
	Config        any
	// Check reads a load's configuration of the protocol.
	Check func(config json.RawMessage) error
	// Numbers says whether requests can carry a number, by which they are traced;
	// nil: none can.
	Numbers func(config json.RawMessage) bool
}

// Parse reads a study file. name is the file's name for error messages only.
// The error is Problems, all of them, sorted by position; the study is zero then.
func Parse(name string, data []byte, known Known) (model.Study, error) {
	d := newDecoder(name)
	d.readFile = known.ReadFile
	root, ok := d.read(data)
	if !ok || !d.version(root) {
		return model.Study{}, d.sorted()
	}
	var c Config
	d.value(root, reflect.ValueOf(&c).Elem(), "", rules{})
	s := (&builder{decoder: d, known: known}).study(c)
	if len(d.problems) > 0 {
		return model.Study{}, d.sorted()
	}
	return s, nil
}
