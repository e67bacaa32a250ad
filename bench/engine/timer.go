package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/sys"
)

// bareTimer is what the machine itself can do: a thread that sleeps until each
// point of the grid (clock_nanosleep, absolute) and does nothing else. A load
// generator that sleeps cannot be less late than this, and where this is late
// the core was not idle.
const bareTimer = "bare timer"

// commandTimer is what this program is called with to be it.
const commandTimer = "timer"

// timerSays is what the bare timer prints.
type timerSays struct {
	P50 time.Duration `json:"p50_ns"`
	P99 time.Duration `json:"p99_ns"`
}

func runTimer(rate, duration string, out io.Writer) error {
	perSecond, err := strconv.Atoi(rate)
	if err != nil {
		return fmt.Errorf("reading the timer's rate: %w", err)
	}
	d, err := time.ParseDuration(duration)
	if err != nil {
		return fmt.Errorf("reading the timer's duration: %w", err)
	}
	late, err := sleepOnGrid(time.Second/time.Duration(perSecond), d)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(timerSays{
		P50: time.Duration(quantile(late, 0.5)), P99: time.Duration(quantile(late, 0.99)),
	})
}

// sleepOnGrid says how late each wake-up was, in ns. It stays on the grid: who
// wakes up after the next point is late for that one, too.
func sleepOnGrid(every, d time.Duration) ([]float64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := sys.ExactTimers(); err != nil {
		return nil, err
	}
	late := make([]float64, 0, d/every)
	start := sys.Monotonic() + int64(every)
	for due := start; due < start+int64(d); due += int64(every) {
		if err := sys.SleepUntil(due); err != nil {
			return nil, err
		}
		late = append(late, float64(sys.Monotonic()-due))
	}
	return late, nil
}

// timer runs the bare timer where the clients run.
func (b *bed) timer(ctx context.Context, rate int, window time.Duration) (got map[metric]float64, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	p, err := b.start(clientSide, false, self, commandTimer, strconv.Itoa(rate), window.String())
	if err != nil {
		return nil, err
	}
	if err = errors.Join(p.wait(ctx, window+patience), b.end(ctx, p)); err != nil {
		return nil, err
	}
	var says timerSays
	err = fromJSON(p.out.Bytes(), &says)
	return map[metric]float64{metricLate50: says.P50.Seconds(), metricLate99: says.P99.Seconds()}, err
}
