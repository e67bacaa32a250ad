// Package k6 drives k6.
package k6

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/windtunnel/windtunnel/internal/driver"
	ingest "github.com/windtunnel/windtunnel/internal/ingest/k6"
	"github.com/windtunnel/windtunnel/internal/model"
)

// script sends what options.json and load.json say.
//
//go:embed load.js
var script []byte

// Times that k6 sends before and after the window; it takes long to start, and
// what it sends outside the window is cut off by its points' time stamps.
const (
	start = 1500 * time.Millisecond
	tail  = 250 * time.Millisecond
)

// Driver drives k6 run.
type Driver struct{}

// Plugin is the catalog entry.
func Plugin() model.Plugin[driver.Driver] {
	return model.Plugin[driver.Driver]{
		Name:    ingest.Name,
		Summary: "k6: open loop that drops, or virtual users; every request",
		New: func(config json.RawMessage) (driver.Driver, error) {
			return Driver{}, model.ReadConfig(config, &struct{}{})
		},
	}
}

// Tool says how k6 is found.
func (Driver) Tool() driver.Tool {
	return driver.Tool{
		Name: ingest.Name, Programs: []string{"k6"}, Version: []string{"version"},
		Hint: "go install go.k6.io/k6@v1.8.1, and give its path as the load's program",
	}
}

// settings are what the script reads.
type settings struct {
	Options map[string]any    `json:"options"`
	Method  string            `json:"method"`
	URLs    []string          `json:"urls"`
	Headers map[string]string `json:"headers"`
	Body    bool              `json:"body"`
	Timeout string            `json:"timeout"`
	Think   float64           `json:"think_s"`
}

// Plan makes a script and its settings: virtual users have a connection each.
func (Driver) Plan(j driver.Job) (driver.Run, error) {
	c := j.Need(ingest.Name)
	l := &j.Load
	c.Refuse(l.Pace > 0, "its virtual users are not paced; use model: open")
	c.Refuse(l.Arrival == model.ArrivalOpen && !l.Drop, "it drops what is due when no virtual user is free; say when_blocked: drop")
	r := c.HTTP()
	times, per, ok := driver.Ratio(l.Rate)
	c.Refuse(l.Arrival == model.ArrivalOpen && !ok, "%g/s is no whole number of requests in up to 1,000 s", l.Rate)
	if err := c.Err(); err != nil {
		return driver.Run{}, err
	}
	lead := start + j.Warmup
	scenario := map[string]any{"duration": (lead + l.Duration + tail).String(), "gracefulStop": l.Timeout.String()}
	if l.Arrival == model.ArrivalOpen {
		scenario["executor"], scenario["rate"], scenario["timeUnit"] = "constant-arrival-rate", times, per.String()
		scenario["preAllocatedVUs"], scenario["maxVUs"] = l.Connections, l.Connections
	} else {
		scenario["executor"], scenario["vus"] = "constant-vus", l.Connections
	}
	s := settings{
		Method: r.Method, Headers: map[string]string{}, Body: r.HasBody(), Timeout: l.Timeout.String(), Think: l.Think.Seconds(),
		Options: map[string]any{
			"discardResponseBodies": true, "systemTags": []string{"status", "error_code"}, "maxRedirects": 0,
			"noConnectionReuse": r.Reconnect, "insecureSkipTLSVerify": l.TLS != nil, "scenarios": map[string]any{"load": scenario},
		},
	}
	maps.Copy(s.Headers, r.Headers)
	s.Headers["Host"] = r.Host
	for _, addr := range j.Targets {
		r.Target = addr
		s.URLs = append(s.URLs, r.URL())
	}
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return driver.Run{}, fmt.Errorf("writing k6's settings: %w", err)
	}
	p := j.Process("k6", "run", "--quiet", "--no-usage-report", "--no-thresholds", "--no-color", "--summary-mode=disabled", "--address=",
		"--log-output=none", "--out=csv={dir}/points.csv.gz", "{dir}/load.js")
	p.Env = []string{"K6_CSV_TIME_FORMAT=unix_nano", "HOME={dir}"}
	p.Files = map[string][]byte{"load.js": script, "settings.json": text, "body": r.Payload()}
	return driver.Run{Main: p, Lead: lead, Tail: tail + l.Timeout, File: "points.csv.gz", Keep: "k6.csv.gz", Read: ingest.Read}, nil
}
