// Package cpu is the fault in which something else uses up the CPUs that a pod
// or a node has: a neighbour, a runaway process.
package cpu

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Command is the hidden command that the burning processes are.
const Command = "burn-cpu"

// Config is the fault's configuration.
type Config struct {
	Pods    []string `json:"pods,omitempty" jsonschema_description:"Pods to burn in, by name."`
	Nodes   []string `json:"nodes,omitempty" jsonschema_description:"Nodes to burn in, by name."`
	Threads int      `json:"threads,omitempty" jsonschema:"minimum=1,maximum=256,default=1" jsonschema_description:"Threads in each of them, each of which takes all the CPU time that it gets."`
}

const maxThreads = 256

// Fault burns. One value is for one injection.
type Fault struct {
	config  Config
	mu      sync.Mutex
	burners []*burner
}

// burner is one process.
type burner struct {
	where   string
	process model.Running
	answers *bufio.Reader
}

// Usage is what a burning process says of itself.
type Usage struct {
	CPU time.Duration `json:"cpu_ns"` // used since it began
	At  time.Duration `json:"at_ns"`  // since it began
}

var (
	_ model.Fault         = (*Fault)(nil)
	_ model.FaultObserver = (*Fault)(nil)
)

// Plugin is the catalog entry.
func Plugin() model.Plugin[model.Fault] {
	return model.Plugin[model.Fault]{
		Name: "cpu", Summary: "Threads that take all the CPU time that pods or nodes give them; heal ends them.", Config: Config{}, New: New,
	}
}

// New reads the configuration.
func New(config json.RawMessage) (model.Fault, error) {
	f := &Fault{config: Config{Threads: 1}}
	if err := model.ReadConfig(config, &f.config); err != nil {
		return nil, err
	}
	var errs []error
	if len(f.config.Pods)+len(f.config.Nodes) == 0 {
		errs = append(errs, errors.New("names nothing: give pods or nodes"))
	}
	if n := f.config.Threads; n < 1 || n > maxThreads {
		errs = append(errs, &model.ConfigError{Key: "threads", Text: fmt.Sprintf("is %d; it can be 1 to %d", n, maxThreads)})
	}
	return f, errors.Join(errs...)
}

// Inject starts a process in each place, and returns when all of them burn.
func (f *Fault) Inject(ctx context.Context, s model.Site) (heal func(context.Context) error, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.burners = nil
	places, err := f.places(s)
	if err != nil {
		return nil, err
	}
	heal = func(ctx context.Context) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.stop(ctx)
	}
	for _, p := range places {
		b, err := start(ctx, p, f.config.Threads)
		if err != nil {
			return nil, errors.Join(err, f.stop(context.WithoutCancel(ctx)))
		}
		f.burners = append(f.burners, b)
	}
	return heal, nil
}

// place is where a process can be started.
type place struct {
	name string
	to   model.Starter
}

func (f *Fault) places(s model.Site) ([]place, error) {
	var all []place
	var errs []error
	for _, name := range f.config.Pods {
		pod, err := s.Pod(name)
		errs = append(errs, err)
		all = append(all, place{"pod " + name, pod})
	}
	nodes, ok := s.(model.NodeSite)
	if !ok && len(f.config.Nodes) > 0 {
		return nil, unsupported()
	}
	for _, name := range f.config.Nodes {
		node, err := nodes.Node(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		to, ok := node.(model.Starter)
		if !ok {
			return nil, unsupported()
		}
		all = append(all, place{"node " + name, to})
	}
	return all, errors.Join(errs...)
}

func unsupported() error {
	return &model.UnsupportedError{What: "the fault cpu on nodes", Missing: "this target's nodes have no room for processes", Hint: "name pods"}
}

func start(ctx context.Context, p place, threads int) (*burner, error) {
	running, err := p.to.Start(ctx, model.Process{
		Name: Command, Component: model.ComponentFault, Command: []string{"{self}", Command, strconv.Itoa(threads)}, Piped: true,
	})
	if err != nil {
		return nil, fmt.Errorf("burning CPU time in %s: %w", p.name, err)
	}
	b := &burner{where: p.name, process: running, answers: bufio.NewReader(running.Stream())}
	if _, err := b.ask(); err != nil {
		return nil, errors.Join(err, running.Stop(context.WithoutCancel(ctx)))
	}
	return b, nil
}

// ask how much it has used. An answer says too that it burns.
func (b *burner) ask() (u Usage, err error) {
	if _, err = io.WriteString(b.process.Stream(), "\n"); err == nil {
		var line []byte
		if line, err = b.answers.ReadBytes('\n'); err == nil {
			err = json.Unmarshal(line, &u)
		}
	}
	if err != nil {
		err = fmt.Errorf("asking what burns CPU time in %s: %w", b.where, err)
	}
	return u, err
}

func (f *Fault) stop(ctx context.Context) error {
	var errs []error
	for _, b := range f.burners {
		errs = append(errs, b.process.Stop(ctx))
	}
	f.burners = nil
	return errors.Join(errs...)
}

// Observe looks for a fifth of a second how much CPU time they get.
func (f *Fault) Observe(ctx context.Context, _ model.Site) (model.Ledger, error) {
	const look = 200 * time.Millisecond
	f.mu.Lock()
	defer f.mu.Unlock()
	before, err := f.usages()
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(look)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	after, err := f.usages()
	if err != nil {
		return nil, err
	}
	var facts model.Ledger
	for i, b := range f.burners {
		cores := (after[i].CPU - before[i].CPU).Seconds() / (after[i].At - before[i].At).Seconds()
		facts = append(facts, model.Fact{
			Layer: "fault", Key: "CPU time taken in " + b.where, Source: model.SourceCounters,
			Value: fmt.Sprintf("asked %d threads; observed %.2f cores", f.config.Threads, cores),
		})
	}
	return facts, nil
}

func (f *Fault) usages() ([]Usage, error) {
	var all []Usage
	for _, b := range f.burners {
		u, err := b.ask()
		if err != nil {
			return nil, err
		}
		all = append(all, u)
	}
	return slices.Clip(all), nil
}
