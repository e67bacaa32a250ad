// Package fortio drives Fortio.
package fortio

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/driver"
	ingest "github.com/windtunnel/windtunnel/internal/ingest/fortio"
	"github.com/windtunnel/windtunnel/internal/model"
)

// resolution of Fortio's histogram, in seconds: its default of 1 ms hides all
// that happens on a LAN; its buckets are then exact to 10 us up to 100 us, to a
// tenth to a fifth of the value up to 1 s.
const resolution = "0.00001"

// lead is how long Fortio takes to start.
const lead = 50 * time.Millisecond

// Driver drives fortio load.
type Driver struct{}

// Plugin is the catalog entry.
func Plugin() model.Plugin[driver.Driver] {
	return model.Plugin[driver.Driver]{
		Name:    ingest.Name,
		Summary: "Fortio: closed loop, paced or not; latencies in buckets",
		New: func(config json.RawMessage) (driver.Driver, error) {
			return Driver{}, model.ReadConfig(config, &struct{}{})
		},
	}
}

// Tool says how fortio is found.
func (Driver) Tool() driver.Tool {
	return driver.Tool{
		Name: ingest.Name, Programs: []string{"fortio"}, Version: []string{"version"},
		Hint: "go install fortio.org/fortio@v1.63.0, and give its path as the load's program",
	}
}

// Plan makes fortio's command. Its warm-up is a run of its own: Fortio gives no
// times of requests by which it could be cut off.
func (Driver) Plan(j driver.Job) (driver.Run, error) {
	c := j.Need(ingest.Name)
	c.Closed()
	c.OneTarget()
	l := &j.Load
	c.Refuse(l.Think > 0, "it has no think time")
	r := c.HTTP()
	if err := c.Err(); err != nil {
		return driver.Run{}, err
	}
	args := []string{
		"load", "-json", "-", "-loglevel", "Error", "-log-errors=false", "-allow-initial-errors", "-p", "50,75,90,99,99.9",
		"-r", resolution, "-c", strconv.Itoa(l.Connections), "-qps", strconv.FormatFloat(l.Pace, 'f', -1, 64), "-timeout", l.Timeout.String(),
	}
	if l.Pace > 0 {
		args = append(args, "-uniform") // connections take turns; it catches up when late, as our pace does
	}
	if r.Reconnect {
		args = append(args, "-keepalive=false")
	}
	if l.TLS != nil {
		args = append(args, "-k")
	}
	for _, line := range r.Lines() {
		args = append(args, "-H", line)
	}
	var files map[string][]byte
	if r.HasBody() {
		files = map[string][]byte{"body": r.Payload()}
		args = append(args, "-payload-file", "{dir}/body")
	}
	if r.Method != http.MethodGet {
		args = append(args, "-X", r.Method)
	}
	process := func(name string, d time.Duration) model.Process {
		p := j.Process(name, append(append([]string(nil), args...), "-t", d.String(), r.URL())...)
		p.Files = files
		return p
	}
	run := driver.Run{Main: process("fortio", l.Duration), Lead: lead, Keep: "fortio.json", Read: ingest.Read}
	if j.Warmup > 0 {
		warm := process("fortio-warmup", j.Warmup)
		run.Warmup = &warm
	}
	return run, nil
}
