// Package proxy is what the layers that run proxies have in common: a real Envoy
// in a pod or on a node, its configuration as plain values, what it says of
// itself, certificates, and where a service's endpoints are as seen from a
// cluster.
package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/oci"
)

// startTimeout is how long an Envoy may take to be live.
const startTimeout = 15 * time.Second

// Place is where an Envoy runs: a pod, or a node that has room for processes.
type Place interface {
	model.Namespace
	model.Starter
}

// Envoy is one process.
type Envoy struct {
	Where Place
	Admin uint16 // port of its admin interface, on loopback
	// process is nil until Start has made it.
	process model.Running
}

// Spec says how an Envoy is run.
type Spec struct {
	Name        string // of the process
	Component   model.Component
	Program     string
	Concurrency int
	Limits      model.Limits
	// Files are its configuration, envoy.json, and what that refers to.
	Files map[string][]byte
	Args  []string // further ones
}

// Start runs the Envoy and waits until it says that it is live.
func (e *Envoy) Start(ctx context.Context, s Spec) (err error) {
	e.process, err = e.Where.Start(ctx, model.Process{
		Name: s.Name, Component: s.Component, Files: s.Files, Limits: s.Limits,
		Command: append([]string{s.Program, "-c", "{dir}/envoy.json", "--concurrency", strconv.Itoa(s.Concurrency), "--disable-hot-restart", "-l", "warning"}, s.Args...),
	})
	if err != nil {
		return err
	}
	return e.live(ctx, e.process)
}

// Await waits until the Envoy says that it is live: one that a fault has killed
// may just have been started again, as another process.
func (e *Envoy) Await(ctx context.Context) error { return e.live(ctx, nil) }

func (e *Envoy) live(ctx context.Context, process model.Running) error {
	return AwaitReady(ctx, "the Envoy in "+e.Where.Name(), process, startTimeout, func(ctx context.Context) error {
		body, err := e.Ask(ctx, "/ready")
		if err == nil && !bytes.HasPrefix(body, []byte("LIVE")) {
			err = errNotLive
		}
		return err
	})
}

// errNotLive says that an Envoy answers, but not that it is live.
var errNotLive = errors.New("it is not live yet")

// Stop ends the process, if there is one, and its connections.
func (e *Envoy) Stop(ctx context.Context) error {
	if e.process == nil {
		return nil
	}
	return errors.Join(e.process.Stop(ctx), AwaitEnds(ctx, e.Where))
}

// Options are what every layer of proxies lets a study set.
type Options struct {
	// Concurrency is the number of worker threads of each proxy.
	Concurrency int `json:"concurrency,omitempty" jsonschema:"minimum=1,maximum=64,default=2"`
	// Path is the program, where it is not to be looked for.
	Path string `json:"path,omitempty"`
	// Source is an image that the program is taken out of.
	oci.Source
	// CPU limits each proxy, in cores; 0 is no limit.
	CPU float64 `json:"cpu,omitempty" jsonschema:"minimum=0"`
	// Memory limits each proxy, in bytes; 0 is no limit.
	Memory uint64 `json:"memory_bytes,omitempty"`
}

// DefaultOptions has Istio's default of two threads.
func DefaultOptions() Options { return Options{Concurrency: 2} }

// Problems are all that is wrong with them.
func (o Options) Problems() error {
	const most = 64
	errs := []error{o.Source.Problems()}
	if o.Path != "" && o.Image != "" {
		errs = append(errs, Bad("image", "and path are two places for one program: set one of them"))
	}
	if o.Concurrency < 1 || o.Concurrency > most {
		errs = append(errs, Bad("concurrency", "is %d; it can be 1 to %d", o.Concurrency, most))
	}
	if o.CPU < 0 {
		errs = append(errs, Bad("cpu", "is %g; it cannot be negative", o.CPU))
	}
	return errors.Join(errs...)
}

// Program gets the program: out of the image, if one is named, else as find finds
// it, which is given the path.
func (o Options) Program(ctx context.Context, find func(explicit string) (string, error)) (oci.Program, error) {
	return o.ProgramFrom(ctx, oci.Usual, find)
}

// ProgramFrom is Program with another cache than the usual one.
func (o Options) ProgramFrom(ctx context.Context, cache func() (oci.Cache, error), find func(explicit string) (string, error)) (oci.Program, error) {
	if o.Image == "" {
		path, err := find(o.Path)
		return oci.Program{Path: path}, err
	}
	c, err := cache()
	if err != nil {
		return oci.Program{}, err
	}
	return c.Get(ctx, o.Source)
}

// Limits are the process's.
func (o Options) Limits() model.Limits { return model.Limits{CPU: o.CPU, Memory: o.Memory} }

// Bad is what is wrong with one key of a configuration.
func Bad(key, format string, a ...any) error {
	return &model.ConfigError{Key: key, Text: fmt.Sprintf(format, a...)}
}

// Duration is a length of time as a study has it: "500ms", "2s".
type Duration string

// Value is its length; at most a day.
func (d Duration) Value() (time.Duration, error) {
	v, err := time.ParseDuration(string(d))
	if err != nil {
		return 0, fmt.Errorf("is %q; it must be a duration such as 500ms or 2s", string(d))
	}
	if v <= 0 || v > 24*time.Hour {
		return 0, fmt.Errorf("is %s; it must be above 0 and at most 24h", d)
	}
	return v, nil
}

// CheckDurations finds what is wrong with durations, by key.
func CheckDurations(keys []string, values []Duration) error {
	var errs []error
	for i, d := range values {
		if _, err := d.Value(); err != nil {
			errs = append(errs, Bad(keys[i], "%s", err.Error()))
		}
	}
	return errors.Join(errs...)
}

// JSON is the duration as Envoy's configuration writes it: in seconds.
func (d Duration) JSON() string {
	v, err := d.Value()
	if err != nil {
		return "" // Check has refused it
	}
	return strconv.FormatFloat(v.Seconds(), 'f', -1, 64) + "s"
}

// Encode writes a configuration as envoy.json has it.
func Encode(config Object) ([]byte, error) {
	b, err := json.MarshalIndent(config, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encoding Envoy's configuration: %w", err)
	}
	return b, nil
}
