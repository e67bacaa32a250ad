// Package plan turns a study into the ordered list of its trials.
//
// The design is randomised complete blocks: a block holds every variant under
// every load once, in a random order of its own. A plan is a plain value; it is
// frozen before the first trial, and its digest says whether it still is what
// was frozen.
package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/search"
)

// Schema is the version of Plan that this program writes and reads.
const Schema = 1

// MaxTrials bounds a plan. More would take weeks: it is a slip of the keyboard.
const MaxTrials = 100_000

// Plan is a study with the trials that answer it, in the order in which they
// are run. Trials of the stop rule's blocks are all here; the run may end early.
type Plan struct {
	Schema int         `json:"schema"`
	Study  model.Study `json:"study"`
	// Calibration are the trials before the first block, for loads that are
	// defined by another load's result.
	Calibration []model.Trial `json:"calibration,omitempty"`
	Trials      []model.Trial `json:"trials"`
	// Breakdown are the trials after the last block in which requests are traced.
	// They are no part of any result.
	Breakdown []model.Trial `json:"breakdown,omitempty"`
	// Digest is the SHA-256 of the plan's JSON with an empty digest, in hex.
	Digest string `json:"digest"`
}

// Expand makes the plan of a study. The same study always gives the same plan,
// and more blocks never change the order of earlier ones.
func Expand(s model.Study) (Plan, error) {
	perBlock := len(s.Variants) * len(s.Loads)
	switch {
	case perBlock == 0:
		return Plan{}, fmt.Errorf("planning study %s: it has %d variants and %d loads; both need at least one", s.Name, len(s.Variants), len(s.Loads))
	case s.Design.Blocks < 1 || s.Design.MaxBlocks < s.Design.Blocks:
		return Plan{}, fmt.Errorf("planning study %s: %d to %d blocks make no sense", s.Name, s.Design.Blocks, s.Design.MaxBlocks)
	case s.Design.MaxBlocks > MaxTrials/perBlock:
		return Plan{}, fmt.Errorf("planning study %s: %d blocks of %d trials are more than %d trials; ask for fewer blocks", s.Name, s.Design.MaxBlocks, perBlock, MaxTrials)
	}
	p := Plan{Schema: Schema, Study: s, Calibration: calibration(s), Breakdown: breakdowns(s), Trials: make([]model.Trial, 0, perBlock*s.Design.MaxBlocks)}
	for b := 1; b <= s.Design.MaxBlocks; b++ {
		p.Trials = append(p.Trials, block(s, b, len(p.Trials))...)
	}
	var err error
	p.Digest, err = p.digest()
	return p, err
}

// block makes one block. Its generator depends on the seed and the block's
// number only. Blocks count from 1; so do trials, and the order in a block.
func block(s model.Study, number, before int) []model.Trial {
	trials := make([]model.Trial, 0, len(s.Variants)*len(s.Loads))
	for _, v := range s.Variants {
		for _, l := range s.Loads {
			trials = append(trials, model.Trial{Block: number, Variant: v.Name, Load: l.Name})
		}
	}
	order(trials, rand.New(rand.NewPCG(s.Design.Seed, uint64(number))), before) //nolint:gosec // an experiment must be repeatable
	return trials
}

// order shuffles the trials of a block, numbers them and gives each a seed.
func order(trials []model.Trial, random *rand.Rand, before int) {
	random.Shuffle(len(trials), func(i, j int) { trials[i], trials[j] = trials[j], trials[i] })
	for i := range trials {
		trials[i].Index = before + i + 1
		trials[i].Order = i + 1
		trials[i].Seed = random.Uint64()
	}
}

func (p Plan) digest() (string, error) {
	p.Digest = ""
	raw, err := json.Marshal(p) // struct order, sorted maps, no spaces: canonical
	if err != nil {
		return "", fmt.Errorf("writing the plan of study %s: %w", p.Study.Name, err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// Verify checks that the plan is what Expand made: version, digest and shape.
func (p Plan) Verify() error {
	if p.Schema != Schema {
		return fmt.Errorf("the plan has version %d; this program reads version %d", p.Schema, Schema)
	}
	digest, err := p.digest()
	if err != nil {
		return err
	}
	if digest != p.Digest {
		return fmt.Errorf("the plan was changed: its digest is %s, and it says %s", digest, p.Digest)
	}
	return p.shape()
}

// shape checks that every block is complete and that trials are numbered.
func (p Plan) shape() error {
	type cell struct{ variant, load string }
	cells := map[cell]int{}
	for _, v := range p.Study.Variants {
		for _, l := range p.Study.Loads {
			cells[cell{v.Name, l.Name}] = 0
		}
	}
	if len(cells) == 0 || len(cells) != len(p.Study.Variants)*len(p.Study.Loads) {
		return errors.New("the plan's study has no variants or loads, or two of one name")
	}
	if !slices.Equal(p.Calibration, calibration(p.Study)) {
		return errors.New("the plan's calibration is not the one that its study asks for")
	}
	if !slices.Equal(p.Breakdown, breakdowns(p.Study)) {
		return errors.New("the plan's breakdown trials are not those that its study asks for")
	}
	if len(p.Trials) != len(cells)*p.Study.Design.MaxBlocks {
		return fmt.Errorf("the plan has %d trials; %d blocks of %d need %d", len(p.Trials), p.Study.Design.MaxBlocks, len(cells), len(cells)*p.Study.Design.MaxBlocks)
	}
	for i, t := range p.Trials {
		want := model.Trial{Index: i + 1, Block: i/len(cells) + 1, Order: i%len(cells) + 1, Variant: t.Variant, Load: t.Load, Seed: t.Seed}
		if t != want {
			return fmt.Errorf("the plan's trial %d is numbered index %d, block %d, order %d; want %d, %d, %d", i+1, t.Index, t.Block, t.Order, want.Index, want.Block, want.Order)
		}
		times, known := cells[cell{t.Variant, t.Load}]
		if !known || times != t.Block-1 {
			return fmt.Errorf("the plan's trial %d, %s under %s, is not in block %d exactly once", t.Index, t.Variant, t.Load, t.Block)
		}
		cells[cell{t.Variant, t.Load}]++
	}
	return nil
}

// Duration is how long all trials of a plan take, where overhead is what one
// takes besides its warm-up and its measured window. With a stop rule, it is
// the longest that the study can take; of a search, it is what is expected.
func Duration(p Plan, overhead time.Duration) time.Duration {
	total := duration(p.Study, p.Study.Design.MaxBlocks, overhead)
	for _, t := range p.Calibration {
		i := slices.IndexFunc(p.Study.Loads, func(l model.Load) bool { return l.Name == t.Load })
		total += overhead + trialDuration(p.Study.Loads[i], p.Study.Design.Warmup)
	}
	for _, t := range p.Breakdown {
		i := slices.IndexFunc(p.Study.Loads, func(l model.Load) bool { return l.Name == t.Load })
		total += overhead + p.Study.Design.Warmup + p.Study.Loads[i].Breakdown
	}
	return total
}

func duration(s model.Study, blocks int, overhead time.Duration) time.Duration {
	var one time.Duration
	for _, l := range s.Loads {
		one += overhead + trialDuration(l, s.Design.Warmup)
	}
	return one * time.Duration(len(s.Variants)) * time.Duration(blocks)
}

func trialDuration(l model.Load, warmup time.Duration) time.Duration {
	if l.Search == nil {
		return warmup + l.Duration
	}
	probes, confirmations := search.Expected(*l.Search)
	return time.Duration(probes)*(warmup+l.Search.Probe) + time.Duration(confirmations)*(warmup+l.Duration)
}
