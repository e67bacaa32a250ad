package plan

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/model"
)

// calibrated is a study of which loads are defined by others' results.
func calibrated() model.Study {
	s := study()
	search := model.Load{
		Name: "find", Protocol: "http1", Arrival: model.ArrivalOpen, Connections: 8, Duration: 2 * time.Second, Timeout: time.Second, From: "client", To: "server",
		Search: &model.Search{
			Objectives: []model.Objective{{Text: "response.p99 < 20ms", Metric: "response.p99", Op: "<", Value: 0.02}},
			From:       100, To: 20_000, Precision: 0.05, Probe: time.Second, Confirmations: 2,
		},
	}
	relative := func(name, of string, among model.Among) model.Load {
		return model.Load{
			Name: name, Protocol: "http1", Arrival: model.ArrivalOpen, Connections: 8, Duration: time.Second, Timeout: time.Second, From: "client", To: "server",
			Relative: &model.Relative{Share: 0.75, Of: of, Among: among}, Pattern: model.Pattern{Poisson: true},
		}
	}
	s.Loads = append(s.Loads, search, relative("at75", "peak", model.AmongLowest), relative("high", "peak", model.AmongHighest), relative("own", "find", model.AmongOwn))
	return s
}

func TestCalibrationTrials(t *testing.T) {
	t.Parallel()
	p := expand(t, calibrated())
	if len(p.Calibration) != 3*3*2 { // three variants without the control, two loads that others are defined by, three times
		t.Fatalf("%d calibration trials", len(p.Calibration))
	}
	seen := map[string]int{}
	for i, tr := range p.Calibration {
		seen[tr.Variant+"/"+tr.Load]++
		if tr.Index != i+1 || tr.Block != i/6+1 || tr.Order != i%6+1 || !tr.Calibration || tr.Seed == 0 {
			t.Errorf("trial %d is %+v", i, tr)
		}
	}
	if len(seen) != 6 || seen["envoy/find"] != 3 || seen["control/peak"] != 0 {
		t.Errorf("got %v", seen)
	}
	p.Calibration = p.Calibration[1:]
	p.Digest, _ = p.digest()
	if err := p.Verify(); err == nil || !strings.Contains(err.Error(), "calibration") {
		t.Errorf("a lost calibration trial: %v", err)
	}
	// The blocks are those of the study without calibration.
	if got := expand(t, study()).Calibration; len(got) != 0 {
		t.Errorf("%d calibration trials where nothing is relative", len(got))
	}
}

func outcomes(p Plan, rates map[string][]float64) []model.Outcome {
	var all []model.Outcome
	for _, tr := range p.Calibration {
		o := model.Outcome{Trial: tr, Load: &model.LoadResult{Elapsed: time.Second}}
		if given := rates[tr.Variant+"/"+tr.Load]; given != nil {
			rate := given[tr.Block-1]
			if tr.Load == "find" {
				o.Search = &model.SearchResult{Highest: rate}
			}
			o.Load.Succeeded = uint64(rate)
		}
		if o.Load.Succeeded == 0 {
			o.Failure = &model.Failure{Step: "running the load", Error: "broken"}
		}
		all = append(all, o)
	}
	return all
}

func TestFreeze(t *testing.T) {
	t.Parallel()
	p := expand(t, calibrated())
	rates := map[string][]float64{
		"direct/peak": {1000, 5000, 3000}, "nft-service/peak": {2000, 0, 2500}, "envoy/peak": {901, 0, 0},
		"direct/find": {1000, 1000, 1000}, "nft-service/find": {800, 800, 800}, "envoy/find": {400, 401, 402},
	}
	f, err := p.Freeze(outcomes(p, rates))
	if err != nil {
		t.Fatal(err)
	}
	want := []model.FrozenRate{
		{Load: "at75", Variant: "direct", Rate: 675, Basis: 901},
		{Load: "at75", Variant: "nft-service", Rate: 675, Basis: 901},
		{Load: "at75", Variant: "envoy", Rate: 675, Basis: 901},
		{Load: "at75", Variant: "control", Rate: 675, Basis: 901},
		{Load: "high", Variant: "direct", Rate: 2250, Basis: 3000},
		{Load: "high", Variant: "nft-service", Rate: 2250, Basis: 3000},
		{Load: "high", Variant: "envoy", Rate: 2250, Basis: 3000},
		{Load: "high", Variant: "control", Rate: 2250, Basis: 3000},
		{Load: "own", Variant: "direct", Rate: 750, Basis: 1000},
		{Load: "own", Variant: "nft-service", Rate: 600, Basis: 800},
		{Load: "own", Variant: "envoy", Rate: 300, Basis: 401},
		{Load: "own", Variant: "control", Rate: 750, Basis: 1000},
	}
	if diff := cmp.Diff(want, f.Rates); diff != "" {
		t.Error(diff)
	}
	own := p.Study.Loads[len(p.Study.Loads)-1]
	if rate, err := RateOf(own, "envoy", f); rate != 300 || err != nil {
		t.Error(rate, err)
	}
	if _, err := RateOf(own, "envoy", model.Frozen{}); err == nil {
		t.Error("a rate before the calibration")
	}
	if rate, err := RateOf(p.Study.Loads[0], "envoy", f); rate != 2000 || err != nil {
		t.Error(rate, err)
	}
	delete(rates, "envoy/find")
	if _, err := p.Freeze(outcomes(p, rates)); err == nil || !strings.Contains(err.Error(), "load own cannot be found: envoy achieved nothing under load find") {
		t.Errorf("got %v", err)
	}
}

func TestWriteLoads(t *testing.T) {
	t.Parallel()
	s := calibrated()
	s.Loads[0].Pattern = model.Pattern{Segments: []model.Segment{{From: 1, To: 1, Duration: 5 * time.Second}, {From: 3, To: 3, Duration: 5 * time.Second}}, Burst: 4}
	s.Loads[1].Think, s.Loads[1].Pace, s.Loads[1].Generators, s.Loads[1].TLS = time.Second, 5, []string{"other"}, &model.TLS{ServerName: "a", CA: "pem", Insecure: true}
	s.Loads = append(s.Loads, s.Loads[0], s.Loads[0])
	s.Loads[6].Name, s.Loads[6].Pattern = "ramp", model.Pattern{Segments: []model.Segment{{From: 1, To: 3, Duration: 10 * time.Second}}}
	s.Loads[6].Drop, s.Loads[6].Coalesce, s.Loads[6].Spin, s.Loads[6].Driver = true, time.Millisecond, time.Microsecond, "fortio"
	s.Loads[7].Name, s.Loads[7].Pattern = "replay", model.Pattern{Times: []time.Duration{0, time.Second}}
	var b bytes.Buffer
	if err := expand(t, s).WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"after 18 calibration trials", "75 % of lowest peak", "open loop, search", "open loop, 2 steps", "open loop, 1/s to 3/s", "open loop, replay",
		"highest rate with response.p99 < 20ms", "searched from 100/s to 20000/s within 5 %: probes of 1s, 2 confirmations",
		"1/s, 3/s in turn, 4 at a time", "at random times (Poisson)", "think 1s, at most 5/s, TLS, server name a, a CA of its own, any certificate",
		"from client, other", "2 requests from 0s to 1s", "sent by fortio, dropped when blocked, coalesce 1ms, spin 1µs", "calibration 3",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
