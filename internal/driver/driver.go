// Package driver lets other tools send a load: they run in the client's pod, in
// the place of our own engine, and what they print is read into the same result.
//
// A Driver only says what is to be run (pure, and so told by golden tests);
// Execute runs it. A driver refuses what its tool cannot do rather than send
// another load than the study names.
package driver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Driver knows one tool.
type Driver interface {
	// Tool says how the tool is found.
	Tool() Tool
	// Plan says what to run for a load. The error names all that the tool
	// cannot do.
	Plan(j Job) (Run, error)
}

// Tool is a program.
type Tool struct {
	Name     string
	Programs []string // names by which it is looked for, in order
	// Version are the arguments that make it print its version; Mark is in what
	// it then prints, where another tool may have the same name.
	Version []string
	Mark    string
	Other   string // is in what another tool of that name prints
	Hint    string // how to get it
}

// Job is one load for a tool.
type Job struct {
	Load    model.Load
	Targets []netip.AddrPort
	Host    string        // authority that requests carry
	Warmup  time.Duration // before the window
	Program string        // path of the tool
}

// Run is what a job comes to.
type Run struct {
	// Server is the tool's own other end; nil: it talks to the app.
	Server *Server
	// Warmup runs to its end before Main; nil: Main warms up by itself.
	Warmup *model.Process
	Main   model.Process
	// Lead is the time from the start of Main to the opening of the window.
	Lead time.Duration
	// Tail is how much longer than the window Main goes on.
	Tail time.Duration
	// File is what Main writes to its folder and Read reads; empty: its standard
	// output is read.
	File string
	// Loss is an exit status, beside 0, that says no more than that answers are
	// missing.
	Loss int
	// Keep is the name of what was read in the run folder.
	Keep string
	Read func(r io.Reader, about ingest.About) (*model.LoadResult, error)
}

// Server is a program that runs in a server's pod, on a port of its own. It
// says Ready on its standard output when it listens.
type Server struct {
	Process model.Process
	Port    uint16
	Ready   string
}

// RefusedError says that a tool cannot send a load.
type RefusedError struct {
	Tool, Load string
	Err        error
}

// Error says so.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s cannot send load %s: %s", e.Tool, e.Load, strings.ReplaceAll(e.Err.Error(), "\n", "; "))
}

// Unwrap gives what it cannot do.
func (e *RefusedError) Unwrap() error { return e.Err }

// Check collects what a tool cannot do.
type Check struct {
	tool string
	job  *Job
	errs []error
}

// Need begins a check with what no tool can do as our engine does it.
func (j *Job) Need(tool string) *Check {
	c := &Check{tool: tool, job: j}
	l := &j.Load
	p := l.Pattern
	c.Refuse(p.Poisson || p.Burst > 1 || len(p.Segments) > 0 || len(p.Times) > 0, "it sends at a constant rate only; leave the pattern out")
	c.Refuse(len(l.Generators) > 0, "it sends from one pod")
	c.Refuse(l.Coalesce > 0 || l.Spin > 0, "it has no coalesce or spin")
	c.Refuse(len(j.Targets) == 0, "there is no target")
	return c
}

// Refuse notes that something cannot be done, if it is asked for.
func (c *Check) Refuse(asked bool, format string, args ...any) {
	if asked {
		c.errs = append(c.errs, fmt.Errorf(format, args...))
	}
}

// Open and Closed refuse the other arrival.
func (c *Check) Open() {
	c.Refuse(c.job.Load.Arrival != model.ArrivalOpen, "it is an open loop; use model: open")
}

// Closed refuses an open loop.
func (c *Check) Closed() {
	c.Refuse(c.job.Load.Arrival != model.ArrivalClosed,
		"it is a closed loop: it never has more requests under way than connections, and counts from when it sends; use model: closed, with pace: for a rate")
}

// OneTarget refuses several targets.
func (c *Check) OneTarget() {
	c.Refuse(len(c.job.Targets) > 1, "it sends to one address, and the service has %d; put a layer such as nft-service before it, or use one server", len(c.job.Targets))
}

// WholeSeconds rounds up to the seconds that a tool takes.
func WholeSeconds(d time.Duration) string {
	return strconv.Itoa(int(math.Ceil(d.Seconds())))
}

// Err is all that was refused.
func (c *Check) Err() error {
	if len(c.errs) == 0 {
		return nil
	}
	return &RefusedError{c.tool, c.job.Load.Name, errors.Join(c.errs...)}
}

// Request is what an HTTP tool sends.
type Request struct {
	load.HTTPRequest

	Host      string // authority, of the headers if they have one
	Reconnect bool
	Scheme    string
	Target    netip.AddrPort
}

// http is the configuration of HTTP/1.1 loads: what every tool must be able to
// send, but for the last two.
type http struct {
	load.HTTPRequest

	Reconnect bool `json:"reconnect,omitempty"`
	Chunked   int  `json:"chunked,omitempty"`
}

// HTTP reads the request of a load over HTTP/1.1 and refuses all else.
func (c *Check) HTTP() Request {
	l := &c.job.Load
	if l.Protocol != "http1" {
		c.Refuse(true, "it is driven for protocol http1 only, not %s", l.Protocol)
		return Request{}
	}
	var h http
	if err := json.Unmarshal(orEmpty(l.Config), &h); err != nil {
		c.Refuse(true, "the load's configuration: %w", err)
		return Request{}
	}
	if err := h.Fill(); err != nil {
		c.Refuse(true, "the load's configuration: %w", err)
	}
	c.Refuse(h.Chunked > 0, "it sends bodies with their length; leave chunked out")
	r := Request{HTTPRequest: h.HTTPRequest, Host: c.job.Host, Reconnect: h.Reconnect, Scheme: "http"}
	for name, value := range h.Headers {
		if strings.EqualFold(name, "host") {
			r.Host = value
		}
	}
	if l.TLS != nil {
		r.Scheme = "https"
		c.Refuse(!l.TLS.Insecure || l.TLS.ServerName != "" || l.TLS.CA != "", "its TLS is driven with insecure: true only, without server_name and ca")
	}
	if len(c.job.Targets) > 0 {
		r.Target = c.job.Targets[0]
	}
	return r
}

// Config reads what a tool knows of a load's configuration, into a pointer; what
// is in it already is the default. Strictness is the protocol's, which has read it.
func (c *Check) Config(into any) {
	if err := json.Unmarshal(orEmpty(c.job.Load.Config), into); err != nil {
		c.Refuse(true, "the load's configuration: %w", err)
	}
}

func orEmpty(config json.RawMessage) json.RawMessage {
	if len(config) == 0 {
		return json.RawMessage("{}")
	}
	return config
}

// URL is the request's, by address.
func (r *Request) URL() string { return r.Scheme + "://" + r.Target.String() + r.Path }

// Lines are the request's header fields as "name: value", Host first.
func (r *Request) Lines() []string {
	lines := []string{"Host: " + r.Host}
	for _, name := range sorted(r.Headers) {
		if !strings.EqualFold(name, "host") {
			lines = append(lines, name+": "+r.Headers[name])
		}
	}
	return lines
}

// HasBody says whether there is a body.
func (r *Request) HasBody() bool { return len(r.Payload()) > 0 }

// Process is a run of the tool in the client's pod.
func (j *Job) Process(name string, args ...string) model.Process {
	return model.Process{
		Name: name, Component: model.ComponentGenerator, Command: append([]string{j.Program}, args...),
		Piped: true, Exclusive: true,
	}
}

// Ratio makes a rate per second a whole number of requests in a time, as tools
// want it; false where there is none in up to 1,000 s.
func Ratio(rate float64) (requests int, per time.Duration, ok bool) {
	for _, seconds := range []float64{1, 10, 100, 1000} {
		n := rate * seconds
		if whole := math.Round(n); whole >= 1 && whole <= 1e9 && math.Abs(n-whole) < 1e-6*n {
			return int(whole), time.Duration(seconds * float64(time.Second)), true
		}
	}
	return 0, 0, false
}
