package simulate

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/plan"
	"github.com/windtunnel/windtunnel/internal/store"
)

// load is the one load of a simulated run.
const load = "steady"

// Runs says what run to make up: as `run` leaves one behind, without logs.
type Runs struct {
	Noise    Noise
	Blocks   int
	Seed     uint64
	Name     string // of the folder
	At       time.Time
	Version  string
	Host     model.Host
	Factor   float64                  // on all latencies and CPU, 0: 1: e.g. a newer version
	Change   func(study *model.Study) // if set, of the study
	Variants []string                 // none: all
}

// Run makes up a run.
func (r Runs) Run() (*store.Run, error) {
	p, err := plan.Expand(r.study())
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encoding the plan: %w", err)
	}
	return &store.Run{
		Dir: "runs/" + r.Name, Plan: raw, Outcomes: r.outcomes(p),
		Meta:     store.Meta{ID: r.Name, Dir: "runs/" + r.Name, Created: r.At, Study: p.Study.Name, StudySource: p.Study.Name, PlanDigest: p.Digest, Command: "windtunnel run " + p.Study.Name},
		Sessions: []store.Session{{Started: r.At, Version: r.Version, Host: r.Host}},
		End:      &store.End{At: r.At.Add(time.Minute), Reason: "all planned blocks were run", Complete: true},
	}, nil
}

func (r Runs) study() model.Study {
	s := model.Study{
		Name: "simulated", Question: "What is found?", Target: "lab", App: model.PluginRef{Kind: "echo"}, Baseline: Baseline,
		Loads:  []model.Load{{Name: load, Protocol: "http1", Arrival: model.ArrivalOpen, Rate: 100, Connections: 4, Duration: time.Second, Timeout: time.Second, From: "client", To: "server"}},
		Design: model.Design{Blocks: r.Blocks, MaxBlocks: r.Blocks, Control: true, Primary: Metrics(), Seed: r.Seed},
	}
	for _, arm := range []string{Baseline, Same, Delayed, Slower, Control} {
		if len(r.Variants) == 0 || arm == Control || slices.Contains(r.Variants, arm) {
			s.Variants = append(s.Variants, model.Variant{Name: arm, Control: arm == Control})
		}
	}
	if r.Change != nil {
		r.Change(&s)
	}
	return s
}

func (r Runs) outcomes(p plan.Plan) []model.Outcome {
	rng := rand.New(rand.NewPCG(r.Seed, 99)) //nolint:gosec // G404: repeatable on purpose
	var all []model.Outcome
	drift, block := 0.0, 0
	for _, t := range p.Trials {
		if t.Block != block {
			block = t.Block
			drift += r.Noise.Drift * rng.NormFloat64()
		}
		requests, cpu := r.Noise.trial(rng, drift, t.Variant)
		if r.Factor > 0 {
			cpu *= r.Factor
			for i := range requests {
				requests[i] *= r.Factor
			}
		}
		all = append(all, outcome(t, requests, cpu))
	}
	return all
}

// outcome is a trial as the runner leaves it, with all that findings look for.
func outcome(t model.Trial, requests []float64, cpu float64) model.Outcome {
	const second = int64(time.Second)
	h := &hist.Histogram{}
	for _, v := range requests {
		h.Record(int64(v * 1e9))
	}
	n := uint64(len(requests))
	used := cpu * float64(n) / 1e6 // a millisecond per request
	return model.Outcome{
		Schema: model.OutcomeSchema, Trial: t, Started: time.Unix(1_800_000_000+int64(t.Index), 0).UTC(), Window: model.Window{Start: second, End: 2 * second},
		Ready: &model.Ready{Passed: true}, Endpoints: model.Endpoints{Service: "server", Backends: []model.Backend{{Pod: "server-0", Identity: "server-0"}}},
		Load: &model.LoadResult{
			Arrival: model.ArrivalOpen, Connections: 4, Rate: float64(n), Elapsed: time.Second, Due: n, Sent: n, Succeeded: n, Workers: 1, GeneratorIdle: 1,
			Response: h, Service: &hist.Histogram{}, FailedResponse: &hist.Histogram{}, Lateness: &hist.Histogram{}, Responders: map[string]uint64{"server-0": n},
		},
		Samples: []model.Series{{Subject: "server-0/app", Metric: model.SampleCPU, At: []int64{second, 2 * second}, Values: []float64{1, 1 + used}}},
	}
}
