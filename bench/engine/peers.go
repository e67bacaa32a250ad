package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// One function a peer, in the words of its own command line.

func wrk(c string) *tool {
	return &tool{
		name: "wrk", program: "wrk", version: []string{"-v"}, build: "apt-get install wrk",
		closed: func(url string, d time.Duration) []string {
			return []string{"-t1", "-c" + c, "-d" + seconds(d) + "s", url}
		},
	}
}

func wrk2(c string) *tool {
	return &tool{
		name: "wrk2", program: "wrk2", version: []string{"-v"}, build: "git clone https://github.com/giltene/wrk2 && make, and name the result wrk2",
		open: func(url string, rate int, d time.Duration) []string {
			return []string{"-t1", "-c" + c, "-d" + seconds(d) + "s", "-R" + strconv.Itoa(rate), "--latency", url}
		},
		read: readWrk2,
		most: 9 * time.Second, // it begins anew after ten
	}
}

// readWrk2 reads the lines " 99.900%  491.00ms" of the distribution.
func readWrk2(out []byte) (l latency, err error) {
	line := regexp.MustCompile(`(?m)^\s*([0-9.]+)%\s+([0-9.]+)(us|ms|s|m)\s*$`)
	for _, m := range line.FindAllStringSubmatch(string(out), -1) {
		d, err := time.ParseDuration(m[2] + m[3])
		if err != nil {
			return l, fmt.Errorf("reading %q: %w", m[0], err)
		}
		switch m[1] {
		case "50.000":
			l.p50 = d
		case "99.000":
			l.p99 = d
		case "99.900":
			l.p999 = d
		}
	}
	if l.p999 == 0 {
		return l, errors.New("it printed no distribution")
	}
	return l, nil
}

func h2load(c, message string) *tool {
	return &tool{
		name: "h2load", program: "h2load", version: []string{"--version"}, build: "apt-get install nghttp2-client",
		closed: func(url string, d time.Duration) []string {
			return []string{"--h1", "-t1", "-c" + c, "-D" + seconds(d), url}
		},
		open: func(url string, rate int, d time.Duration) []string {
			each := strconv.FormatFloat(float64(rate)/connections, 'f', -1, 64)
			return []string{"--h1", "-t1", "-c" + c, "-D" + seconds(d), "--rps=" + each, url}
		},
		grpc: func(addr string, d time.Duration) []string {
			return []string{
				"-t1", "-c1", "-m" + c, "-D" + seconds(d), "-d", message,
				"-H", "content-type: application/grpc", "-H", "te: trailers", "http://" + addr + healthMethod,
			}
		},
	}
}

func fortio(c string) *tool {
	load := func(d time.Duration, more ...string) []string {
		return append([]string{"load", "-quiet", "-t", inSeconds(d), "-p", "50,99,99.9", "-json", "-"}, more...)
	}
	return &tool{
		name: "fortio", program: "fortio", version: []string{"version"}, build: "go install fortio.org/fortio",
		closed: func(url string, d time.Duration) []string { return load(d, "-c", c, "-qps", "0", url) },
		open: func(url string, rate int, d time.Duration) []string {
			return load(d, "-c", c, "-qps", strconv.Itoa(rate), url)
		},
		grpc: func(addr string, d time.Duration) []string {
			return load(d, "-grpc", "-c", "1", "-s", c, "-qps", "0", addr)
		},
		read: readFortio,
	}
}

func readFortio(out []byte) (l latency, err error) {
	var r struct {
		DurationHistogram struct {
			Count       int
			Percentiles []struct{ Percentile, Value float64 }
		}
	}
	if err = fromJSON(out, &r); err != nil {
		return l, err
	}
	l.requests = r.DurationHistogram.Count
	for _, p := range r.DurationHistogram.Percentiles {
		switch p.Percentile {
		case 50:
			l.p50 = fromSeconds(p.Value)
		case 99:
			l.p99 = fromSeconds(p.Value)
		case 99.9:
			l.p999 = fromSeconds(p.Value)
		}
	}
	return l, nil
}

func oha(c string) *tool {
	load := func(d time.Duration, more ...string) []string {
		return append([]string{"--no-tui", "--output-format", "json", "-c", c, "-z", inSeconds(d)}, more...)
	}
	return &tool{
		name: "oha", program: "oha", version: []string{"--version"}, build: "cargo install --locked oha",
		closed: func(url string, d time.Duration) []string { return load(d, url) },
		open: func(url string, rate int, d time.Duration) []string {
			return load(d, "-q", strconv.Itoa(rate), "--latency-correction", url)
		},
		read: func(out []byte) (latency, error) {
			var r struct {
				LatencyPercentiles struct {
					P50  float64 `json:"p50"`
					P99  float64 `json:"p99"`
					P999 float64 `json:"p99.9"`
				} `json:"latencyPercentiles"`
			}
			err := fromJSON(out, &r)
			p := r.LatencyPercentiles
			return latency{p50: fromSeconds(p.P50), p99: fromSeconds(p.P99), p999: fromSeconds(p.P999)}, err
		},
	}
}

// k6Script has both models; the environment says which.
const k6Script = `import http from 'k6/http';
const rate = Number(__ENV.RATE), vus = Number(__ENV.CONNECTIONS);
const open = { executor: 'constant-arrival-rate', rate: rate, timeUnit: '1s', duration: __ENV.DURATION, preAllocatedVUs: vus, maxVUs: vus };
const closed = { executor: 'constant-vus', vus: vus, duration: __ENV.DURATION };
export const options = { scenarios: { load: rate > 0 ? open : closed }, summaryTrendStats: ['p(50)', 'p(99)', 'p(99.9)'] };
export default function () { http.get(__ENV.URL); }
`

func k6(c, script, summary string) *tool {
	load := func(url string, rate int, d time.Duration) []string {
		return []string{
			"run", "--quiet", "--no-usage-report", "--address", "", "--log-output", "none", "--summary-export", summary,
			"-e", "URL=" + url, "-e", "RATE=" + strconv.Itoa(rate), "-e", "CONNECTIONS=" + c, "-e", "DURATION=" + inSeconds(d), script,
		}
	}
	return &tool{
		name: "k6", program: "k6", version: []string{"version"}, build: "go install go.k6.io/k6",
		closed: func(url string, d time.Duration) []string { return load(url, 0, d) },
		open:   load,
	}
}

// vegeta reports from what it has recorded: a pipe of two of its commands.
func vegeta(c string) *tool {
	return &tool{
		name: "vegeta", program: "vegeta", version: []string{"-version"}, build: "https://github.com/tsenart/vegeta",
		open: func(url string, rate int, d time.Duration) []string {
			return []string{url, strconv.Itoa(rate), inSeconds(d), c}
		},
		shell: `echo "GET $1" | "$0" attack -rate="$2" -duration="$3" -connections="$4" | "$0" report -type=json`,
		read:  readVegeta,
	}
}

// readVegeta reads the JSON report, whose times are in nanoseconds.
func readVegeta(out []byte) (l latency, err error) {
	var r struct {
		Requests  int
		Latencies map[string]json.Number
	}
	if err = fromJSON(out, &r); err != nil {
		return l, err
	}
	l.requests = r.Requests
	for name, into := range map[string]*time.Duration{"50th": &l.p50, "99th": &l.p99} {
		ns, err := r.Latencies[name].Int64()
		if err != nil {
			return l, fmt.Errorf("reading its %s percentile: %w", name, err)
		}
		*into = time.Duration(ns)
	}
	return l, nil
}

const (
	healthMethod = "/grpc.health.v1.Health/Check"
	healthProto  = `syntax = "proto3";
package grpc.health.v1;
message HealthCheckRequest { string service = 1; }
message HealthCheckResponse { enum ServingStatus { UNKNOWN = 0; SERVING = 1; NOT_SERVING = 2; } ServingStatus status = 1; }
service Health { rpc Check(HealthCheckRequest) returns (HealthCheckResponse); }
`
)

func ghz(c, proto string) *tool {
	return &tool{
		name: "ghz", program: "ghz", version: []string{"--version"}, build: "go install github.com/bojand/ghz/cmd/ghz",
		grpc: func(addr string, d time.Duration) []string {
			return []string{
				"--insecure", "--proto", proto, "--call", "grpc.health.v1.Health/Check", "-d", "{}",
				"-c", c, "--connections", "1", "-z", inSeconds(d), addr,
			}
		},
	}
}
