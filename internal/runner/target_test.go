package runner

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/model"
)

// fickle is a target whose sites may be lost.
type fickle struct {
	*target
	lost *model.TargetError // what sites say of themselves; nil: they are there
}

func (f *fickle) Provision(ctx context.Context, t model.Topology) (model.Site, error) {
	s, err := f.target.Provision(ctx, t)
	if err != nil {
		return nil, err
	}
	return &fickleSite{s, f}, nil
}

type fickleSite struct {
	model.Site
	target *fickle
}

func (s *fickleSite) Lost(context.Context) error {
	if s.target.lost == nil {
		return nil
	}
	return s.target.lost
}

func (*fickleSite) Facts() model.Ledger {
	return model.Ledger{{Layer: "kube", Key: "place", Value: "a1", Source: model.SourceConfig}}
}

// breaking is an app that cannot be deployed the first times.
type breaking struct {
	app
	times *int
	then  func()
}

func (b breaking) Deploy(ctx context.Context, s model.Site) (model.Endpoints, error) {
	if *b.times--; *b.times >= 0 {
		return model.Endpoints{}, errors.New("the stream broke")
	}
	b.then()
	return b.app.Deploy(ctx, s)
}

func TestLostTrialsAreRunAgain(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	s, tg, sk := settings(t)
	f := &fickle{tg, &model.TargetError{What: "keeping the site", Why: "a node went away", Lost: true}}
	times := 2
	s.Target, s.App = f, breaking{app{addr: tg.addr}, &times, func() { f.lost = nil }}
	end, err := Run(t.Context(), s)
	if err != nil || !end.Complete || len(sk.outcomes) != len(s.Plan.Trials) {
		t.Fatalf("%v, %s; %d outcomes", err, end.Reason, len(sk.outcomes))
	}
	first := sk.outcomes[0]
	if len(first.Lost) != 2 || first.Failure != nil || !strings.Contains(first.Lost[0].Error, "a node went away") || first.Lost[0].Step != "deploying the app" {
		t.Errorf("lost %+v, failure %+v", first.Lost, first.Failure)
	}
	if len(sk.outcomes[1].Lost) != 0 || first.Ledger[0].Key != "place" {
		t.Errorf("lost %+v, ledger %+v", sk.outcomes[1].Lost, first.Ledger)
	}
	if tg.sites != 0 {
		t.Errorf("%d sites are left", tg.sites)
	}
}

func TestTargetThatStaysAwayEndsTheRun(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	s, tg, sk := settings(t)
	times := 100
	s.Target, s.App = &fickle{tg, &model.TargetError{Why: "gone", Lost: true}}, breaking{app{addr: tg.addr}, &times, func() {}}
	if _, err := Run(t.Context(), s); !errors.Is(err, model.ErrTarget) || len(sk.outcomes) != 0 || times != 100-lostTries {
		t.Errorf("%v; %d outcomes, %d tries", err, len(sk.outcomes), 100-times)
	}
	times = 100
	s.Target = &fickle{target: tg}
	if end, err := Run(t.Context(), s); err != nil || !end.Complete || len(sk.outcomes) != len(s.Plan.Trials) || sk.outcomes[0].Failure == nil {
		t.Errorf("what breaks without the target is an outcome: %v, %d outcomes", err, len(sk.outcomes))
	}
}

func TestClocksThatDiffer(t *testing.T) {
	t.Parallel()
	c := clocks{ahead: []time.Duration{time.Second, -time.Second}, uncertain: time.Millisecond, measured: true}
	starts, err := c.together()
	if err != nil || starts[0]-starts[1] != 2*time.Second.Nanoseconds() {
		t.Errorf("starts %v, %v", starts, err)
	}
	w := model.Window{Start: starts[1], End: starts[1] + 5}
	if got := c.window(1, w); got.Start != starts[0] || got.Duration() != 5 {
		t.Errorf("window %v of %v", got, w)
	}
	if f := c.facts(); len(f) != 1 || !strings.Contains(f[0].Value, "2 generators begin together within 2ms") {
		t.Errorf("facts %+v", f)
	}
	if f := (clocks{ahead: make([]time.Duration, 2)}).facts(); f != nil {
		t.Errorf("of one clock there is nothing to tell: %+v", f)
	}
}

// slow is a sampler whose readings come after three tries.
type slow struct{ tries int }

func (*slow) Sample(_ context.Context, dst []model.Reading) ([]model.Reading, error) {
	return append(dst, model.Reading{At: 50, Subject: "s", Metric: "m", Value: 1}), nil
}

func (s *slow) Settle(ctx context.Context, after int64, dst []model.Reading) ([]model.Reading, error) {
	for s.tries < 3 && ctx.Err() == nil {
		s.tries++
		dst = append(dst, model.Reading{At: 50, Subject: "s", Metric: "m", Value: 1})
	}
	return append(dst, model.Reading{At: after + 7, Subject: "s", Metric: "m", Value: 2}), nil
}

func TestReadingsThatComeLate(t *testing.T) {
	t.Parallel()
	late := &slow{}
	s := newSampling([]model.Sampler{late}, time.Millisecond)
	s.start(t.Context(), model.Window{Start: 100, End: 200})
	series, err := s.stop(t.Context())
	want := []model.Series{{Subject: "s", Metric: "m", At: []int64{50, 207}, Values: []float64{1, 2}}}
	if diff := cmp.Diff(want, series); err != nil || diff != "" || late.tries != 3 {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// meshed is a target that is told of meshes, and counts sites by them.
type meshed struct {
	*target
	in map[string]int
}

func (m *meshed) ProvisionIn(ctx context.Context, t model.Topology, around model.Surroundings) (model.Site, error) {
	names := []string{around.Protocol}
	for _, mesh := range around.Meshes {
		names = append(names, mesh.Name)
	}
	m.in[strings.Join(names, " ")]++
	return m.Provision(ctx, t)
}

// mesh is a layer that needs nothing but its pods to be in the mesh.
type mesh struct{}

func (mesh) Mesh() model.Mesh { return model.Mesh{Name: "m"} }
func (mesh) Deploy(context.Context, model.Site) (func(context.Context) error, error) {
	return func(context.Context) error { return nil }, nil
}

// Sites are made in the meshes of their variant.
func TestSitesAreMadeInMeshes(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	s, tg, _ := settings(t)
	m := &meshed{tg, map[string]int{}}
	s.Target = m
	s.Stack = func(v model.Variant) ([]model.Layer, error) {
		if v.Name == "direct" {
			return nil, nil
		}
		return []model.Layer{mesh{}}, nil
	}
	if end, err := Run(t.Context(), s); err != nil || !end.Complete {
		t.Fatalf("%v, %s", err, end.Reason)
	}
	if diff := cmp.Diff(map[string]int{"http1": 6, "http1 m": 6}, m.in); diff != "" {
		t.Error(diff)
	}
}
