package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/flow"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// Loads that are not made of HTTP requests. Each tool brings its own server.

const (
	block    = 128 << 10 // bytes that one write hands to the kernel
	datagram = 1448      // bytes of payload
	ping     = 64        // bytes of payload
)

// planStreams lists the trials of streams and datagrams; the tools are ours,
// iperf3 and sockperf.
func planStreams(b *bed, found []*tool, window time.Duration) []trial {
	addr := b.at(portStream)
	port := strconv.Itoa(portStream)
	ip := addr.Addr().String()
	var all []trial
	for _, t := range found {
		echo := b.peerServer(t, "echo", "--listen", addr.String())
		add := func(p part, run func(context.Context) (map[metric]float64, error)) {
			all = append(all, trial{p, t.name, run})
		}
		switch t.name {
		case ours:
			add(partTCP, b.tcp(t, echo, window, "load", "tcp://"+addr.String(), "--stream", "--set", "block="+strconv.Itoa(block),
				"--connections", "1", "--warmup", "0s", "--duration", inSeconds(told(window)), "--json", bedDecides))
			add(partUDP, b.udp(t, echo, "load", "udp://"+addr.String(), "--bitrate", "300Mbit/s", "--size", strconv.Itoa(datagram),
				"--connections", "1", "--warmup", "0s", "--duration", inSeconds(told(window)), "--json", bedDecides))
			add(partPing, b.pingPong(t, echo, "load", "udp://"+addr.String(), "--set", "mode=request", "--request-size", strconv.Itoa(ping),
				"--response-size", strconv.Itoa(ping), "--connections", "1", "--warmup", "0s", "--duration", inSeconds(window), "--json", bedDecides))
		case "iperf3":
			add(partTCP, b.tcp(t, b.peerServer(t, "-s", "-B", ip, "-p", port), window,
				"-c", ip, "-p", port, "-t", seconds(told(window)), "-l", strconv.Itoa(block)))
		case "sockperf":
			add(partPing, b.pingPong(t, b.peerServer(t, "server", "-i", ip, "-p", port),
				"ping-pong", "-i", ip, "-p", port, "-t", seconds(window), "-m", strconv.Itoa(ping), "--full-rtt"))
		}
	}
	return all
}

// peerServer starts a tool as the server of itself.
func (b *bed) peerServer(t *tool, args ...string) func(context.Context) (*server, error) {
	return func(ctx context.Context) (*server, error) {
		p, err := b.start(serverSide, false, t.command(args)...)
		if err != nil {
			return nil, err
		}
		s := &server{process: p, close: func(ctx context.Context) error { return b.end(ctx, p) }}
		return s, sys.Sleep(ctx, settle) // it is not asked whether it listens: iperf3 would take that for a test
	}
}

// tcp is a bulk transfer from the client to the server.
func (b *bed) tcp(t *tool, start func(context.Context) (*server, error), window time.Duration, args ...string) func(context.Context) (map[metric]float64, error) {
	return func(ctx context.Context) (map[metric]float64, error) {
		return with(ctx, func() (*server, error) { return start(ctx) }, func(s *server) (map[metric]float64, error) {
			u, err := b.observe(ctx, s, window, t.command(args))
			gb := u.bytes / 1e9
			return map[metric]float64{
				metricGbit: u.bytes * 8 / u.seconds, metricClientGB: u.clientCPU / gb, metricServerGB: u.serverCPU / gb,
				metricBothGB: (u.clientCPU + u.serverCPU) / gb,
			}, err
		})
	}
}

// pause is for how long the receiver of datagrams is stopped, so that there is
// something to lose: its socket overflows while its interface goes on counting.
const pause = 300 * time.Millisecond

// udp is a flow of datagrams at a fixed rate, to a receiver that is stopped
// once. What the tool counts as lost must be what it sent, less what the
// receiver's interface has counted and its socket has not dropped.
func (b *bed) udp(t *tool, start func(context.Context) (*server, error), args ...string) func(context.Context) (map[metric]float64, error) {
	return func(ctx context.Context) (map[metric]float64, error) {
		return with(ctx, func() (*server, error) { return start(ctx) }, func(s *server) (map[metric]float64, error) {
			before, err := b.traffic()
			if err != nil {
				return nil, err
			}
			out, err := b.interrupted(ctx, s, t.command(args))
			if err != nil {
				return nil, err
			}
			after, err := b.traffic()
			if err != nil {
				return nil, err
			}
			return judgeFlow(out, traffic{bytes: after.bytes - before.bytes, packets: after.packets - before.packets})
		})
	}
}

// interrupted runs a tool and stops the server once in the middle.
func (b *bed) interrupted(ctx context.Context, s *server, argv []string) (out []byte, err error) {
	client, err := b.start(clientSide, false, argv...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.end(ctx, client)) }()
	if err = b.flowing(ctx, client); err != nil {
		return nil, err
	}
	err = s.Signal(stop)
	err = errors.Join(err, sys.Sleep(ctx, pause), s.Signal(goOn))
	if err != nil {
		return nil, err
	}
	if err = client.wait(ctx, patience); err != nil {
		return nil, err
	}
	if code := client.ExitCode(); code != 0 {
		return nil, fmt.Errorf("%s ended with status %d: %s", client.name, code, client.said())
	}
	return client.out.Bytes(), nil
}

// judgeFlow compares what our program says of a flow with what the receiver's
// interface has received in all. A flow without warm-up is all of the window.
func judgeFlow(out []byte, arrived traffic) (map[metric]float64, error) {
	var r struct {
		Datagrams struct {
			Sent     float64
			Received float64
			Lost     float64
			Drops    float64 `json:"socket_drops"`
		}
	}
	if err := fromJSON(out, &r); err != nil {
		return nil, err
	}
	d := r.Datagrams
	came, ok := arrived.ofFlow()
	if d.Sent == 0 || !ok {
		return nil, fmt.Errorf("%.0f datagrams were sent, and the receiver's interface had %.0f packets of %.0f bytes: more than the flow and its control packets", d.Sent, arrived.packets, arrived.bytes)
	}
	return map[metric]float64{
		metricSent: d.Sent, metricCounted: d.Received, metricArrived: came, metricDropped: d.Drops, metricLoss: d.Lost / d.Sent,
		metricMiscounted: math.Abs(d.Lost - (d.Sent - (came - d.Drops))),
	}, nil
}

// Bytes on the wire besides a datagram's payload (Ethernet, IPv4, UDP), and of
// an ARP packet.
const (
	headers = 14 + 20 + 8
	arp     = 14 + 28
)

// ofFlow is how many of the packets were the flow's datagrams. The others are
// few and of three known sizes, none of which fits into the sum of bytes in
// another number, so that packets and bytes together tell exactly.
func (t traffic) ofFlow() (datagrams float64, ok bool) {
	const most = 64
	for others := range most {
		datagrams = t.packets - float64(others)
		if isControl(int(t.bytes-datagrams*(datagram+headers)), others) {
			return datagrams, true
		}
	}
	return 0, false
}

// isControl says whether so many bytes can be that many control packets.
func isControl(bytes, packets int) bool {
	for asks := range packets + 1 {
		for begins := range packets - asks + 1 {
			if asks*(flow.AccountSize+headers)+begins*(flow.BeginSize+headers)+(packets-asks-begins)*arp == bytes {
				return true
			}
		}
	}
	return false
}

// pingPong is one request at a time.
func (b *bed) pingPong(t *tool, start func(context.Context) (*server, error), args ...string) func(context.Context) (map[metric]float64, error) {
	return func(ctx context.Context) (map[metric]float64, error) {
		return with(ctx, func() (*server, error) { return start(ctx) }, func(*server) (map[metric]float64, error) {
			client, err := b.start(clientSide, false, t.command(args)...)
			if err != nil {
				return nil, err
			}
			err = client.wait(ctx, patience)
			if err = errors.Join(err, b.end(ctx, client)); err != nil {
				return nil, err
			}
			l, err := t.read(client.out.Bytes())
			if err != nil {
				return nil, fmt.Errorf("%w; it said: %s", err, client.said())
			}
			return map[metric]float64{metricP50: l.p50.Seconds(), metricP99: l.p99.Seconds()}, nil
		})
	}
}

func iperf3() *tool {
	return &tool{name: "iperf3", program: "iperf3", version: []string{"--version"}, build: "apt-get install iperf3"}
}

func sockperf() *tool {
	return &tool{name: "sockperf", program: "sockperf", version: []string{"--version"}, build: "apt-get install sockperf", read: readSockperf}
}

// readSockperf reads the lines "---> percentile 99.000 = 123.456", in microseconds.
func readSockperf(out []byte) (l latency, err error) {
	line := regexp.MustCompile(`percentile (50|99)\.0+ += +([0-9.]+)`)
	for _, m := range line.FindAllStringSubmatch(string(out), -1) {
		us, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return l, fmt.Errorf("reading %q: %w", m[0], err)
		}
		d := time.Duration(us * float64(time.Microsecond))
		if m[1] == "50" {
			l.p50 = d
		} else {
			l.p99 = d
		}
	}
	if l.p99 == 0 {
		return l, errors.New("it printed no percentiles")
	}
	return l, nil
}
