// Package history follows the primary metrics of one study over its runs: a
// series of estimates with intervals for every variant, load and metric, and the
// points at which it changed.
package history

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/manifest"
	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/report"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/store"
)

// Schema is the version of Result that this program writes.
const Schema = 1

// Settings say how a history is made.
type Settings struct {
	// Anyway keeps runs that ask for something else than the last one.
	Anyway bool
	Seed   uint64
	Alpha  float64 // largest p-value of a change point
}

// Side is one run, with its results and what it was made of.
type Side struct {
	Run      *store.Run
	Model    *report.Model
	Manifest manifest.Manifest
}

// Result is a study's history. Values are in SI units.
type Result struct {
	Schema int      `json:"schema"`
	Study  string   `json:"study"`
	Alpha  float64  `json:"alpha"`
	Seed   uint64   `json:"seed"`
	Runs   []Run    `json:"runs"` // in time order
	Series []Series `json:"series"`
}

// Run is one run.
type Run struct {
	Dir     string    `json:"dir"`
	ID      string    `json:"id"`
	Started time.Time `json:"started"`
	Version string    `json:"version"`
	Blocks  int       `json:"blocks"`
	// Changes are what differs from the last run (A is this one), other than
	// versions and what was only observed; Left says that it was left out for it.
	Changes []manifest.Change `json:"changes,omitempty"`
	Left    bool              `json:"left_out,omitempty"`
}

// Series is one metric of one variant under one load over the runs.
type Series struct {
	Variant string      `json:"variant"`
	Load    string      `json:"load"`
	Metric  string      `json:"metric"`
	Unit    metric.Unit `json:"unit"`
	Better  string      `json:"better"`
	Points  []Point     `json:"points"`
	Changes []Change    `json:"changes"`
}

// Point is one run's estimate; Run is its index in Result.Runs.
type Point struct {
	Run      int             `json:"run"`
	Estimate report.Estimate `json:"estimate"`
}

// Change is a change point.
type Change struct {
	Point int `json:"point"` // index of the first point of the new level
	Run   int `json:"run"`   // its run
	// Date and Version are that run's, Since the version of the run before.
	Date    time.Time `json:"date"`
	Version string    `json:"version"`
	Since   string    `json:"since"`
	P       float64   `json:"p"`
	// Before and After are the levels on either side, up to the next changes.
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	// Difference and Ratio are of after against before, unpaired; absent where
	// a side has too few runs for an interval.
	Difference *report.Estimate `json:"difference,omitempty"`
	Ratio      *report.Estimate `json:"ratio,omitempty"`
	Worse      bool             `json:"worse"`
	// Differs is what changed between the run before and the run.
	Differs []manifest.Change `json:"differs,omitempty"`
}

// New makes the history of runs of one study.
func New(sides []*Side, s Settings) (*Result, error) {
	if len(sides) == 0 {
		return nil, errors.New("there is no run")
	}
	sides = slices.Clone(sides)
	slices.SortStableFunc(sides, func(a, b *Side) int {
		return cmp.Or(a.Model.Run.Started.Compare(b.Model.Run.Started), strings.Compare(a.Run.Dir, b.Run.Dir))
	})
	if err := oneStudy(sides); err != nil {
		return nil, err
	}
	last := sides[len(sides)-1]
	r := &Result{Schema: Schema, Study: last.Model.Name, Alpha: s.Alpha, Seed: s.Seed, Series: []Series{}}
	for _, side := range sides {
		r.Runs = append(r.Runs, run(side, last, s.Anyway))
	}
	for _, s := range primary(last.Model) {
		one, err := r.series(sides, s)
		if err != nil {
			return nil, err
		}
		if len(one.Points) > 0 {
			r.Series = append(r.Series, one)
		}
	}
	return r, nil
}

// primary are the series that a study has, all empty.
func primary(m *report.Model) []Series {
	var all []Series
	for _, v := range m.Variants {
		for _, l := range m.Loads {
			for _, d := range m.Metrics {
				if !v.Control && d.Primary {
					all = append(all, Series{Variant: v.Name, Load: l.Name, Metric: d.Name, Unit: metric.Unit(d.Unit), Better: d.Better, Points: []Point{}, Changes: []Change{}})
				}
			}
		}
	}
	return all
}

func oneStudy(sides []*Side) error {
	var names []string
	for _, s := range sides {
		if !slices.Contains(names, s.Model.Name) {
			names = append(names, s.Model.Name)
		}
	}
	if len(names) > 1 {
		slices.Sort(names)
		return fmt.Errorf("the runs are of %d studies (%s): choose one with --study", len(names), strings.Join(names, ", "))
	}
	return nil
}

// run describes a run. One that asks for something else than the last is left
// out; another host is only told.
func run(side, last *Side, anyway bool) Run {
	r := side.Model.Run
	out := Run{Dir: side.Run.Dir, ID: r.ID, Started: r.Started, Version: r.Version, Blocks: r.Blocks}
	out.Changes = manifest.Undeclared(manifest.Diff(side.Manifest, last.Manifest), manifest.FactorVersion)
	out.Left = !anyway && len(manifest.Undeclared(out.Changes, manifest.FactorHost)) > 0
	return out
}

// series collects the points of one metric and finds where it changed.
func (r *Result) series(sides []*Side, s Series) (Series, error) {
	var values []float64
	for i, side := range sides {
		c := side.Model.Cell(s.Variant, s.Load, s.Metric)
		if r.Runs[i].Left || c == nil || c.Estimate == nil {
			continue
		}
		s.Points = append(s.Points, Point{Run: i, Estimate: *c.Estimate})
		values = append(values, c.Estimate.Value)
	}
	found, err := stats.ChangePoints(values, stats.EDivisive{Seed: r.Seed, Alpha: r.Alpha})
	if err != nil {
		return s, fmt.Errorf("%s under %s, %s: %w", s.Variant, s.Load, s.Metric, err)
	}
	for i, f := range found {
		from, to := 0, len(values)
		if i > 0 {
			from = found[i-1].At
		}
		if i+1 < len(found) {
			to = found[i+1].At
		}
		s.Changes = append(s.Changes, r.change(sides, s, f, values[from:f.At], values[f.At:to]))
	}
	return s, nil
}

func (r *Result) change(sides []*Side, s Series, f stats.ChangePoint, before, after []float64) Change {
	at, was := s.Points[f.At].Run, s.Points[f.At-1].Run
	c := Change{
		Point: f.At, Run: at, Date: r.Runs[at].Started, Version: r.Runs[at].Version, Since: r.Runs[was].Version, P: f.P,
		Before: stats.HodgesLehmann(before), After: stats.HodgesLehmann(after),
	}
	c.Worse = (c.After > c.Before) == (s.Better == string(metric.BetterLower))
	for _, d := range manifest.Diff(sides[was].Manifest, sides[at].Manifest) {
		if d.Factor != manifest.FactorObserved {
			c.Differs = append(c.Differs, d)
		}
	}
	u, err := stats.Unpaired(before, after)
	if err != nil {
		return c // too few runs on a side: the levels alone are given
	}
	c.Difference = estimate(u.Difference)
	if u.NoRatio == nil {
		c.Ratio = estimate(u.Ratio)
	}
	return c
}

func estimate(e stats.Estimate) *report.Estimate {
	return &report.Estimate{Value: e.Value, Lo: e.Lo, Hi: e.Hi, N: e.N, Method: e.Method}
}

// Left are the runs that were left out.
func (r *Result) Left() int {
	n := 0
	for _, run := range r.Runs {
		if run.Left {
			n++
		}
	}
	return n
}
