// Package iperf3 drives iperf3: TCP streams and UDP at a fixed rate.
package iperf3

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/driver"
	ingest "github.com/windtunnel/windtunnel/internal/ingest/iperf3"
	"github.com/windtunnel/windtunnel/internal/model"
)

const (
	// port of its server: iperf3's own.
	port = 5201
	// lead is how long iperf3 takes to start and to agree with its server.
	lead = 50 * time.Millisecond
	// longestOmit is what iperf3 can omit at the beginning.
	longestOmit = 60 * time.Second
)

// Driver drives iperf3.
type Driver struct{}

// Plugin is the catalog entry.
func Plugin() model.Plugin[driver.Driver] {
	return model.Plugin[driver.Driver]{
		Name:    ingest.Name,
		Summary: "iperf3: TCP streams, and UDP at a fixed rate",
		New: func(config json.RawMessage) (driver.Driver, error) {
			return Driver{}, model.ReadConfig(config, &struct{}{})
		},
	}
}

// config is the part of the tcp and udp protocols' configuration that iperf3 knows.
type config struct {
	Mode      string  `json:"mode"`
	Direction string  `json:"direction"`
	Block     int     `json:"block"`
	Bitrate   float64 `json:"bitrate"`
	Zerocopy  bool    `json:"zerocopy"`
	SkipCopy  bool    `json:"skip_receive_copy"`
	Size      int     `json:"size"`
}

// Tool says how iperf3 is found.
func (Driver) Tool() driver.Tool {
	return driver.Tool{Name: ingest.Name, Programs: []string{"iperf3"}, Version: []string{"--version"}, Mark: "iperf 3", Hint: "apt-get install iperf3"}
}

// Plan makes the commands of both ends. iperf3 omits its warm-up by itself, in
// whole seconds.
func (d Driver) Plan(j driver.Job) (driver.Run, error) {
	c := j.Need(ingest.Name)
	c.OneTarget()
	l := &j.Load
	var k config
	c.Config(&k)
	c.Refuse(l.Duration%time.Second != 0 || j.Warmup%time.Second != 0 || j.Warmup > longestOmit, "it takes whole seconds: duration is %s, warmup %s", l.Duration, j.Warmup)
	c.Refuse(l.TLS != nil, "it has no TLS")
	var args []string
	switch {
	case l.Protocol == "tcp" && k.Mode == "stream":
		args = stream(k)
	case l.Protocol == "udp" && l.Arrival == model.ArrivalOpen:
		c.Refuse(k.Size <= 0, "it needs to be told the datagrams' size; say size")
		c.Refuse(k.Direction != "" && k.Direction != "up", "its datagrams are driven upwards only")
		// -b is of each stream.
		rate := l.Rate * float64(k.Size) * 8 / float64(max(l.Connections, 1))
		args = []string{"--udp", "--bitrate", strconv.FormatFloat(rate, 'f', 0, 64), "--length", strconv.Itoa(k.Size)}
	default:
		c.Refuse(true, "it is driven for protocol tcp with mode: stream, and protocol udp with model: open, only")
	}
	if err := c.Err(); err != nil {
		return driver.Run{}, err
	}
	args = append([]string{
		"--client", j.Targets[0].Addr().String(), "--port", strconv.Itoa(port), "--json", "--time", driver.WholeSeconds(l.Duration),
		"--omit", driver.WholeSeconds(j.Warmup), "--parallel", strconv.Itoa(l.Connections), "--connect-timeout", strconv.FormatInt(l.Timeout.Milliseconds(), 10),
	}, args...)
	server := model.Process{Name: "iperf3-server", Command: []string{j.Program, "--server", "--one-off", "--forceflush", "--port", strconv.Itoa(port)}}
	return driver.Run{
		Server: &driver.Server{Process: server, Port: port, Ready: "Server listening"},
		Main:   j.Process("iperf3", args...), Lead: lead + j.Warmup, Keep: "iperf3.json", Read: ingest.Read,
	}, nil
}

func stream(k config) []string {
	var args []string
	switch k.Direction {
	case "down":
		args = append(args, "--reverse")
	case "both":
		args = append(args, "--bidir")
	}
	if k.Block > 0 {
		args = append(args, "--length", strconv.Itoa(k.Block))
	}
	if k.Bitrate > 0 {
		args = append(args, "--bitrate", strconv.FormatFloat(k.Bitrate, 'f', 0, 64))
	}
	if k.Zerocopy {
		args = append(args, "--zerocopy")
	}
	if k.SkipCopy {
		args = append(args, "--skip-rx-copy")
	}
	return args
}
