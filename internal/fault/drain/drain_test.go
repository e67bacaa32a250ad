package drain_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fault/drain"
	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestMain(m *testing.M) {
	labtest.Main(m, labtest.Commands{labtest.CommandServe: labtest.Serve})
}

// The suite's site has no layers: nobody is told, and the server ends at once.
func TestConformance(t *testing.T) {
	t.Parallel()
	labtest.Fault(t, labtest.FaultSuite{Plugin: drain.Plugin(), Cases: map[string]labtest.FaultCase{
		"stop": {Config: `{"pods": ["server-1"], "stop": "0s"}`, Unreachable: []string{"server-1"}},
	}})
}

// site has one pod, whose end is noted, as what its layer does.
type site struct {
	model.Site

	pod *pod
}

func (s site) Topology() model.Topology      { return labtest.Topology(1) }
func (s site) Pod(string) (model.Pod, error) { return s.pod, nil }

type pod struct {
	model.Pod

	happened chan string
	err      error
}

func (p *pod) Suspend(context.Context) (func(context.Context) error, error) {
	return nil, errors.New("not asked for")
}

func (p *pod) Kill(_ context.Context, power bool) (func(context.Context) error, error) {
	if power || p.err != nil {
		return nil, errors.Join(p.err, errors.New("not killed"))
	}
	p.happened <- "killed"
	return func(context.Context) error { p.happened <- "revived"; return nil }, nil
}

type layer struct {
	model.Layer

	pod *pod
	err error
}

func (l layer) Drain(_ context.Context, _ model.Site, pods []string) (int, func(context.Context) error, error) {
	if l.err != nil {
		return 0, nil, l.err
	}
	l.pod.happened <- "drained " + strings.Join(pods, " ")
	return 2, func(context.Context) error { l.pod.happened <- "undrained"; return nil }, nil
}

type other struct{ model.Layer }

// onStack injects into a stack of two layers, of which one holds endpoints.
func onStack(t *testing.T, config string, p *pod, l layer) (model.Fault, func(context.Context) error, error) {
	t.Helper()
	on, ok := labtest.New(t, drain.Plugin(), config).(model.StackFault)
	if !ok {
		t.Fatal("it does not look at the stack")
	}
	f := on.OnStack([]model.Layer{l, other{}}, []string{"vip", "mesh"})
	heal, err := f.Inject(t.Context(), site{pod: p})
	return f, heal, err
}

func TestGraceful(t *testing.T) {
	t.Parallel()
	p := &pod{happened: make(chan string, 10)}
	f, heal, err := onStack(t, `{"pods": ["server-0"], "stop": "10ms"}`, p, layer{pod: p})
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for range 2 {
		seen = append(seen, <-p.happened)
	}
	if o, ok := f.(model.FaultObserver); !ok {
		t.Error("it does not observe")
	} else if facts, err := o.Observe(t.Context(), site{pod: p}); err != nil || len(facts) != 1 || facts[0].Value != "vip (2 endpoints)" {
		t.Errorf("%+v, %v", facts, err)
	}
	for range 2 {
		if err := heal(t.Context()); err != nil {
			t.Error(err)
		}
	}
	close(p.happened)
	for what := range p.happened {
		seen = append(seen, what)
	}
	if want := []string{"drained server-0", "killed", "revived", "undrained"}; !slices.Equal(seen, want) {
		t.Errorf("%q, want %q", seen, want)
	}
}

// A heal before the servers' end leaves them alone.
func TestHealedBeforeTheEnd(t *testing.T) {
	t.Parallel()
	p := &pod{happened: make(chan string, 10)}
	_, heal, err := onStack(t, `{"pods": ["server-0"], "stop": "1m"}`, p, layer{pod: p})
	if err != nil {
		t.Fatal(err)
	}
	if err := heal(t.Context()); err != nil {
		t.Error(err)
	}
	if a, b := <-p.happened, <-p.happened; a != "drained server-0" || b != "undrained" || len(p.happened) > 0 {
		t.Errorf("%s, %s and %d more", a, b, len(p.happened))
	}
}

func TestNothingIsLeftOfAFailure(t *testing.T) {
	t.Parallel()
	p := &pod{happened: make(chan string, 10), err: errors.New("immortal")}
	if _, _, err := onStack(t, `{"pods": ["server-0"], "stop": "0s"}`, p, layer{pod: p}); err == nil || !strings.Contains(err.Error(), "immortal") {
		t.Errorf("a pod that cannot be ended: %v", err)
	}
	if a, b := <-p.happened, <-p.happened; a != "drained server-0" || b != "undrained" {
		t.Errorf("%s, %s", a, b)
	}
	if _, _, err := onStack(t, `{"pods": ["server-0"]}`, p, layer{pod: p, err: errors.New("stuck")}); err == nil || !strings.Contains(err.Error(), "draining layer vip: stuck") {
		t.Errorf("a layer that fails: %v", err)
	}
	if _, err := labtest.New(t, drain.Plugin(), `{"pods": ["server-0"]}`).Inject(t.Context(), site{pod: p}); !errors.Is(err, model.ErrUnsupported) {
		t.Errorf("without a layer: %v", err)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	labtest.Configs(t, drain.Plugin(), map[string]string{
		`{}`:                             "names nothing",
		`{"pods": ["a"], "stop": "x"}`:   "stop is",
		`{"pods": ["a"], "stop": "2m"}`:  "stop is",
		`{"pods": ["a"], "stop": "-1s"}`: "stop is",
		`{"pods": ["a"], "after": "1s"}`: "unknown field",
		`{"pods": ["a"], "stop": 3}`:     "reading",
	})
}
