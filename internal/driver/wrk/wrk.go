// Package wrk drives wrk, a closed loop.
package wrk

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/driver"
	ingest "github.com/windtunnel/windtunnel/internal/ingest/wrk"
	"github.com/windtunnel/windtunnel/internal/model"
)

// lead is how long wrk takes to start.
const lead = 50 * time.Millisecond

// Driver drives wrk.
type Driver struct{}

// Plugin is the catalog entry.
func Plugin() model.Plugin[driver.Driver] {
	return model.Plugin[driver.Driver]{
		Name:    ingest.Name,
		Summary: "wrk: closed loop; the whole distribution",
		New: func(config json.RawMessage) (driver.Driver, error) {
			return Driver{}, model.ReadConfig(config, &struct{}{})
		},
	}
}

// Tool says how wrk is found.
func (Driver) Tool() driver.Tool {
	return driver.Tool{Name: ingest.Name, Programs: []string{"wrk"}, Version: []string{"--version"}, Mark: "wrk ", Other: "--rate", Hint: "apt-get install wrk"}
}

// Plan makes wrk's command, with one thread: the generator has one CPU.
func (Driver) Plan(j driver.Job) (driver.Run, error) {
	c := j.Need(ingest.Name)
	c.Closed()
	c.OneTarget()
	l := &j.Load
	c.Refuse(l.Think > 0 || l.Pace > 0, "it has no think time and no pace; wrk2 has a rate")
	c.WholeSeconds()
	r := c.HTTP()
	c.Refuse(r.Reconnect, "it keeps its connections; leave reconnect out")
	if err := c.Err(); err != nil {
		return driver.Run{}, err
	}
	script := []byte(r.Lua() + ingest.Script)
	process := func(name string, d time.Duration) model.Process {
		p := j.Process(name, "--threads", "1", "--connections", strconv.Itoa(l.Connections), "--duration", driver.WholeSeconds(d)+"s",
			"--timeout", driver.WholeSeconds(l.Timeout)+"s", "--latency", "--script", "{dir}/wrk.lua", r.URL())
		p.Files = map[string][]byte{"wrk.lua": script}
		return p
	}
	run := driver.Run{Main: process("wrk", l.Duration), Lead: lead, Keep: "wrk.stdout", Read: ingest.Read}
	if j.Warmup > 0 {
		warm := process("wrk-warmup", j.Warmup)
		run.Warmup = &warm
	}
	return run, nil
}
