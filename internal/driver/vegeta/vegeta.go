// Package vegeta drives vegeta.
package vegeta

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/driver"
	ingest "github.com/windtunnel/windtunnel/internal/ingest/vegeta"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Times that vegeta sends before and after the window; what it sends then is
// cut off by its requests' time stamps.
const (
	start = 250 * time.Millisecond
	tail  = 250 * time.Millisecond
)

// Driver drives vegeta attack.
type Driver struct{}

// Plugin is the catalog entry.
func Plugin() model.Plugin[driver.Driver] {
	return model.Plugin[driver.Driver]{
		Name:    ingest.Name,
		Summary: "vegeta: open loop; every request",
		New: func(config json.RawMessage) (driver.Driver, error) {
			return Driver{}, model.ReadConfig(config, &struct{}{})
		},
	}
}

// Tool says how vegeta is found.
func (Driver) Tool() driver.Tool {
	return driver.Tool{
		Name: ingest.Name, Programs: []string{"vegeta"}, Version: []string{"-version"},
		Hint: "see github.com/tsenart/vegeta, and give its path as the load's program",
	}
}

// target is a line of vegeta's JSON targets.
type target struct {
	Method string              `json:"method"`
	URL    string              `json:"url"`
	Body   []byte              `json:"body,omitempty"`
	Header map[string][]string `json:"header"`
}

// Plan makes vegeta's command. Connections are bounded, workers are not: a
// request that waits for a connection then counts from when it was due.
func (Driver) Plan(j driver.Job) (driver.Run, error) {
	c := j.Need(ingest.Name)
	c.Open()
	l := &j.Load
	c.Refuse(l.Drop, "it never gives up a request that is due; leave when_blocked out")
	r := c.HTTP()
	times, per, ok := driver.Ratio(l.Rate)
	c.Refuse(!ok, "%g/s is no whole number of requests in up to 1,000 s", l.Rate)
	if err := c.Err(); err != nil {
		return driver.Run{}, err
	}
	var targets bytes.Buffer
	lines := json.NewEncoder(&targets) // of plain values into memory: cannot fail
	for _, addr := range j.Targets {
		t := target{Method: r.Method, Body: r.Payload(), Header: map[string][]string{}}
		r.Target = addr
		t.URL = r.URL()
		for _, line := range r.Lines() {
			name, value, _ := strings.Cut(line, ": ")
			t.Header[name] = []string{value}
		}
		if err := lines.Encode(t); err != nil {
			return driver.Run{}, fmt.Errorf("writing vegeta's targets: %w", err)
		}
	}
	n := strconv.Itoa(l.Connections)
	lead := start + j.Warmup
	args := []string{
		"attack", "-format=json", "-targets={dir}/targets.json", "-output={dir}/results.gob", "-rate=" + strconv.Itoa(times) + "/" + per.String(),
		"-duration=" + (lead + l.Duration + tail).String(), "-timeout=" + l.Timeout.String(),
		"-connections=" + n, "-max-connections=" + n, "-redirects=-1", "-max-body=0", "-http2=false",
	}
	if r.Reconnect {
		args = append(args, "-keepalive=false")
	}
	if l.TLS != nil {
		args = append(args, "-insecure")
	}
	p := j.Process("vegeta", args...)
	p.Files = map[string][]byte{"targets.json": targets.Bytes()}
	return driver.Run{Main: p, Lead: lead, Tail: tail, File: "results.gob", Keep: "vegeta.gob", Read: ingest.Read}, nil
}
