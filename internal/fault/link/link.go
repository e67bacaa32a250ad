// Package link is the fault in which a link between two places becomes another
// one: slower, less even, lossy or narrower.
package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Config is the fault's configuration. What is absent stays as the link has it.
type Config struct {
	A      string `json:"a" jsonschema:"required" jsonschema_description:"One end of a link of the topology: a node, cluster or region."`
	B      string `json:"b" jsonschema:"required" jsonschema_description:"The other end."`
	Delay  string `json:"delay,omitempty" jsonschema_description:"One way, e.g. 200ms; at most 10s."`
	Jitter string `json:"jitter,omitempty" jsonschema_description:"The delay is evenly spread over delay - jitter to delay + jitter; at most 10s."`
	Loss   string `json:"loss,omitempty" jsonschema_description:"Share of packets, e.g. 5%."`
	Rate   string `json:"rate,omitempty" jsonschema_description:"Bits per second, e.g. 10Mbit/s, from 1kbit/s."`
}

// Fault changes a link.
type Fault struct {
	a, b   string
	delay  *time.Duration
	jitter *time.Duration
	loss   *float64
	rate   *uint64
}

var (
	_ model.Fault         = Fault{}
	_ model.FaultObserver = Fault{}
)

// Plugin is the catalog entry.
func Plugin() model.Plugin[model.Fault] {
	return model.Plugin[model.Fault]{
		Name: "link", Summary: "Gives a link another delay, jitter, loss or rate; heal gives it its own again.", Config: Config{}, New: New,
	}
}

// New reads the configuration.
func New(config json.RawMessage) (model.Fault, error) {
	var c Config
	if err := model.ReadConfig(config, &c); err != nil {
		return nil, err
	}
	f := Fault{a: c.A, b: c.B}
	var errs [5]error
	if c.A == "" || c.B == "" {
		errs[0] = errors.New("needs a and b: the ends of a link of the topology")
	}
	f.delay, errs[1] = span("delay", c.Delay)
	f.jitter, errs[2] = span("jitter", c.Jitter)
	f.loss, errs[3] = share("loss", c.Loss)
	f.rate, errs[4] = bitRate("rate", c.Rate)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	if f.delay == nil && f.jitter == nil && f.loss == nil && f.rate == nil {
		return nil, errors.New("changes nothing: give delay, jitter, loss or rate")
	}
	return f, nil
}

// Inject changes the link, both ways.
func (f Fault) Inject(ctx context.Context, s model.Site) (heal func(context.Context) error, err error) {
	changer, ok := s.(model.LinkChanger)
	if !ok {
		return nil, &model.UnsupportedError{What: "the fault link", Missing: "this target has no emulated links"}
	}
	return changer.ChangeLink(ctx, f.a, f.b, f.change)
}

func (f Fault) change(l model.Link) model.Link {
	if f.delay != nil {
		l.Delay = *f.delay
	}
	if f.jitter != nil {
		l.Jitter = *f.jitter
	}
	if f.loss != nil {
		l.Loss = *f.loss
	}
	if f.rate != nil {
		l.Rate = *f.rate
	}
	return l
}

// probes are few: they go beside the load.
const probes = 50

// Observe measures both directions as they are now.
func (f Fault) Observe(ctx context.Context, s model.Site) (model.Ledger, error) {
	changer, ok := s.(model.LinkChanger)
	if !ok {
		return nil, nil
	}
	states, err := changer.ProbeLink(ctx, f.a, f.b, probes)
	if err != nil {
		return nil, err
	}
	var facts model.Ledger
	for _, state := range states {
		fact := state.Fact()
		fact.Layer, fact.Key = "fault", "link "+state.From+" to "+state.To
		facts = append(facts, fact)
	}
	return facts, nil
}

const (
	longest = 10 * time.Second
	percent = 100
	slowest = 1e3  // bits per second
	fastest = 1e12 // bits per second
)

// span reads a time; nil: none was given.
func span(key, text string) (*time.Duration, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // nothing was given, and nothing is wrong
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > longest {
		return nil, &model.ConfigError{Key: key, Text: fmt.Sprintf("is %q; it must be a time such as 200ms, at most %s", text, longest)}
	}
	return &d, nil
}

// share reads a share such as 5%; nil: none was given.
func share(key, text string) (*float64, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // nothing was given, and nothing is wrong
	}
	number, ok := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(v >= 0 && v <= percent) {
		return nil, &model.ConfigError{Key: key, Text: fmt.Sprintf("is %q; it must be a share such as 5%%", text)}
	}
	v /= percent
	return &v, nil
}

var regexRate = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)(kbit|Mbit|Gbit)/s$`)

// bitRate reads a rate such as 10Mbit/s; nil: none was given.
func bitRate(key, text string) (*uint64, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // nothing was given, and nothing is wrong
	}
	v := 0.0
	if m := regexRate.FindStringSubmatch(text); m != nil {
		number, err := strconv.ParseFloat(m[1], 64)
		if err == nil {
			v = number * map[string]float64{"kbit": 1e3, "Mbit": 1e6, "Gbit": 1e9}[m[2]]
		}
	}
	if v < slowest || v > fastest {
		return nil, &model.ConfigError{Key: key, Text: fmt.Sprintf("is %q; it must be bits per second such as 10Mbit/s, from 1kbit/s to 1000Gbit/s", text)}
	}
	rate := uint64(v)
	return &rate, nil
}
