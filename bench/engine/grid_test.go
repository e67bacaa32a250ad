package main

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/placement"
)

// grid is n arrivals, each moved by what move says.
func grid(n int, rate float64, move func(k int) time.Duration) []int64 {
	const phase = 1_700_000_000_123_456_789
	at := make([]int64, n)
	for k := range at {
		at[k] = phase + int64(float64(k)/rate*1e9) + int64(move(k))
	}
	return at
}

func TestDispersion(t *testing.T) {
	t.Parallel()
	const rate = 1000.0
	tests := []struct {
		name string
		at   []int64
		want time.Duration
	}{
		{"none", nil, 0},
		{"on the grid", grid(1000, rate, func(int) time.Duration { return 0 }), 0},
		{"all late by as much", grid(1000, rate, func(int) time.Duration { return time.Second }), 0},
		{"every tenth late", grid(1000, rate, func(k int) time.Duration { return time.Duration(k%10/9) * 300 * time.Microsecond }), 300 * time.Microsecond},
		{"one in 200 late", grid(1000, rate, func(k int) time.Duration { return time.Duration(k%200/199) * 300 * time.Microsecond }), 0},
		{"in tens", grid(1000, rate, func(k int) time.Duration { return -time.Duration(k%10) * time.Millisecond }), 5 * time.Millisecond},
		// 1 % too slow drifts by 10 us each request: 10 ms in all, 5 to either side.
		{"too slow", grid(1000, rate/1.01, func(int) time.Duration { return 0 }), 4945 * time.Microsecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			slices.Reverse(tt.at) // the order in which they were kept does not matter
			if got := dispersion(tt.at, rate); (got - tt.want).Abs() > 10*time.Microsecond {
				t.Errorf("dispersion = %s, want %s", got, tt.want)
			}
		})
	}
}

func TestAchieved(t *testing.T) {
	t.Parallel()
	if got := achieved(grid(501, 250, func(int) time.Duration { return 0 })); math.Abs(got-250) > 1e-6 {
		t.Errorf("achieved = %g, want 250", got)
	}
}

func TestStallTruth(t *testing.T) {
	t.Parallel()
	// 10,000 requests, one a millisecond: a hundred are above p99, so it is the
	// 101st longest wait, and p99.9 the 11th.
	for q, want := range map[float64]time.Duration{0.99: 400 * time.Millisecond, 0.999: 490 * time.Millisecond, 0.5: 0} {
		if got := stallTruth(1000, 10_000, 500*time.Millisecond, q); (got - want).Abs() > time.Microsecond {
			t.Errorf("true quantile %g = %s, want %s", q, got, want)
		}
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	f := newFigures(3)
	at := func(tool string) figure { return figure{partFast, tool, metricCPU} }
	for round, v := range [][2]float64{{3, 4}, {6, 6}, {3, 5}} {
		f.record(round, at(ours), v[0])
		f.record(round, at("wrk"), v[1])
	}
	tests := []struct {
		name    string
		budget  budget
		missing []string
		want    verdict
		absent  bool
	}{
		{"the median of ratios holds", budget{ours: at(ours), peer: "wrk", limit: 0.80, show: us}, nil, held, false},
		{"it does not", budget{ours: at(ours), peer: "wrk", limit: 0.70, show: us}, nil, missed, false},
		{"no peer", budget{ours: at(ours), peer: "fortio", limit: 0.70, show: us}, []string{"fortio"}, notMeasured, true},
		{"a peer that failed", budget{ours: at(ours), peer: "fortio", limit: 0.70, show: us}, nil, notMeasured, false},
		{"at least", budget{ours: at(ours), peer: "wrk", limit: 0.70, atLeast: true, show: us}, nil, held, false},
		{"without a peer", budget{ours: at(ours), limit: 2, show: us}, nil, missed, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.budget.judge(f, tt.missing); got.verdict != tt.want || got.absent != tt.absent {
				t.Errorf("judge = %s, absent %t; want %s, %t", got.verdict, got.absent, tt.want, tt.absent)
			}
		})
	}
}

func TestMissesByChance(t *testing.T) {
	t.Parallel()
	b := budget{limit: 1}
	for _, tt := range []struct {
		hold, miss int
		want       verdict
		rounds     string
	}{
		{0, 0, notMeasured, ""},
		{0, 1, missed, ""},
		{1, 2, missed, "1 of 3 rounds"}, // too few for the test
		{0, 4, missed, "0 of 4 rounds"},
		{0, 5, missed, "0 of 5 rounds"},
		{1, 4, undecided, "1 of 5 rounds"},
		{2, 3, undecided, "2 of 5 rounds"},
		{3, 2, held, "3 of 5 rounds"},
		{1, 8, missed, "1 of 9 rounds"},
		{2, 7, undecided, "2 of 9 rounds"},
	} {
		if v, rounds := b.rule(slices.Concat(slices.Repeat([]float64{1}, tt.hold), slices.Repeat([]float64{1.1}, tt.miss))); v != tt.want || rounds != tt.rounds {
			t.Errorf("%d rounds hold, %d miss: %s, %q", tt.hold, tt.miss, v, rounds)
		}
	}
}

func TestAgreement(t *testing.T) {
	t.Parallel()
	const us = 1e-6
	f := newFigures(3)
	for round := range 3 {
		jitter := float64(round) * 10 * us          // so the rounds are 20 us apart
		for tool, v := range map[string][2]float64{ // against the fast server, and nginx
			ours: {80, 100}, "oha": {75, 115}, "vegeta": {80, 130}, "wrk2": {980, 1010}, "late": {980, 1150}, "early": {70, 50},
		} {
			f.record(round, figure{partAgree, tool, metricFloor50}, v[0]*us)
			f.record(round, figure{partAgree, tool, metricP50}, v[1]*us+jitter)
		}
	}
	f.failed[figure{part: partAgree, tool: "broken"}] = "it broke"
	for peer, want := range map[string]line{
		"oha":    {verdict: held, quotient: "15 us apart, less the 0 us that it adds"},
		"vegeta": {verdict: missed, quotient: "30 us apart, less the 0 us that it adds"},
		"early":  {verdict: missed, quotient: "50 us apart, less the 0 us that it adds"},
		"wrk2":   {verdict: held, quotient: "10 us apart, less the 900 us that it adds"},
		"late":   {verdict: missed, quotient: "150 us apart, less the 900 us that it adds"},
		"broken": {verdict: notMeasured, quotient: "-", why: "it broke"},
		"absent": {verdict: notMeasured, quotient: "-", why: "absent was not found", absent: true},
	} {
		got := agreement{"p50", metricP50, metricFloor50, peer}.judge(f, []string{"absent"})
		if got.verdict != want.verdict || got.quotient != want.quotient || got.why != want.why || got.absent != want.absent {
			t.Errorf("%s: %+v", peer, got)
		}
	}
}

// A core that was idle in too few rounds does not decide where more were run.
func TestIdleInFewRounds(t *testing.T) {
	t.Parallel()
	f := newFigures(6)
	at := figure{partOpen1k, ours, metricLate99}
	floor := at
	floor.tool = bareTimer
	for round := range 6 {
		f.record(round, at, 3)
		f.record(round, floor, 2+float64(round%3)) // within 2.5 in two of six
	}
	b := budget{ours: at, limit: 2.5, onIdle: true, show: us}
	if got := b.judge(f, nil); got.verdict != undecided || got.rounds != "0 of 2 rounds" {
		t.Errorf("%+v", got)
	}
}

// realMachine is a host whose CPUs stay where they are.
type realMachine struct{}

func (realMachine) CPUDistance() time.Duration                { return 0 }
func (realMachine) Rest(context.Context, time.Duration) error { return nil }

func TestBrokenTriesAreRunAgain(t *testing.T) {
	t.Parallel()
	breaking := func(times int) trial {
		n := 0
		return trial{part: partOpen1k, tool: ours, run: func(context.Context) (map[metric]float64, error) {
			if n++; n <= times {
				return nil, errors.New("requests went unsent")
			}
			return map[metric]float64{metricCPU: float64(n)}, nil
		}}
	}
	tries := partOpen1k.bears().tries
	f := newFigures(1)
	var err error
	if f.place, err = placement.New(t.Context(), realMachine{}); err != nil {
		t.Fatal(err)
	}
	if got, err := f.undisturbed(t.Context(), breaking(tries-1), 0); err != nil || got[metricCPU] != float64(tries) || f.repeated != tries-1 {
		t.Errorf("%v, %v after %d repetitions", got, err, f.repeated)
	}
	if got, err := f.undisturbed(t.Context(), breaking(tries), 0); err == nil || got != nil {
		t.Errorf("%v of tries that all broke", got)
	}
	once := breaking(1)
	once.tool = "k6" // decides nothing
	if _, err := f.undisturbed(t.Context(), once, 0); err == nil {
		t.Error("a tool that decides no budget was run again")
	}
}

func TestHistogramBudget(t *testing.T) {
	t.Parallel()
	if got := histogramError(); got <= 0 || got > maxHistogramError {
		t.Errorf("histogram's error = %g, want above 0 and at most %g", got, maxHistogramError)
	}
	if !mergesExactly() {
		t.Error("merged histograms differ from the whole")
	}
}
