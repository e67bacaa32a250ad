// Package h2load drives h2load over HTTP/1.1.
package h2load

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/driver"
	ingest "github.com/windtunnel/windtunnel/internal/ingest/h2load"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Times that h2load sends before and after the window; what it sends then is
// cut off by its log's time stamps.
const (
	start = 250 * time.Millisecond
	tail  = 250 * time.Millisecond
)

// Driver drives h2load.
type Driver struct{}

// Plugin is the catalog entry.
func Plugin() model.Plugin[driver.Driver] {
	return model.Plugin[driver.Driver]{
		Name:    ingest.Name,
		Summary: "h2load over HTTP/1.1: closed loop, paced or not; every request",
		New: func(config json.RawMessage) (driver.Driver, error) {
			return Driver{}, model.ReadConfig(config, &struct{}{})
		},
	}
}

// Tool says how h2load is found.
func (Driver) Tool() driver.Tool {
	return driver.Tool{Name: ingest.Name, Programs: []string{"h2load"}, Version: []string{"--version"}, Hint: "apt-get install nghttp2-client"}
}

// Plan makes h2load's command, with one thread: the generator has one CPU.
func (Driver) Plan(j driver.Job) (driver.Run, error) {
	c := j.Need(ingest.Name)
	c.Closed()
	c.OneTarget()
	l := &j.Load
	c.Refuse(l.Think > 0, "it has no think time")
	r := c.HTTP()
	c.Refuse(r.Reconnect, "it keeps its connections; leave reconnect out")
	c.Refuse(r.HasBody() && r.Method == http.MethodGet, "it sends no body with GET")
	if err := c.Err(); err != nil {
		return driver.Run{}, err
	}
	lead := start + j.Warmup
	args := []string{
		"--h1", "--threads=1", "--clients=" + strconv.Itoa(l.Connections), "--duration=" + millis(lead+l.Duration+tail),
		"--connection-inactivity-timeout=" + millis(l.Timeout), "--log-file={dir}/requests.log",
		"--header=:authority: " + r.Host, "--header=:method: " + r.Method,
	}
	for _, line := range r.Lines()[1:] {
		args = append(args, "--header="+line)
	}
	if l.Pace > 0 {
		args = append(args, "--rps="+strconv.FormatFloat(l.Pace/float64(l.Connections), 'f', -1, 64))
	}
	p := j.Process("h2load", args...)
	p.Files = map[string][]byte{"requests.log": nil}
	if r.HasBody() {
		p.Files["body"] = r.Payload()
		p.Command = append(p.Command, "--data={dir}/body")
	}
	p.Command = append(p.Command, r.URL())
	return driver.Run{Main: p, Lead: lead, Tail: tail, File: "requests.log", Keep: "h2load.log", Read: ingest.Read}, nil
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }
