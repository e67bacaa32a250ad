package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/report"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// mostBlocks bounds the search for how many blocks an effect needs.
const mostBlocks = 1000

// noise prints how small an effect the planned blocks can show, and how many an
// effect needs, by how an earlier run's blocks scattered.
func (a *app) noise(s model.Study, dir, effect string) error {
	share, err := parsePercent(effect)
	if err == nil && share == 0 {
		err = errors.New("it must be more than 0%")
	}
	if err != nil {
		return wrong(fmt.Errorf("--effect %s: %w", effect, err))
	}
	side, err := openSide(dir)
	if err != nil {
		return wrong(fmt.Errorf("reading the noise: %w", err))
	}
	p := power{study: s, model: side.Model, effect: share}
	return p.print(a)
}

type power struct {
	study  model.Study
	model  *report.Model
	effect float64
}

// alpha is the level at which one comparison of the family is judged at worst:
// Holm's first step; or 5 %, where the blocks cannot reach that.
func (p power) alpha(blocks int) float64 {
	family := 0
	for _, v := range p.study.Variants {
		if v.Name != p.study.Baseline && !v.Control {
			family += len(p.study.Loads) * len(p.study.Design.Primary)
		}
	}
	alpha := (1 - stats.Level) / float64(max(1, family))
	if math.Pow(2, 1-float64(blocks)) > alpha {
		return 1 - stats.Level
	}
	return alpha
}

func (p power) print(a *app) error {
	d := p.study.Design
	a.printf("\nwhat %d blocks can show with 80 %% probability, by the noise of %s (%d blocks); one comparison of the family\n",
		d.Blocks, p.model.Run.ID, p.model.Run.Blocks)
	w := tabwriter.NewWriter(a.env.Stdout, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintf(w, "variant\tload\tmetric\tsmallest effect\tnoise floor\tblocks for %s\n", share(p.effect))
	for _, v := range p.study.Variants {
		for _, l := range p.study.Loads {
			for _, name := range d.Primary {
				if v.Name != p.study.Baseline && !v.Control {
					_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", v.Name, l.Name, name, p.row(v.Name, l.Name, name))
				}
			}
		}
	}
	return w.Flush()
}

// row is what is known of one comparison.
func (p power) row(variant, load, name string) string {
	logs, reason := p.logRatios(variant, load, name)
	if reason != "" {
		return "-\t-\t" + reason
	}
	sd := stats.StdDev(logs)
	blocks := p.study.Design.Blocks
	smallest := math.Expm1(stats.MinimumDetectableAt(sd, blocks, p.alpha(blocks)))
	needed := "over " + strconv.Itoa(mostBlocks)
	if n, ok := stats.BlocksFor(sd, math.Log1p(p.effect), p.alpha(mostBlocks), 6, mostBlocks); ok {
		needed = strconv.Itoa(n)
	}
	return share(smallest) + "\t" + p.floor(load, name) + "\t" + needed
}

// logRatios are those of the variant against the baseline, by block; of a
// variant that the run does not have, those of its control.
func (p power) logRatios(variant, load, name string) (logs []float64, reason string) {
	base := p.model.Cell(p.model.Run.Baseline, load, name)
	cell := p.model.Cell(variant, load, name)
	if cell == nil {
		i := slices.IndexFunc(p.model.Variants, func(v report.Variant) bool { return v.Control })
		if i < 0 {
			return nil, "the run has neither the variant nor a control"
		}
		cell = p.model.Cell(p.model.Variants[i].Name, load, name)
	}
	if base == nil || cell == nil {
		return nil, "the run does not have it"
	}
	for _, b := range base.Values {
		for _, v := range cell.Values {
			if b.Block != v.Block || b.Invalid || v.Invalid {
				continue
			}
			if b.Value <= 0 || v.Value <= 0 {
				return nil, "a value is not positive: no ratio"
			}
			logs = append(logs, math.Log(v.Value/b.Value))
		}
	}
	if len(logs) < 2 {
		return nil, "too few blocks"
	}
	return logs, ""
}

// floor is the run's noise floor as a share of the baseline.
func (p power) floor(load, name string) string {
	cell := p.model.Cell(p.model.Run.Baseline, load, name)
	for _, v := range p.model.Variants {
		c := p.model.Comparison(v.Name, load, name)
		if v.Control && c != nil && c.Difference != nil && cell.Estimate != nil && cell.Estimate.Value > 0 {
			return share(c.Floor / cell.Estimate.Value)
		}
	}
	return "-"
}

func share(v float64) string {
	return strings.TrimSpace(report.FormatValue(metric.UnitShare, v))
}
