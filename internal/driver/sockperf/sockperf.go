// Package sockperf drives sockperf: round trips over UDP or TCP.
package sockperf

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/driver"
	ingest "github.com/windtunnel/windtunnel/internal/ingest/sockperf"
	"github.com/windtunnel/windtunnel/internal/model"
)

const (
	// port of its server: sockperf's own.
	port = 11111
	// ownWarmup and ownEnd are what sockperf itself leaves out of its run.
	ownWarmup = 400 * time.Millisecond
	ownEnd    = 50 * time.Millisecond
	// lead is how long sockperf takes to start.
	lead = 50 * time.Millisecond
	// smallest message: sockperf's header.
	smallest = 14
)

// Driver drives sockperf ping-pong and under-load.
type Driver struct{}

// Plugin is the catalog entry.
func Plugin() model.Plugin[driver.Driver] {
	return model.Plugin[driver.Driver]{
		Name:    ingest.Name,
		Summary: "sockperf: round trips over UDP or TCP, one connection",
		New: func(config json.RawMessage) (driver.Driver, error) {
			return Driver{}, model.ReadConfig(config, &struct{}{})
		},
	}
}

// config is the part of the tcp and udp protocols' configuration that sockperf knows.
type config struct {
	Mode     string `json:"mode"`
	Request  int    `json:"request"`
	Response int    `json:"response"`
}

// Tool says how sockperf is found.
func (Driver) Tool() driver.Tool {
	return driver.Tool{Name: ingest.Name, Programs: []string{"sockperf"}, Version: []string{"--version"}, Mark: "sockperf", Hint: "apt-get install sockperf"}
}

// Plan makes the commands of both ends: ping-pong for a closed loop of one
// connection, under-load for a rate.
func (Driver) Plan(j driver.Job) (driver.Run, error) {
	c := j.Need(ingest.Name)
	c.OneTarget()
	l := &j.Load
	k := config{Request: 64}
	c.Config(&k)
	if k.Response == 0 {
		k.Response = k.Request
	}
	c.Refuse(l.Protocol != "tcp" && l.Protocol != "udp" || k.Mode != "" && k.Mode != "request", "it is driven for protocols tcp and udp with mode: request only")
	c.Refuse(l.Connections != 1, "it is driven with one connection only")
	c.Refuse(k.Request != k.Response || k.Request < smallest, "its answers are as long as its requests, at least %d bytes; not %d and %d", smallest, k.Request, k.Response)
	c.Refuse(l.Think > 0 || l.Pace > 0 || l.Drop, "it has no think time, no pace, and drops nothing")
	c.Refuse(l.TLS != nil, "it has no TLS")
	c.Refuse(l.Arrival == model.ArrivalOpen && (l.Rate < 1 || l.Rate != math.Trunc(l.Rate)), "it takes whole messages per second, not %g", l.Rate)
	if err := c.Err(); err != nil {
		return driver.Run{}, err
	}
	var tcp []string
	if l.Protocol == "tcp" {
		tcp = []string{"--tcp"}
	}
	mode := []string{"ping-pong"}
	if l.Arrival == model.ArrivalOpen {
		mode = []string{"under-load", "--mps", strconv.FormatFloat(l.Rate, 'f', 0, 64), "--reply-every", "1"}
	}
	addr := j.Targets[0].Addr().String()
	where := append([]string{"--ip", addr, "--port", strconv.Itoa(port)}, tcp...)
	process := func(name string, d time.Duration) model.Process {
		args := append(append([]string(nil), mode...), where...)
		args = append(args, "--msg-size", strconv.Itoa(k.Request), "--time", driver.WholeSeconds(ownWarmup+d+ownEnd), "--full-rtt", "--full-log", "{dir}/packets.csv")
		p := j.Process(name, args...)
		p.Files = map[string][]byte{"packets.csv": nil}
		return p
	}
	server := model.Process{Name: "sockperf-server", Command: append([]string{"stdbuf", "-oL", j.Program, "server"}, where...)}
	run := driver.Run{
		Server: &driver.Server{Process: server, Port: port, Ready: "to block on socket"},
		Main:   process("sockperf", l.Duration), Lead: lead + ownWarmup, File: "packets.csv", Keep: "sockperf.csv", Read: ingest.Read,
	}
	if j.Warmup > ownWarmup {
		warm := process("sockperf-warmup", j.Warmup)
		run.Warmup = &warm
	}
	return run, nil
}
