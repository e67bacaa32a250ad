package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Every variant but the control is broken down once under each load that asks for
// it, after all blocks, and nothing of those changes by it.
func TestBreakdownTrials(t *testing.T) {
	t.Parallel()
	s := study()
	before := expand(t, s)
	s.Loads[0].Breakdown = 3 * time.Second
	p := expand(t, s)
	seen := map[string]int{}
	for i, b := range p.Breakdown {
		if !b.Breakdown || b.Index != i+1 || b.Block != 1 || b.Load != s.Loads[0].Name {
			t.Errorf("trial %d is %+v", i+1, b)
		}
		seen[b.Variant]++
	}
	for _, v := range s.Variants {
		if want := map[bool]int{false: 1}[v.Control]; seen[v.Name] != want {
			t.Errorf("%s is broken down %d times, want %d", v.Name, seen[v.Name], want)
		}
	}
	for i := range p.Trials {
		if p.Trials[i] != before.Trials[i] {
			t.Fatalf("trial %d was %+v and is %+v", i+1, before.Trials[i], p.Trials[i])
		}
	}
	want := Duration(before, time.Second)
	for range p.Breakdown {
		want += time.Second + s.Design.Warmup + 3*time.Second
	}
	if got := Duration(p, time.Second); got != want {
		t.Errorf("it takes %s, want %s", got, want)
	}
	var text strings.Builder
	if err := p.WriteText(&text); err != nil || !strings.Contains(text.String(), "breakdown 1") || !strings.Contains(text.String(), "broken down for 3s after the blocks") {
		t.Errorf("%v\n%s", err, text.String())
	}
	p.Breakdown = append([]model.Trial{}, p.Breakdown[1:]...)
	var err error
	if p.Digest, err = p.digest(); err != nil {
		t.Fatal(err)
	}
	if err := p.Verify(); err == nil || !strings.Contains(err.Error(), "breakdown trials") {
		t.Errorf("a plan without one of them: %v", err)
	}
}
