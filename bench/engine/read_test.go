package main

import (
	"testing"
	"time"
)

// What the tools print, cut down to what is read.
func TestRead(t *testing.T) {
	t.Parallel()
	const msec = time.Millisecond
	tests := []struct {
		tool *tool
		out  string
		want latency
	}{
		{
			wrk2("32"), "  Latency Distribution (HdrHistogram - Recorded Latency)\n 50.000%  640.00us\n 75.000%    0.92ms\n 99.000%  405.25ms\n 99.900%    1.02s \n100.000%    1.10s \n",
			latency{p50: 640 * time.Microsecond, p99: 405*msec + 250*time.Microsecond, p999: 1020 * msec},
		},
		{
			fortio("32"), `{"DurationHistogram":{"Count":9000,"Percentiles":[{"Percentile":50,"Value":0.0005},{"Percentile":99,"Value":0.25},{"Percentile":99.9,"Value":0.5}]}}`,
			latency{requests: 9000, p50: msec / 2, p99: 250 * msec, p999: 500 * msec},
		},
		{oha("32"), `{"summary":{},"latencyPercentiles":{"p50":0.0005,"p99":0.25,"p99.9":0.5}}`, latency{p50: msec / 2, p99: 250 * msec, p999: 500 * msec}},
		{vegeta("32"), `{"latencies":{"total":1,"50th":500000,"99th":250000000},"requests":3000}`, latency{requests: 3000, p50: msec / 2, p99: 250 * msec}},
		{
			sockperf(), "sockperf: ---> percentile 99.900 =  300.000\nsockperf: ---> percentile 99.000 =   210.500\nsockperf: ---> percentile 50.000 =   67.000\n",
			latency{p50: 67 * time.Microsecond, p99: 210500},
		},
		{
			windtunnel("32", "w", ""), `{"due":10,"succeeded":10,"response":{"p50_ms":0.5,"p99_ms":250,"p99_9_ms":null},"generator":{"lateness":{"p50_ms":0.04,"p99_ms":0.2}}}`,
			latency{requests: 10, p50: msec / 2, p99: 250 * msec, latenessP50: 40 * time.Microsecond, latenessP99: 200 * time.Microsecond},
		},
	}
	for _, tt := range tests {
		t.Run(tt.tool.name, func(t *testing.T) {
			t.Parallel()
			got, err := tt.tool.read([]byte(tt.out))
			if got != tt.want || (err != nil) != (tt.want == latency{}) {
				t.Errorf("read = %+v, %v; want %+v", got, err, tt.want)
			}
			if _, err := tt.tool.read([]byte("it broke\n")); err == nil {
				t.Error("no error for what is no result")
			}
		})
	}
}

func TestVersionIn(t *testing.T) {
	t.Parallel()
	for out, want := range map[string]string{
		"wrk debian/4.1.0-3+b2 [epoll] Copyright": "4.1.0-3+b2",
		"k6 v1.8.1 (go1.26.8, linux/amd64)":       "1.8.1",
		"h2load nghttp2/1.52.0":                   "1.52.0",
		"1.63.0\n":                                "1.63.0",
		"dev\n":                                   "dev",
	} {
		if got := versionIn(out); got != want {
			t.Errorf("version in %q = %q, want %q", out, got, want)
		}
	}
}

// A client's first flight, cut at every place: the answers are the same.
func TestGRPCFeed(t *testing.T) {
	t.Parallel()
	in := []byte(preface)
	in = appendFrame(in, frameSettings, 0, 0, nil)
	for _, stream := range []uint32{1, 3} {
		in = appendFrame(in, frameHeaders, flagEndHeaders, stream, []byte{0x83})
		in = appendFrame(in, frameData, flagEndStream, stream, []byte{0, 0, 0, 0, 0})
	}
	a := newGRPCAnswer()
	_, want := (&grpcConn{}).feed(in, a, nil)
	for cut := range in {
		c := &grpcConn{}
		first, out := c.feed(in[:cut], a, nil)
		second, out := c.feed(in[cut:], a, out)
		if first+second != 2 || string(out) != string(want) {
			t.Fatalf("cut at %d: %d requests, %d bytes; want 2 and %d", cut, first+second, len(out), len(want))
		}
	}
}

// Flows with begins of 64 bytes, questions of 512, and ARP, in every small number.
func TestOfFlow(t *testing.T) {
	t.Parallel()
	const flowed = 56_061
	for begins := range 4 {
		for asks := range 6 {
			for arps := range 3 {
				arrived := traffic{
					packets: float64(flowed + begins + asks + arps),
					bytes:   float64(flowed*(datagram+headers) + begins*(64+headers) + asks*(512+headers) + arps*arp),
				}
				if got, ok := arrived.ofFlow(); !ok || got != flowed {
					t.Errorf("%d begins, %d questions, %d of ARP: %g, %t; want %d", begins, asks, arps, got, ok, flowed)
				}
			}
		}
	}
	if got, ok := (traffic{packets: 1000, bytes: 1_400_001}).ofFlow(); ok {
		t.Errorf("of packets of other sizes, %g were taken for the flow's", got)
	}
}
