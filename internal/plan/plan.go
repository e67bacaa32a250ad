// Package plan expands a study into an ordered, seeded, hashed list of trials:
// randomised complete blocks. It is pure; the plan is frozen before the first
// trial.
package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Schema is the version of Plan that this program writes.
const Schema = 1

// Plan is what will be run, in this order.
type Plan struct {
	Schema int           `json:"schema"`
	Study  model.Study   `json:"study"`
	Trials []model.Trial `json:"trials"`
	// Digest is the SHA-256 of the plan's JSON with this field empty.
	Digest string `json:"digest"`
}

// Expand makes the plan: every block holds every variant under every load
// once, in an order of its own. A block's order depends on the seed and the
// block's number only, so adding blocks leaves earlier ones as they were.
func Expand(s model.Study) (Plan, error) {
	if len(s.Variants) == 0 || len(s.Loads) == 0 {
		return Plan{}, errors.New("expanding the study: it has no variants or no loads")
	}
	p := Plan{Schema: Schema, Study: s}
	for block := 1; block <= max(s.Design.Blocks, s.Design.MaxBlocks); block++ {
		p.Trials = append(p.Trials, expandBlock(s, block, len(p.Trials))...)
	}
	digest, err := p.digest()
	p.Digest = digest
	return p, err
}

func expandBlock(s model.Study, block, first int) []model.Trial {
	rng := rand.New(rand.NewPCG(s.Design.Seed, uint64(block)))
	var trials []model.Trial
	for _, v := range s.Variants {
		for _, l := range s.Loads {
			trials = append(trials, model.Trial{Block: block, Variant: v.Name, Load: l.Name, Seed: rng.Uint64()})
		}
	}
	rng.Shuffle(len(trials), func(i, j int) { trials[i], trials[j] = trials[j], trials[i] })
	for i := range trials {
		trials[i].Order, trials[i].Index = i+1, first+i+1
	}
	return trials
}

func (p Plan) digest() (string, error) {
	p.Digest = ""
	b, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("encoding the plan: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// Verify says whether the plan is as Expand made it.
func (p Plan) Verify() error {
	if p.Schema != Schema {
		return fmt.Errorf("the plan has version %d; this program reads version %d", p.Schema, Schema)
	}
	digest, err := p.digest()
	if err != nil {
		return err
	}
	if digest != p.Digest {
		return errors.New("the plan was changed: its digest does not fit")
	}
	again, err := Expand(p.Study)
	if err != nil {
		return err
	}
	if again.Digest != p.Digest {
		return errors.New("the plan's trials are not those of its study and seed")
	}
	return nil
}

// Duration is how long the loads take with their warm-up, and a given time for
// everything else in a trial.
func (p Plan) Duration(overhead time.Duration) time.Duration {
	length := map[string]time.Duration{}
	for _, l := range p.Study.Loads {
		length[l.Name] = l.Duration
	}
	var total time.Duration
	for _, t := range p.Trials {
		total += p.Study.Design.Warmup + length[t.Load] + overhead
	}
	return total
}

// WriteText writes the plan for people.
func (p Plan) WriteText(w io.Writer) error {
	s := p.Study
	out := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintf(out, "%s: %s\n", s.Name, s.Question)
	fmt.Fprintf(out, "%d trials = %d blocks x %d variants x %d loads, seed %d\n\n", len(p.Trials), max(s.Design.Blocks, s.Design.MaxBlocks), len(s.Variants), len(s.Loads), s.Design.Seed)
	fmt.Fprintln(out, "VARIANT\tSTACK\t")
	for _, v := range s.Variants {
		note := ""
		if v.Control {
			note = "the A/A control: shows the noise floor"
		} else if v.Name == s.Baseline {
			note = "the baseline"
		}
		fmt.Fprintf(out, "%s\t%s\t%s\n", v.Name, stack(v), note)
	}
	fmt.Fprintln(out, "\nLOAD\tWHAT\tWARM-UP\tDURATION")
	for _, l := range s.Loads {
		what := fmt.Sprintf("%s, closed loop, %d connections", l.Protocol, l.Connections)
		if l.Arrival == model.ArrivalOpen {
			what = fmt.Sprintf("%s, open loop, %g/s, %d connections", l.Protocol, l.Rate, l.Connections)
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", l.Name, what, s.Design.Warmup, l.Duration)
	}
	fmt.Fprintln(out, "\nBLOCK\tORDER OF TRIALS")
	for block := 1; block <= max(s.Design.Blocks, s.Design.MaxBlocks); block++ {
		fmt.Fprintf(out, "%d\t%s\n", block, strings.Join(p.order(block), "  "))
	}
	fmt.Fprintf(out, "\ndigest %s\n", p.Digest)
	return out.Flush()
}

func (p Plan) order(block int) []string {
	var names []string
	for _, t := range p.Trials {
		if t.Block == block {
			names = append(names, t.Variant+"/"+t.Load)
		}
	}
	return names
}

func stack(v model.Variant) string {
	if len(v.Stack) == 0 {
		return "(pod to pod)"
	}
	var kinds []string
	for _, l := range v.Stack {
		kinds = append(kinds, l.Kind)
	}
	return strings.Join(kinds, " + ")
}
