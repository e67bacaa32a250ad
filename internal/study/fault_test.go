package study

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

type killConfig struct {
	Pods []string `json:"pods" jsonschema:"required"`
}

type nothing struct{}

func (nothing) Inject(context.Context, model.Site) (func(context.Context) error, error) {
	return func(context.Context) error { return nil }, nil
}

// withFaults is the test catalog with a fault.
func withFaults() Known {
	k := catalog()
	k.Faults = []model.Plugin[model.Fault]{{Name: "kill", Summary: "Kills pods.", Config: killConfig{}, New: func(c json.RawMessage) (model.Fault, error) {
		var kill killConfig
		if err := strict(c, &kill); err != nil {
			return nil, err
		}
		if len(kill.Pods) == 0 {
			return nil, &model.ConfigError{Key: "pods", Text: "is empty"}
		}
		return nothing{}, nil
	}}}
	return k
}

const faulty = `apiVersion: windtunnel/v1
kind: Study
metadata: {name: faulty}
question: Does it come back?
app: {kind: echo}
baseline: direct
variants: [{name: direct, stack: []}]
loads: [{name: steady, protocol: http1, model: open, rate: 100/s, duration: 20s, fault: death}]
faults:
  - name: death
    events:
      - {at: 5s, heal: 10s, kill: {pods: [server-0]}}
      - {at: 6s, kill: {pods: [server-1]}}
`

func TestFaults(t *testing.T) {
	t.Parallel()
	s, err := Parse("faulty.yaml", []byte(faulty), withFaults())
	if err != nil {
		t.Fatal(err)
	}
	events := s.Faults[0].Events
	if s.Loads[0].Fault != "death" || len(events) != 2 || events[0].At != 5*time.Second || events[0].Heal != 10*time.Second ||
		events[0].Fault.Kind != "kill" || string(events[0].Fault.Config) != `{"pods":["server-0"]}` || events[1].Heal != 0 {
		t.Errorf("%+v", s.Faults)
	}
	if _, err := Schema(withFaults()); err != nil {
		t.Error(err)
	}
}

func TestFaultProblems(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ old, new, want string }{
		"unknown scenario": {"fault: death", "fault: deaht", `faulty.yaml:8:89: loads[0].fault: unknown fault "deaht"`},
		"too short":        {"duration: 20s", "duration: 9s", "loads[0].fault: goes on to 10s, and the load's window ends after 9s"},
		"too many":         {"rate: 100/s", "rate: 20000/s", "400000 are more than 200000"},
		"heals too early":  {"heal: 10s", "heal: 5s", "faults[0].events[0].heal: is not after at"},
		"unknown kind":     {"heal: 10s, kill:", "heal: 10s, kil:", `faults[0].events[0].kil: unknown fault "kil"; did you mean "kill"?`},
		"no kind":          {"{at: 6s, kill: {pods: [server-1]}}", "{at: 6s}", "faulty.yaml:13:9: faults[0].events[1]: needs exactly one kind of harm"},
		"two kinds":        {"{at: 6s, ", "{at: 6s, stall: {}, ", "needs exactly one kind of harm"},
		"bad config":       {"[server-1]", "[]", "faults[0].events[1].kill.pods: is empty"},
		"twice":            {"  - name: death\n    events:\n      - {at: 5s", "  - {name: death, events: [{at: 1s, kill: {pods: [a]}}]}\n  - name: death\n    events:\n      - {at: 5s", `"death" is already the name of faults[0]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(faulty, tt.old, tt.new, 1)
			if _, err := Parse("faulty.yaml", []byte(text), withFaults()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
