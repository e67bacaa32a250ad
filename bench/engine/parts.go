package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// trial is one tool in one part, to be run once a round.
type trial struct {
	part part
	tool string
	run  func(ctx context.Context) (map[metric]float64, error)
}

// plan lists the trials that the tools that were found can do.
func plan(b *bed, found []*tool, window time.Duration) []trial {
	var all []trial
	rates := []struct {
		part
		rate int
	}{{partOpen1k, 1000}, {partOpen10k, 10_000}}
	add := func(p part, t *tool, run func(ctx context.Context) (map[metric]float64, error)) {
		all = append(all, trial{p, t.name, run})
	}
	for _, r := range rates {
		all = append(all, trial{r.part, bareTimer, func(ctx context.Context) (map[metric]float64, error) { return b.timer(ctx, r.rate, window) }})
	}
	for _, t := range found {
		if t.closed != nil {
			add(partFast, t, func(ctx context.Context) (map[metric]float64, error) {
				return b.closed(ctx, t, window, b.fast(ctx, modeHTTP))
			})
			add(partNginx, t, func(ctx context.Context) (map[metric]float64, error) {
				return b.closed(ctx, t, window, b.nginx(ctx))
			})
		}
		if t.open != nil {
			for _, r := range rates {
				add(r.part, t, func(ctx context.Context) (map[metric]float64, error) { return b.open(ctx, t, r.rate, window) })
			}
		}
		if t.open != nil && t.read != nil {
			add(partStall, t, func(ctx context.Context) (map[metric]float64, error) { return b.stalled(ctx, t) })
			add(partAgree, t, func(ctx context.Context) (map[metric]float64, error) { return b.agreement(ctx, t, window) })
		}
		if t.grpc != nil {
			add(partGRPC, t, func(ctx context.Context) (map[metric]float64, error) { return b.grpc(ctx, t, modeGRPC, window) })
			add(partGoGRPC, t, func(ctx context.Context) (map[metric]float64, error) { return b.grpc(ctx, t, modeGo, window) })
		}
	}
	return all
}

// with starts a server for the time of f.
func with(ctx context.Context, start func() (*server, error), f func(*server) (map[metric]float64, error)) (got map[metric]float64, err error) {
	s, err := start()
	if s != nil {
		defer func() { err = errors.Join(err, s.close(ctx)) }()
	}
	if err != nil {
		return nil, err
	}
	return f(s)
}

func (b *bed) closed(ctx context.Context, t *tool, window time.Duration, start func() (*server, error)) (map[metric]float64, error) {
	return with(ctx, start, func(s *server) (map[metric]float64, error) {
		u, err := b.observe(ctx, s, window, t.command(t.closed(s.url, told(window))))
		return u.perRequest(), err
	})
}

func (u *usage) perRequest() map[metric]float64 {
	return map[metric]float64{
		metricQPS: u.requests / u.seconds, metricCPU: u.clientCPU / u.requests, metricRSS: u.rss,
	}
}

// grpc is the closed loop of 32 streams on one connection.
func (b *bed) grpc(ctx context.Context, t *tool, mode string, window time.Duration) (map[metric]float64, error) {
	return with(ctx, b.fast(ctx, mode), func(s *server) (map[metric]float64, error) {
		u, err := b.observe(ctx, s, window, t.command(t.grpc(b.at(portHTTP).String(), told(window))))
		return u.perRequest(), err
	})
}

// open is the open loop against the server that keeps the arrivals.
func (b *bed) open(ctx context.Context, t *tool, rate int, window time.Duration) (map[metric]float64, error) {
	return with(ctx, b.fast(ctx, modeStamps), func(s *server) (map[metric]float64, error) {
		u, err := b.observe(ctx, s, window, t.command(t.open(s.url, rate, told(window))))
		if err != nil {
			return nil, err
		}
		got, is := u.perRequest(), achieved(u.stamps)
		got[metricRate] = is
		got[metricRateError] = math.Abs(is/float64(rate) - 1)
		got[metricDispersion] = dispersion(u.stamps, float64(rate)).Seconds()
		if t.lateness == nil {
			return got, nil
		}
		l, err := t.lateness(u.out)
		got[metricLate50], got[metricLate99] = l.latenessP50.Seconds(), l.latenessP99.Seconds()
		return got, err
	})
}

// agreement is the open loop at 1,000/s against nginx, and before that against
// the fast server, which shows what the tool itself adds.
func (b *bed) agreement(ctx context.Context, t *tool, window time.Duration) (map[metric]float64, error) {
	report := func(start func() (*server, error)) (l latency, failure error) {
		_, failure = with(ctx, start, func(s *server) (map[metric]float64, error) {
			const rate = 1000
			u, err := b.observe(ctx, s, window, t.command(t.open(s.url, rate, told(window))))
			if err == nil {
				l, err = t.read(u.out)
			}
			return nil, err
		})
		return l, failure
	}
	floor, err := report(b.fast(ctx, modeHTTP))
	if err != nil {
		return nil, err
	}
	l, err := report(b.nginx(ctx))
	return map[metric]float64{
		metricFloor50: floor.p50.Seconds(), metricFloor99: floor.p99.Seconds(), metricP50: l.p50.Seconds(), metricP99: l.p99.Seconds(),
	}, err
}

// stalled compares what a tool reports of a stall with what must have been.
func (b *bed) stalled(ctx context.Context, t *tool) (map[metric]float64, error) {
	return with(ctx, b.fast(ctx, modeHTTP), func(s *server) (map[metric]float64, error) {
		d := stallRun
		if t.most > 0 {
			d = min(d, t.most)
		}
		stood, out, err := b.stall(ctx, s, t.command(t.open(s.url, stallRate, d)))
		if err != nil {
			return nil, err
		}
		l, err := t.read(out)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		requests := int(stallRate * d.Seconds())
		if l.requests > 0 {
			requests = l.requests
		}
		p99, p999 := stallTruth(stallRate, requests, stood, 0.99), stallTruth(stallRate, requests, stood, 0.999)
		got := map[metric]float64{
			metricTruth99: p99.Seconds(), metricTruth999: p999.Seconds(),
			metricP99: l.p99.Seconds(), metricError99: math.Abs((l.p99 - p99).Seconds()),
		}
		if l.p999 > 0 {
			got[metricP999], got[metricError999] = l.p999.Seconds(), math.Abs((l.p999 - p999).Seconds())
		}
		return got, nil
	})
}
