package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/windtunnel/windtunnel/internal/simulate"
)

// The table stands between these lines of the page.
const (
	tableBegins = "<!-- prove-stats: make prove-stats writes this table -->\n"
	tableEnds   = "<!-- end of prove-stats -->\n"
)

// What is promised of every kind of noise; coverage under the stop rule costs a
// little (docs/method.md).
const (
	mostFalse    = 0.05
	leastCovered = 0.93
	leastStopped = 0.92
)

// proveStats simulates studies, writes the table, and fails if a promise is not
// kept.
func proveStats(args []string, out io.Writer) error {
	f := flag.NewFlagSet("prove stats", flag.ContinueOnError)
	studies := f.Int("studies", 20_000, "studies of each kind")
	page := f.String("write", "", "page whose table is written anew")
	seed := f.Uint64("seed", 1, "seed of the simulation")
	if err := f.Parse(args); err != nil {
		return err
	}
	tallies, err := tally(*studies, *seed)
	if err != nil {
		return err
	}
	table := simulate.Table(tallies)
	_, _ = io.WriteString(out, table)
	if *page != "" {
		if err = replaceTable(*page, table); err != nil {
			return err
		}
	}
	for i, t := range tallies {
		least := leastCovered
		if i == len(tallies)-1 {
			least = leastStopped
		}
		if t.FalseRate() > mostFalse || t.Coverage() < least {
			_, _ = fmt.Fprintf(out, "%s, %.1f blocks: not as promised\n", t.Name, t.Blocks)
			err = errNotProved
		}
	}
	return err
}

// tally simulates every kind of noise; the last is under the stop rule.
func tally(studies int, seed uint64) ([]simulate.Tally, error) {
	var all []simulate.Tally
	for _, k := range simulate.Kinds() {
		for _, blocks := range []int{6, 10} {
			t, err := simulate.Fixed(k.Name, k.Noise, studies, blocks, seed)
			if err != nil {
				return nil, err
			}
			all = append(all, t)
		}
	}
	const fewest, most, width = 6, 24, 0.12
	t, err := simulate.Stopped("all of these at once", simulate.Realistic(), studies/10, fewest, most, width, seed)
	return append(all, t), err
}

func replaceTable(page, table string) error {
	raw, err := os.ReadFile(page) //nolint:gosec // G304: the page is the user's choice
	if err != nil {
		return fmt.Errorf("reading the page: %w", err)
	}
	before, rest, ok1 := strings.Cut(string(raw), tableBegins)
	_, after, ok2 := strings.Cut(rest, tableEnds)
	if !ok1 || !ok2 {
		return errors.New(page + " has no table of prove-stats")
	}
	return os.WriteFile(page, []byte(before+tableBegins+table+tableEnds+after), 0o644) //nolint:gosec // G306: a page to be read
}
