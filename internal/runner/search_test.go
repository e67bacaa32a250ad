package runner

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/agent"
	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/plan"
)

// simulate is an agent that sends nothing: it passes every gate, and a system
// says what comes of a load. No result: the agent dies.
func simulate(pipe io.ReadWriter, system func(l model.Load) *model.LoadResult) {
	in, out := json.NewDecoder(pipe), json.NewEncoder(pipe)
	for {
		var c struct {
			ID   uint64
			Gate *agent.GateJob
			Load *agent.LoadJob
		}
		if in.Decode(&c) != nil {
			return
		}
		var answer struct {
			ID     uint64            `json:"id"`
			Ready  *model.Ready      `json:"ready,omitempty"`
			Window *model.Window     `json:"window,omitempty"`
			Result *model.LoadResult `json:"result,omitempty"`
		}
		answer.ID = c.ID
		switch {
		case c.Gate != nil:
			answer.Ready = &model.Ready{Passed: true, Payload: "2-0"}
		case c.Load != nil:
			answer.Window = &model.Window{Start: c.Load.Start + 1, End: c.Load.Start + 2}
			if err := out.Encode(answer); err != nil {
				return
			}
			if answer.Window, answer.Result = nil, system(c.Load.Load); answer.Result == nil {
				return
			}
		default:
			continue
		}
		if err := out.Encode(answer); err != nil {
			return
		}
	}
}

// limited is a system that answers at most so many requests per second; more
// make it slow. In a closed loop it is fully used.
func limited(capacity float64) func(pod string, l model.Load) *model.LoadResult {
	return func(_ string, l model.Load) *model.LoadResult {
		r := &model.LoadResult{
			Arrival: l.Arrival, Rate: l.Rate, Connections: l.Connections, Elapsed: time.Second, Workers: 1, GeneratorIdle: 0.5,
			Response: &hist.Histogram{}, Service: &hist.Histogram{}, FailedResponse: &hist.Histogram{}, Lateness: &hist.Histogram{},
		}
		rate, response := l.Rate, time.Millisecond
		if l.Arrival == model.ArrivalClosed {
			rate = capacity
		}
		if rate > capacity {
			rate, response = capacity, time.Second
		}
		r.Succeeded = uint64(rate)
		r.Due, r.Sent = r.Succeeded, r.Succeeded
		r.Response.RecordN(int64(response), r.Succeeded)
		r.Lateness.RecordN(int64(10*time.Microsecond), r.Succeeded)
		return r
	}
}

func finds() *model.Search {
	return &model.Search{
		Objectives: []model.Objective{{Text: "response.p99 < 20ms", Metric: "response.p99", Op: "<", Value: 0.02}},
		From:       100, To: 10_000, Precision: 0.05, Probe: time.Second, Confirmations: 2,
	}
}

func replan(t *testing.T, s *Settings, change func(*model.Study)) {
	t.Helper()
	study := s.Plan.Study
	change(&study)
	var err error
	if s.Plan, err = plan.Expand(study); err != nil {
		t.Fatal(err)
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	s, tg, sk := settings(t)
	replan(t, &s, func(study *model.Study) { study.Loads[0].Rate, study.Loads[0].Search = 0, finds() })
	tg.system = limited(2000)
	if _, err := Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for _, o := range sk.outcomes {
		if o.Failure != nil || o.Search == nil || o.Search.Highest > 2000 || o.Search.Highest < 1900 || o.Search.Limit != model.LimitSystem {
			t.Fatalf("failure %+v, search %+v", o.Failure, o.Search)
		}
		if o.Load.Rate != o.Search.Highest || o.Window == (model.Window{}) {
			t.Errorf("the load is at %g/s, the search found %g/s", o.Load.Rate, o.Search.Highest)
		}
		last := o.Search.Probes[len(o.Search.Probes)-1]
		if !last.Confirms || last.Values["response.p99"] > 0.0011 {
			t.Errorf("last probe %+v", last)
		}
	}
}

// Every tenth load of a busy host is disturbed: no trial fails, and what they
// find is the system's.
func TestSearchOnABusyHost(t *testing.T) {
	t.Parallel()
	s, tg, sk := settings(t)
	replan(t, &s, func(study *model.Study) { study.Loads[0].Rate, study.Loads[0].Search = 0, finds() })
	random := rand.New(rand.NewPCG(1, 1)) // loads come one after the other
	tg.system = func(pod string, l model.Load) *model.LoadResult {
		switch random.IntN(20) {
		case 0:
			return limited(1)(pod, l) // slow
		case 1:
			r := limited(2000)(pod, l)
			r.GeneratorIdle = 0.01
			return r
		}
		return limited(2000)(pod, l)
	}
	if _, err := Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, o := range sk.outcomes {
		if o.Failure != nil || o.Search.Highest > 2000 {
			t.Fatalf("failure %+v, search %+v", o.Failure, o.Search)
		}
		if o.Search.Highest > 1900 {
			found++
		}
	}
	if found < len(sk.outcomes)*9/10 {
		t.Errorf("%d of %d trials found the limit", found, len(sk.outcomes))
	}
}

func TestSearchThatFindsNothing(t *testing.T) {
	t.Parallel()
	s, tg, sk := settings(t)
	replan(t, &s, func(study *model.Study) { study.Loads[0].Rate, study.Loads[0].Search = 0, finds() })
	tg.system = limited(50)
	if _, err := Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	o := sk.outcomes[0]
	if o.Failure == nil || !strings.Contains(o.Failure.Error, "no rate holds: at 100/s, the lowest that was tried, response.p99 was 1, asked was response.p99 < 20ms") ||
		!strings.Contains(o.Failure.Error, "how often: 1000/s (1), 316.2/s (1), ") || !strings.HasSuffix(o.Failure.Error, "100/s (5)") {
		t.Errorf("got %+v", o.Failure)
	}
	if o.Search == nil || len(o.Search.Probes) == 0 || o.Search.Above != 100 {
		t.Errorf("search %+v", o.Search)
	}
}

// What the generator cannot send says nothing of the system.
func TestSearchMeetsTheGeneratorsLimit(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*model.LoadResult){
		"late": func(r *model.LoadResult) { r.Lateness.RecordN(int64(50*time.Millisecond), r.Sent) },
		"busy": func(r *model.LoadResult) { r.GeneratorIdle = 0.01 },
	} {
		s, tg, sk := settings(t)
		replan(t, &s, func(study *model.Study) { study.Loads[0].Rate, study.Loads[0].Search = 0, finds() })
		tg.system = func(pod string, l model.Load) *model.LoadResult {
			r := limited(1e9)(pod, l)
			if l.Rate > 3000 {
				change(r)
			}
			return r
		}
		if _, err := Run(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		o := sk.outcomes[0]
		if o.Failure != nil || o.Search.Limit != model.LimitGenerator || o.Search.Highest > 3000 || o.Search.Highest < 2800 {
			t.Errorf("%s: %+v, %+v", name, o.Failure, o.Search)
		}
		marked := 0
		for _, p := range o.Search.Probes {
			if p.Generator && strings.HasPrefix(p.Why, "generator limit reached") {
				marked++
			}
		}
		if marked < 2 {
			t.Errorf("%s: %d probes are marked", name, marked)
		}
	}
}

// An agent that dies in a search: the trial fails, with the probes so far, and
// the next one has an agent of its own.
func TestAgentDiesInASearch(t *testing.T) {
	t.Parallel()
	s, tg, sk := settings(t)
	replan(t, &s, func(study *model.Study) { study.Loads[0].Rate, study.Loads[0].Search = 0, finds() })
	loads := 0
	tg.system = func(pod string, l model.Load) *model.LoadResult {
		if loads++; loads == 4 {
			return nil
		}
		return limited(2000)(pod, l)
	}
	end, err := Run(t.Context(), s)
	if err != nil || !end.Complete || tg.sites != 0 {
		t.Fatalf("%v, %+v, %d sites left", err, end.Reason, tg.sites)
	}
	o := sk.outcomes[0]
	if o.Failure == nil || !strings.Contains(o.Failure.Error, "probe 4 at") || !strings.Contains(o.Failure.Error, "the agent has ended") || len(o.Search.Probes) != 3 || o.Load != nil {
		t.Errorf("got %+v, search %+v", o.Failure, o.Search)
	}
	if sk.outcomes[1].Failure != nil {
		t.Errorf("the next trial: %+v", sk.outcomes[1].Failure)
	}
}

// relative makes a study of a peak and a load at 75 % of it.
func relative(study *model.Study) {
	peak, at75 := study.Loads[0], study.Loads[0]
	peak.Name, peak.Arrival, peak.Rate = "peak", model.ArrivalClosed, 0
	at75.Name, at75.Rate, at75.Relative = "at75", 0, &model.Relative{Share: 0.75, Of: "peak", Among: model.AmongLowest}
	study.Loads = []model.Load{peak, at75}
}

func TestCalibration(t *testing.T) {
	t.Parallel()
	s, tg, sk := settings(t)
	replan(t, &s, relative)
	tg.system = limited(2000)
	end, err := Run(t.Context(), s)
	if err != nil || !end.Complete || len(end.Outcomes) != 24 || len(sk.outcomes) != 6+24 {
		t.Fatalf("%v, %+v, %d outcomes, %d kept", err, end.Reason, len(end.Outcomes), len(sk.outcomes))
	}
	if sk.frozen == nil || len(sk.frozen.Rates) != 2 || sk.frozen.Rates[0] != (model.FrozenRate{Load: "at75", Variant: "direct", Rate: 1500, Basis: 2000}) {
		t.Errorf("frozen: %+v", sk.frozen)
	}
	for i, o := range sk.outcomes {
		if o.Trial.Calibration != (i < 6) {
			t.Errorf("outcome %d is of %+v", i, o.Trial)
		}
		if o.Trial.Load == "at75" && o.Load.Rate != 1500 {
			t.Errorf("%+v was sent at %g/s", o.Trial, o.Load.Rate)
		}
	}
}

// A run that is interrupted in the calibration goes on with what was kept, and
// one that is interrupted after it keeps its rates whatever the system does now.
func TestResumeInTheCalibration(t *testing.T) {
	t.Parallel()
	s, tg, sk := settings(t)
	replan(t, &s, relative)
	tg.system = limited(2000)
	stopAfter := func(n int) (End, error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		sk.fail = func(calls int) error {
			if calls == n {
				cancel()
			}
			return nil
		}
		return Run(ctx, s)
	}
	end, err := stopAfter(4)
	if !errors.Is(err, context.Canceled) || end.Complete || len(sk.outcomes) != 4 || sk.frozen != nil || tg.sites != 0 {
		t.Fatalf("%v, %+v, %d outcomes, frozen %+v, %d sites", err, end.Reason, len(sk.outcomes), sk.frozen, tg.sites)
	}
	s.Calibrated = sk.outcomes
	end, err = stopAfter(9)
	if !errors.Is(err, context.Canceled) || len(sk.outcomes) != 9 || sk.frozen == nil || len(end.Outcomes) != 3 {
		t.Fatalf("%v, %d outcomes, frozen %+v", err, len(sk.outcomes), sk.frozen)
	}
	s.Calibrated, s.Frozen, s.Finished = sk.outcomes[:6], sk.frozen, end.Outcomes
	tg.system, sk.fail, sk.frozen = limited(9000), nil, nil
	end, err = Run(t.Context(), s)
	if err != nil || !end.Complete || len(end.Outcomes) != 24 || sk.frozen != nil {
		t.Fatalf("%v, %+v, %d outcomes, frozen again %+v", err, end.Reason, len(end.Outcomes), sk.frozen)
	}
	for _, o := range end.Outcomes {
		if o.Trial.Load == "at75" && o.Load.Rate != 1500 {
			t.Errorf("%+v was sent at %g/s", o.Trial, o.Load.Rate)
		}
	}
}

func TestCalibrationThatFails(t *testing.T) {
	t.Parallel()
	s, tg, sk := settings(t)
	replan(t, &s, relative)
	tg.system = limited(0)
	end, err := Run(t.Context(), s)
	if err == nil || end.Complete || len(sk.outcomes) != 6 || !strings.Contains(err.Error(), "calibrating: the rate of load at75 cannot be found: direct achieved nothing under load peak") {
		t.Errorf("%v, %d outcomes", err, len(sk.outcomes))
	}
}

// Two pods send one load through the real agents: one schedule, no request
// twice, none left out.
func TestTwoGenerators(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	// Both agents' workers and the server are in this process: all need a place.
	runtime.GOMAXPROCS(max(8, runtime.GOMAXPROCS(0)))
	s, tg, sk := settings(t)
	replan(t, &s, func(study *model.Study) {
		study.Variants = study.Variants[:1]
		study.Loads[0].Generators = []string{"server-0"}
		study.Loads[0].Connections = 3
	})
	s.Plan.Trials = s.Plan.Trials[:1]
	if _, err := Run(t.Context(), s); err != nil || tg.sites != 0 {
		t.Fatal(err)
	}
	o := sk.outcomes[0]
	if o.Failure != nil || o.Load.Due != 10 || o.Load.Succeeded+o.Load.Unsent != 10 || o.Load.Connections != 3 || o.Load.Workers != 2 || o.Load.Rate != 200 {
		t.Errorf("%+v, %+v", o.Failure, o.Load)
	}
}

func TestOneOfTwoGeneratorsDies(t *testing.T) {
	t.Parallel()
	s, tg, sk := settings(t)
	replan(t, &s, func(study *model.Study) { study.Loads[0].Generators = []string{"server-0"} })
	tg.system = func(pod string, l model.Load) *model.LoadResult {
		if pod == "server-0" {
			return nil
		}
		return limited(1000)(pod, l)
	}
	if _, err := Run(t.Context(), s); err != nil || tg.sites != 0 {
		t.Fatal(err)
	}
	if f := sk.outcomes[0].Failure; f == nil || !strings.Contains(f.Error, "pod server-0: ") {
		t.Errorf("got %+v", f)
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	connections, pace := 0, 0.0
	for i := range 3 {
		l := share(model.Load{Connections: 32, Pace: 100}, i, 3)
		connections, pace = connections+l.Connections, pace+l.Pace
	}
	if connections != 32 || pace < 99.99 || pace > 100.01 {
		t.Errorf("%d connections, pace %g", connections, pace)
	}
}
