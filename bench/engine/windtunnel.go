package main

import (
	"fmt"
	"strconv"
	"time"
)

// windtunnel is our own program, called as anybody would call it.
func windtunnel(c, program string) *tool {
	load := func(url string, d time.Duration, more ...string) []string {
		// No warm-up: the peers have none, and in the stall every request counts.
		return append([]string{"load", url, "--json", "--connections", c, "--warmup", "0s", "--duration", inSeconds(d)}, more...)
	}
	return &tool{
		name: ours, program: program, version: []string{"--version"},
		closed: func(url string, d time.Duration) []string { return load(url, d) },
		open: func(url string, rate int, d time.Duration) []string {
			return load(url, d, "--rate", strconv.Itoa(rate))
		},
		grpc: func(addr string, d time.Duration) []string {
			// The last flag wins: one connection, with as many streams.
			return append(load("grpc://"+addr+healthMethod, d), "--connections", "1", "--set", "streams="+c)
		},
		read: readWindtunnel,
	}
}

func readWindtunnel(out []byte) (l latency, err error) {
	type quantiles struct {
		P50  float64  `json:"p50_ms"`
		P99  float64  `json:"p99_ms"`
		P999 *float64 `json:"p99_9_ms"` // null where there are too few requests for it
	}
	var r struct {
		Due, Sent, Succeeded int
		Response             quantiles
		Generator            struct{ Lateness quantiles }
	}
	if err = fromJSON(out, &r); err != nil {
		return l, err
	}
	const most = 0.01 // that a busy machine may leave unsent at the end; its response times are then still those of the rest
	if r.Succeeded == 0 || float64(r.Due-r.Succeeded) > most*float64(r.Due) {
		return l, fmt.Errorf("of %d requests, %d have succeeded", r.Due, r.Succeeded)
	}
	in := func(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
	l = latency{
		requests: r.Due, p50: in(r.Response.P50), p99: in(r.Response.P99),
		latenessP50: in(r.Generator.Lateness.P50), latenessP99: in(r.Generator.Lateness.P99),
	}
	if r.Response.P999 != nil {
		l.p999 = in(*r.Response.P999)
	}
	return l, nil
}
