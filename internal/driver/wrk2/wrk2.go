// Package wrk2 drives wrk2, an open loop.
package wrk2

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/driver"
	ingest "github.com/windtunnel/windtunnel/internal/ingest/wrk"
	"github.com/windtunnel/windtunnel/internal/model"
)

const (
	// lead is how long wrk2 takes to start.
	lead = 50 * time.Millisecond
	// long is what a load must last for wrk2's calibration of 10 s to be worth
	// waiting for. In a shorter run wrk2 records all.
	long = 10 * time.Second
)

// Driver drives wrk2.
type Driver struct{}

// Plugin is the catalog entry.
func Plugin() model.Plugin[driver.Driver] {
	return model.Plugin[driver.Driver]{
		Name:    ingest.NameWrk2,
		Summary: "wrk2: open loop, response and service times",
		New: func(config json.RawMessage) (driver.Driver, error) {
			return Driver{}, model.ReadConfig(config, &struct{}{})
		},
	}
}

// Tool says how wrk2 is found: its program is called wrk, too.
func (Driver) Tool() driver.Tool {
	return driver.Tool{
		Name: ingest.NameWrk2, Programs: []string{"wrk2", "wrk"}, Version: []string{"--version"}, Mark: "--rate",
		Hint: "build github.com/giltene/wrk2, and give its path as the load's program",
	}
}

// Plan makes wrk2's command, with one thread: the generator has one CPU.
func (Driver) Plan(j driver.Job) (driver.Run, error) {
	c := j.Need(ingest.NameWrk2)
	c.Open()
	c.OneTarget()
	l := &j.Load
	c.Refuse(l.Drop, "it never gives up a request that is due; leave when_blocked out")
	c.Refuse(l.Rate != math.Trunc(l.Rate) || l.Rate < 1, "it takes whole requests per second, not %g/s", l.Rate)
	c.WholeSeconds()
	r := c.HTTP()
	c.Refuse(r.Reconnect, "it keeps its connections; leave reconnect out")
	if err := c.Err(); err != nil {
		return driver.Run{}, err
	}
	process := func(name string, d time.Duration) model.Process {
		p := j.Process(name, "--threads", "1", "--connections", strconv.Itoa(l.Connections), "--duration", driver.WholeSeconds(d)+"s",
			"--rate", strconv.FormatFloat(l.Rate, 'f', 0, 64), "--timeout", driver.WholeSeconds(l.Timeout)+"s",
			"--latency", "--u_latency", "--script", "{dir}/wrk.lua", r.URL())
		p.Files = map[string][]byte{"wrk.lua": []byte(r.Lua())}
		return p
	}
	run := driver.Run{Keep: "wrk2.stdout", Read: ingest.Read}
	if l.Duration >= long {
		run.Lead = ingest.Calibration(l.Connections, 1).Truncate(time.Second) + time.Second
		run.Main = process("wrk2", run.Lead+l.Duration)
		return run, nil
	}
	run.Lead, run.Main = lead, process("wrk2", l.Duration)
	if j.Warmup > 0 {
		warm := process("wrk2-warmup", j.Warmup)
		run.Warmup = &warm
	}
	return run, nil
}
