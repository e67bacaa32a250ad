package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windtunnel/windtunnel/internal/model"
)

var update = flag.Bool("update", false, "write the golden files")

func study() model.Study {
	return model.Study{
		Name: "sidecar-cost", Question: "What do a Service VIP and two mTLS sidecars add to a request?", Target: "lab",
		Topology: model.Topology{
			Regions: []model.Region{{Name: "region-0", Clusters: []model.Cluster{{Name: "cluster-0", Nodes: []model.Node{
				{Name: "node-0", Pods: []model.PodSpec{{Name: "client", Role: "client"}}},
				{Name: "node-1", Pods: []model.PodSpec{{Name: "server-0", Role: "server"}}},
			}}}}},
			Services: []model.Service{{Name: "server", Port: 80, TargetPort: 8080, Pods: []string{"server-0"}}},
		},
		App: model.PluginRef{Kind: "echo", Config: json.RawMessage(`{"body":"\u003c"}`)}, Baseline: "direct",
		Variants: []model.Variant{
			{Name: "direct", Stack: []model.PluginRef{}},
			{Name: "nft-service", Stack: []model.PluginRef{{Kind: "nft-service"}}},
			{Name: "envoy", Stack: []model.PluginRef{{Kind: "nft-service"}, {Kind: "envoy", Config: json.RawMessage(`{"mtls":"strict"}`)}}},
			{Name: "control", Stack: []model.PluginRef{}, Control: true},
		},
		Loads: []model.Load{
			{
				Name: "steady", Protocol: "http1", Arrival: model.ArrivalOpen, Rate: 2000, Connections: 32, Duration: 10 * time.Second,
				Timeout: 5 * time.Second, From: "client", To: "server",
			},
			{
				Name: "peak", Protocol: "http1", Arrival: model.ArrivalClosed, Connections: 8, Duration: 1500 * time.Millisecond,
				Timeout: 5 * time.Second, From: "client", To: "server",
				Config: json.RawMessage(`{"method":"POST","path":"/a","headers":{"A":"b"},"body":"x"}`),
			},
		},
		Design: model.Design{
			Blocks: 6, MaxBlocks: 8, StopInterval: 0.02, Warmup: 2 * time.Second, Control: true, Equivalence: 0.07,
			Primary: []string{"response.p50", "success"}, Seed: 42,
		},
		Gates: []model.Gate{{Text: "envoy.success >= 99.9%", Variant: "envoy", Metric: "success", Op: ">=", Value: 0.999}},
	}
}

func expand(t *testing.T, s model.Study) Plan {
	t.Helper()
	p, err := Expand(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Verify(); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestBlocksAreComplete(t *testing.T) {
	t.Parallel()
	p := expand(t, study())
	if len(p.Trials) != 8*8 {
		t.Fatalf("%d trials", len(p.Trials))
	}
	seen := map[string]bool{}
	seeds := map[uint64]bool{}
	for i, tr := range p.Trials {
		seen[fmt.Sprint(tr.Block, tr.Variant, tr.Load)] = true
		seeds[tr.Seed] = true
		if tr.Index != i+1 || tr.Block != i/8+1 || tr.Order != i%8+1 {
			t.Errorf("trial %d is %+v", i, tr)
		}
	}
	if len(seen) != len(p.Trials) || len(seeds) != len(p.Trials) {
		t.Errorf("%d different trials and %d different seeds of %d", len(seen), len(seeds), len(p.Trials))
	}
}

func TestMoreBlocksChangeNothingBefore(t *testing.T) {
	t.Parallel()
	short, long := study(), study()
	long.Design.MaxBlocks = 100
	a, b := expand(t, short), expand(t, long)
	if diff := cmp.Diff(a.Trials, b.Trials[:len(a.Trials)]); diff != "" {
		t.Error(diff)
	}
	if a.Digest == b.Digest {
		t.Error("another plan has the same digest")
	}
}

func TestSeedDecidesOrder(t *testing.T) {
	t.Parallel()
	same, other := study(), study()
	other.Design.Seed++
	p := expand(t, study())
	if diff := cmp.Diff(p, expand(t, same), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Error("same seed:", diff)
	}
	if cmp.Equal(p.Trials, expand(t, other).Trials) {
		t.Error("another seed gave the same order")
	}
}

// TestOrderIsBalanced counts how often each trial has each place and which
// trial it follows, over neighbouring seeds as people use them. Each count is
// binomial; six standard deviations are met by chance once in 10^7 tables.
func TestOrderIsBalanced(t *testing.T) {
	t.Parallel()
	const seeds, blocks, cells = 20, 100, 8
	place, after := map[string]int{}, map[string]int{}
	for seed := range uint64(seeds) {
		s := study()
		s.Design.Seed, s.Design.MaxBlocks = seed, blocks
		last := model.Trial{}
		for _, tr := range expand(t, s).Trials {
			name := tr.Variant + "/" + tr.Load
			place[fmt.Sprint(name, " in place ", tr.Order)]++
			if tr.Order > 1 {
				after[name+" after "+last.Variant+"/"+last.Load]++
			}
			last = tr
		}
	}
	check := func(counts map[string]int, kinds int, share float64) {
		n := float64(seeds * blocks)
		mean, variance := n*share, n*share*(1-share)
		if len(counts) != kinds {
			t.Errorf("%d of %d combinations occur", len(counts), kinds)
		}
		for what, c := range counts {
			if d := float64(c) - mean; d*d > 36*variance {
				t.Errorf("%s: %d times, want about %.0f", what, c, mean)
			}
		}
	}
	check(place, cells*cells, 1.0/cells)
	check(after, cells*(cells-1), 1.0/cells)
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	p := expand(t, study())
	for _, indent := range []string{"", "  "} {
		raw, err := json.MarshalIndent(p, "", indent)
		if err != nil {
			t.Fatal(err)
		}
		var back Plan
		if err = json.Unmarshal(raw, &back); err != nil {
			t.Fatal(err)
		}
		if err = back.Verify(); err != nil {
			t.Errorf("indent %q: %v", indent, err)
		}
		again, err := json.MarshalIndent(back, "", indent)
		if err != nil || !bytes.Equal(raw, again) {
			t.Errorf("indent %q: the JSON changed; %v", indent, err)
		}
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	// Changes that whoever made them has given a new digest.
	redigested := func(change func(*Plan)) func(*Plan) {
		return func(p *Plan) {
			change(p)
			p.Digest, _ = p.digest()
		}
	}
	tests := map[string]struct {
		change func(*Plan)
		want   string
	}{
		"version":     {func(p *Plan) { p.Schema = 2 }, "has version 2"},
		"digest":      {func(p *Plan) { p.Digest = "" }, "was changed"},
		"study":       {func(p *Plan) { p.Study.Loads[0].Rate++ }, "was changed"},
		"seed":        {func(p *Plan) { p.Trials[3].Seed++ }, "was changed"},
		"swap":        {redigested(func(p *Plan) { p.Trials[0], p.Trials[1] = p.Trials[1], p.Trials[0] }), "numbered index 2"},
		"lost":        {redigested(func(p *Plan) { p.Trials = p.Trials[1:] }), "has 63 trials"},
		"double":      {redigested(func(p *Plan) { p.Trials[1].Variant, p.Trials[1].Load = p.Trials[0].Variant, p.Trials[0].Load }), "exactly once"},
		"unknown":     {redigested(func(p *Plan) { p.Trials[0].Variant = "x" }), "exactly once"},
		"no variants": {redigested(func(p *Plan) { p.Study.Variants = nil }), "no variants"},
		"one name":    {redigested(func(p *Plan) { p.Study.Variants[1].Name = "direct" }), "two of one name"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := expand(t, study())
			test.change(&p)
			if err := p.Verify(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestExpandRefuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*model.Study){
		"no variants": func(s *model.Study) { s.Variants = nil },
		"no loads":    func(s *model.Study) { s.Loads = nil },
		"no blocks":   func(s *model.Study) { s.Design.Blocks = 0 },
		"fewer":       func(s *model.Study) { s.Design.MaxBlocks = 5 },
		"too many":    func(s *model.Study) { s.Design.MaxBlocks = 1 << 40 },
		"bad config":  func(s *model.Study) { s.App.Config = json.RawMessage("{") },
	} {
		s := study()
		change(&s)
		if _, err := Expand(s); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	// 8 blocks of 4 variants: (2 + 10 + 1) + (2 + 1.5 + 1) seconds each time.
	if got, want := Duration(expand(t, study()), time.Second), 560*time.Second; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWriteText(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	if err := expand(t, study()).WriteText(&got); err != nil {
		t.Fatal(err)
	}
	const file = "testdata/plan.txt"
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s (write it with -update): %s", file, diff)
	}
	for line := range strings.Lines(got.String()) {
		if len(line) > 101 {
			t.Errorf("wider than 100 columns: %s", line)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriteTextFails(t *testing.T) {
	t.Parallel()
	if err := expand(t, study()).WriteText(full{}); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("got %v", err)
	}
}

func TestLetter(t *testing.T) {
	t.Parallel()
	for i, want := range map[int]string{0: "A", 25: "Z", 26: "AA", 51: "AZ", 52: "BA", 702: "AAA"} {
		if got := letter(i); got != want {
			t.Errorf("%d: got %s, want %s", i, got, want)
		}
	}
}

// FuzzPlan reads plans as they come from a run folder.
func FuzzPlan(f *testing.F) {
	p, err := Expand(study())
	if err != nil {
		f.Fatal(err)
	}
	raw, err := json.Marshal(p)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{"schema":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var p Plan
		if json.Unmarshal(data, &p) != nil || p.Verify() != nil {
			return
		}
		if err := p.WriteText(&bytes.Buffer{}); err != nil {
			t.Error(err)
		}
	})
}
