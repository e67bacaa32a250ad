package simulate

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/windtunnel/windtunnel/internal/stats"
)

// Tally counts what came out of many studies.
type Tally struct {
	Name    string
	Studies int
	Blocks  float64 // of a study, on average
	// False counts studies of an arm that has no effect in which any metric was
	// called different.
	False int
	// Covered counts intervals that hold the truth, of so many.
	Covered, Intervals int
	// Seen counts planted effects that were called different, of so many.
	Seen, Planted int
}

// FalseRate is the share of studies with a false difference.
func (t Tally) FalseRate() float64 { return float64(t.False) / float64(t.Studies) }

// Coverage is the share of intervals that hold the truth.
func (t Tally) Coverage() float64 { return float64(t.Covered) / float64(t.Intervals) }

// Power is the share of planted effects that were seen.
func (t Tally) Power() float64 { return float64(t.Seen) / float64(t.Planted) }

// Fixed tallies studies of a fixed number of blocks. False differences are
// counted in a study of its own, of the arm without an effect alone: a real
// study in which nothing differs.
func Fixed(name string, n Noise, studies, blocks int, seed uint64) (Tally, error) {
	rng := rand.New(rand.NewPCG(seed, uint64(blocks))) //nolint:gosec // G404: repeatable on purpose
	t := Tally{Name: name, Studies: studies, Blocks: float64(blocks)}
	for range studies {
		v := Draw(rng, n, blocks)
		null, err := Judge(v, []string{Same}, blocks)
		if err != nil {
			return t, err
		}
		if different(null) {
			t.False++
		}
		if err := t.planted(v, blocks); err != nil {
			return t, err
		}
	}
	return t, nil
}

func different(all []Comparison) bool {
	for _, c := range all {
		if c.Verdict == stats.VerdictDifferent {
			return true
		}
	}
	return false
}

// planted counts what the arms with effects show.
func (t *Tally) planted(v Values, blocks int) error {
	all, err := Judge(v, []string{Same, Delayed, Slower}, blocks)
	if err != nil {
		return err
	}
	for _, c := range all {
		t.Intervals++
		if c.Covers() {
			t.Covered++
		}
		if c.Arm == Same || c.Arm == Delayed && c.Metric == "cpu.total" {
			continue
		}
		t.Planted++
		if c.Verdict == stats.VerdictDifferent {
			t.Seen++
		}
	}
	return nil
}

// Stopped tallies studies that end by the stop rule, from fewest to most blocks.
func Stopped(name string, n Noise, studies, fewest, most int, width float64, seed uint64) (Tally, error) {
	rng := rand.New(rand.NewPCG(seed, uint64(most))) //nolint:gosec // G404: repeatable on purpose
	t := Tally{Name: name, Studies: studies}
	for range studies {
		v := Draw(rng, n, most)
		blocks := fewest
		for ; blocks < most; blocks++ {
			narrow, err := Narrow(v, []string{Same, Delayed, Slower}, blocks, width)
			if err != nil {
				return t, err
			}
			if narrow {
				break
			}
		}
		t.Blocks += float64(blocks) / float64(studies)
		null, err := Judge(v, []string{Same}, blocks)
		if err != nil {
			return t, err
		}
		if different(null) {
			t.False++
		}
		if err := t.planted(v, blocks); err != nil {
			return t, err
		}
	}
	return t, nil
}

// Kinds are kinds of noise by name: each alone, and all together.
func Kinds() []struct {
	Name string
	Noise
} {
	quiet := Noise{Trial: 0.02, Request: 0.3, Requests: 100}
	drift, memory, modes, outliers := quiet, quiet, quiet, quiet
	drift.Drift = 0.1
	memory.Memory, memory.Stalls = 0.9, 0.01
	modes.Modes, modes.Mode = 0.4, 0.15
	outliers.Outliers = 0.15
	return []struct {
		Name string
		Noise
	}{
		{"trials scatter by 2 %", quiet},
		{"drift of 10 % from block to block", drift},
		{"correlated requests, 1 % stalls", memory},
		{"two modes 15 % apart", modes},
		{"15 % of trials disturbed by a quarter", outliers},
		{"all of these at once", Realistic()},
	}
}

// Table is the tallies in Markdown.
func Table(all []Tally) string {
	var b strings.Builder
	b.WriteString("| noise | blocks | studies | A/A studies with a false difference | intervals that hold the truth | planted effects seen |\n|---|---|---|---|---|---|\n")
	for _, t := range all {
		blocks := fmt.Sprintf("%.0f", t.Blocks)
		if t.Blocks != float64(int(t.Blocks)) {
			blocks = fmt.Sprintf("%.1f, by the stop rule", t.Blocks)
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %.2f %% | %.2f %% of %d | %.0f %% |\n", t.Name, blocks, t.Studies, t.FalseRate()*100, t.Coverage()*100, t.Intervals, t.Power()*100)
	}
	return b.String()
}
