package runner

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

const cores = 2

// robbed is a target on a host from which, of each try at a trial, a share of
// all CPUs' time is stolen.
type robbed struct {
	*target
	shares []float64 // of one try after the other; none: nothing
	tries  int
}

func (r *robbed) Provision(ctx context.Context, t model.Topology) (model.Site, error) {
	s, err := r.target.Provision(ctx, t)
	if err != nil {
		return nil, err
	}
	share := 0.0
	if r.tries < len(r.shares) {
		share = r.shares[r.tries]
	}
	r.tries++
	return &robbedSite{s, share}, nil
}

type robbedSite struct {
	model.Site
	share float64
}

func (s *robbedSite) Samplers() []model.Sampler { return []model.Sampler{thief(s.share)} }
func (*robbedSite) Unavailable() []string       { return nil }

// thief reads stolen time that grows evenly.
type thief float64

func (f thief) Sample(_ context.Context, dst []model.Reading) ([]model.Reading, error) {
	now, err := load.Monotonic()
	return append(dst, model.Reading{At: now, Subject: model.SubjectHost, Metric: model.SampleSteal, Value: float64(f) * cores * time.Duration(now).Seconds()}), err
}

// near compares shares that were sampled.
func near() cmp.Option {
	return cmp.Comparer(func(a, b float64) bool { return max(a-b, b-a) < 0.05 })
}

func TestStolenTrialsAreRunAgain(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	tests := map[string]struct {
		shares []float64
		stolen [][]float64 // of the trials that were run again
		tries  int         // beyond one a trial
	}{
		"nothing":              {nil, nil, 0},
		"little":               {[]float64{0.2}, nil, 0},
		"once":                 {[]float64{0.5, 0.1}, [][]float64{{0.5}}, 1},
		"the second was worse": {[]float64{0.4, 0.6, 0.5}, [][]float64{{0.6, 0.5}}, 2},
		"always":               {[]float64{0.5, 0.4, 0.6, 0.7, 0.8}, [][]float64{{0.5, 0.6}}, 2}, // of few trials two may be run again
	}
	for name, tt := range tests { //nolint:paralleltest // as above
		t.Run(name, func(t *testing.T) {
			s, tg, sk := settings(t)
			s.Plan.Trials = s.Plan.Trials[:3]
			r := &robbed{target: tg, shares: tt.shares}
			s.Target, s.Cores = r, cores
			end, err := Run(t.Context(), s)
			if err != nil || !end.Complete || len(sk.outcomes) != len(s.Plan.Trials) {
				t.Fatalf("%v, %s; %d outcomes", err, end.Reason, len(sk.outcomes))
			}
			var stolen [][]float64
			for i := range sk.outcomes {
				if shares := stolenFrom(&sk.outcomes[i]); shares != nil {
					stolen = append(stolen, shares)
				}
			}
			if diff := cmp.Diff(tt.stolen, stolen, near()); diff != "" {
				t.Errorf("tries that do not count (-want +got):\n%s", diff)
			}
			if r.tries != len(s.Plan.Trials)+tt.tries || tg.sites != 0 {
				t.Errorf("%d tries, %d sites are left", r.tries, tg.sites)
			}
		})
	}
}

// The try that counts is the least disturbed, of at most three.
func TestLeastStolenTryCounts(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	s, tg, sk := settings(t)
	r := &robbed{target: tg, shares: []float64{0.5, 0.3, 0.4, 0.9}}
	s.Target, s.Cores = r, cores
	if _, err := Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]float64{0.5, 0.4}, stolenFrom(&sk.outcomes[0]), near()); diff != "" {
		t.Errorf("tries that do not count (-want +got):\n%s", diff)
	}
}

// What earlier sessions have tried again counts for all of a run.
func TestTriesOfEarlierSessionsCount(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	s, tg, sk := settings(t)
	s.Plan.Trials = s.Plan.Trials[:2]
	s.Finished = []model.Outcome{{Trial: s.Plan.Trials[0], Disturbed: make([]model.Disturbance, 2)}}
	r := &robbed{target: tg, shares: []float64{0.5, 0.1}}
	s.Target, s.Cores = r, cores
	if _, err := Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if r.tries != 1 || len(sk.outcomes) != 1 || sk.outcomes[0].Disturbed != nil {
		t.Errorf("%d tries at a trial when none was left", r.tries)
	}
}

// stolenFrom are the shares that were stolen from tries that do not count.
func stolenFrom(o *model.Outcome) (shares []float64) {
	for _, d := range o.Disturbed {
		shares = append(shares, d.Stolen)
	}
	return shares
}

// moved is a placement that ends each load at one distance after the other, and
// begins all at the same.
type moved struct {
	after   []time.Duration
	settled int
}

const usually = 20 * time.Nanosecond

func (m *moved) Settle(context.Context) (time.Duration, error) {
	m.settled++
	return usually, nil
}

func (m *moved) Distance() time.Duration {
	if len(m.after) == 0 {
		return usually
	}
	d := m.after[0]
	m.after = m.after[1:]
	return d
}

// A trial whose CPUs are moved is run again; a try in one place counts, and
// where each try was is kept.
func TestTrialsOfMovedCPUsAreRunAgain(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	s, tg, sk := settings(t)
	s.Plan.Trials = s.Plan.Trials[:2]
	far := 130 * time.Nanosecond
	m := &moved{after: []time.Duration{far, usually + 5, usually - 5}}
	s.Placement = m
	if _, err := Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	want := []model.Outcome{
		{CPUs: model.CPUDistance{Before: usually, After: usually + 5}, Disturbed: []model.Disturbance{{CPUs: model.CPUDistance{Before: usually, After: far}}}},
		{CPUs: model.CPUDistance{Before: usually, After: usually - 5}},
	}
	for i, w := range want {
		if diff := cmp.Diff(w.CPUs, sk.outcomes[i].CPUs); diff != "" {
			t.Errorf("trial %d (-want +got):\n%s", i+1, diff)
		}
		if diff := cmp.Diff(w.Disturbed, sk.outcomes[i].Disturbed); diff != "" {
			t.Errorf("tries of trial %d that do not count (-want +got):\n%s", i+1, diff)
		}
	}
	if m.settled != 3 || tg.sites != 0 {
		t.Errorf("%d tries, %d sites are left", m.settled, tg.sites)
	}
}
