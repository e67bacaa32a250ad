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
			for _, o := range sk.outcomes {
				if len(o.Stolen) > 0 {
					stolen = append(stolen, o.Stolen)
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
	if diff := cmp.Diff([]float64{0.5, 0.4}, sk.outcomes[0].Stolen, near()); diff != "" {
		t.Errorf("tries that do not count (-want +got):\n%s", diff)
	}
}
