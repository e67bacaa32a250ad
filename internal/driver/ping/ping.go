// Package ping drives iputils' ping.
package ping

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/driver"
	ingest "github.com/windtunnel/windtunnel/internal/ingest/ping"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Times that ping sends before and after the window; answers that come then are
// cut off by their time stamps.
const (
	start = 100 * time.Millisecond
	tail  = 100 * time.Millisecond
	// shortest interval, in milliseconds, that ping keeps.
	shortest = time.Millisecond
)

// Driver drives ping.
type Driver struct{}

// Plugin is the catalog entry.
func Plugin() model.Plugin[driver.Driver] {
	return model.Plugin[driver.Driver]{
		Name:    ingest.Name,
		Summary: "iputils ping: ICMP echo",
		New: func(config json.RawMessage) (driver.Driver, error) {
			return Driver{}, model.ReadConfig(config, &struct{}{})
		},
	}
}

// config is the part of the icmp protocol's configuration that ping knows.
type config struct {
	Size int `json:"size"`
}

// Tool says how ping is found.
func (Driver) Tool() driver.Tool {
	return driver.Tool{Name: ingest.Name, Programs: []string{"ping"}, Version: []string{"-V"}, Mark: "iputils", Hint: "apt-get install iputils-ping"}
}

// Plan makes ping's command.
func (Driver) Plan(j driver.Job) (driver.Run, error) {
	c := j.Need(ingest.Name)
	c.Open()
	c.OneTarget()
	l := &j.Load
	k := config{Size: 56}
	c.Config(&k)
	c.Refuse(l.Protocol != "icmp", "it is driven for protocol icmp only, not %s", l.Protocol)
	c.Refuse(l.Connections != 1, "it is one connection")
	interval := time.Duration(float64(time.Second) / max(l.Rate, 1e-3)) //nolint:mnd // the slowest that makes sense
	c.Refuse(interval%shortest != 0, "its interval is in whole milliseconds, and %g/s is one in %s", l.Rate, interval)
	c.Refuse(k.Size < 16 || k.Size > 65507, "a size of %d bytes leaves no room for its time stamp, or fits no packet", k.Size)
	if err := c.Err(); err != nil {
		return driver.Run{}, err
	}
	lead := start + j.Warmup
	all := lead + l.Duration + tail
	p := j.Process("ping", "-n", "-D", "-i", strconv.FormatFloat(interval.Seconds(), 'f', 3, 64), "-s", strconv.Itoa(k.Size),
		"-c", strconv.FormatInt(int64(all/interval)+1, 10), "-W", strconv.FormatFloat(l.Timeout.Seconds(), 'f', 3, 64), j.Targets[0].Addr().String())
	return driver.Run{Main: p, Lead: lead, Tail: tail + l.Timeout, Keep: "ping.stdout", Loss: 1, Read: ingest.Read}, nil
}
