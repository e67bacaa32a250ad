package link_test

import (
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/fault/link"
	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestMain(m *testing.M) {
	labtest.Main(m, labtest.Commands{labtest.CommandServe: labtest.Serve})
}

func TestConformance(t *testing.T) {
	t.Parallel()
	labtest.Fault(t, labtest.FaultSuite{
		Plugin: link.Plugin(),
		Links:  []model.Link{{A: "node-0", B: "node-1", Delay: time.Millisecond}},
		Cases: map[string]labtest.FaultCase{
			"slower": {Config: `{"a": "node-1", "b": "node-0", "delay": "30ms"}`},
			"cut":    {Config: `{"a": "node-0", "b": "node-1", "loss": "100%"}`, Unreachable: []string{"server-0", "server-1"}},
		},
	})
}

// What is asked must be seen on the wire while it acts, and be gone afterwards.
func TestMeasuredBack(t *testing.T) {
	t.Parallel()
	topology := labtest.Topology(1)
	topology.Links = []model.Link{{A: "node-0", B: "node-1", Delay: time.Millisecond}}
	site := labtest.Site(t, topology)
	changer, ok := site.(model.LinkChanger)
	if !ok {
		t.Fatalf("the links of %T cannot be changed", site)
	}
	seen := func() []model.LinkState {
		states, err := changer.ProbeLink(t.Context(), "node-0", "node-1", 100)
		if err != nil {
			t.Fatal(err)
		}
		return states
	}
	f := labtest.New(t, link.Plugin(), `{"a": "node-0", "b": "node-1", "delay": "60ms", "loss": "30%"}`)
	heal, err := f.Inject(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range seen() {
		if o := s.Observed; o.P1 < 59*time.Millisecond || o.Lost < 10 || o.Lost > 55 || s.Link.Delay != 60*time.Millisecond {
			t.Errorf("%s to %s while it acts: %+v", s.From, s.To, o)
		}
	}
	if _, err := labtest.New(t, link.Plugin(), `{"a": "node-0", "b": "node-1", "rate": "1Mbit/s"}`).Inject(t.Context(), site); err == nil || !strings.Contains(err.Error(), "one change at a time") {
		t.Errorf("a second change: %v", err)
	}
	if err := heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range seen() {
		if o := s.Observed; o.P1 > 30*time.Millisecond || o.Lost > 0 {
			t.Errorf("%s to %s after the heal: %+v", s.From, s.To, o)
		}
	}
	if _, err := labtest.New(t, link.Plugin(), `{"a": "node-0", "b": "region-0", "delay": "1ms"}`).Inject(t.Context(), site); err == nil || !strings.Contains(err.Error(), "no emulated link between node-0 and region-0") {
		t.Errorf("a link that is not there: %v", err)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	labtest.Configs(t, link.Plugin(), map[string]string{
		`{}`:                                     "needs a and b",
		`{"a": "x", "b": "y"}`:                   "changes nothing",
		`{"a": "x", "b": "y", "loss": "5"}`:      "loss is",
		`{"a": "x", "b": "y", "delay": "-1s"}`:   "delay is",
		`{"a": "x", "b": "y", "jitter": "1m"}`:   "jitter is",
		`{"a": "x", "b": "y", "rate": "10"}`:     "rate is",
		`{"a": "x", "b": "y", "rate": "1bit/s"}`: "rate is",
		`{"a": "x", "c": "y"}`:                   "unknown field",
	})
}
