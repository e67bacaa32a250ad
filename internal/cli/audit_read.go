package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/audit"
	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/plan"
	"github.com/windtunnel/windtunnel/internal/store"
)

// studyOf is the study of a run, with the rates that its calibration froze.
func studyOf(run *store.Run) (model.Study, error) {
	var p plan.Plan
	if err := json.Unmarshal(run.Plan, &p); err != nil {
		return model.Study{}, fmt.Errorf("reading the run's plan: %w", err)
	}
	s, err := p.Resolve(run.Frozen, run.Calibration)
	if err != nil {
		return model.Study{}, fmt.Errorf("reading the run's calibration: %w", err)
	}
	return s, nil
}

// measured is one measurement of one file.
type measured struct {
	path string
	m    ingest.Measurement
	only bool // the file's only one
}

// foreign reads files of other tools and names what is in them.
func (a *app) foreign(files []input, pattern string, result *audited) (audit.Evidence, error) {
	var all []measured
	var problems ingest.Problems
	for _, f := range files {
		ms, err := a.readResults(f.path)
		switch {
		case err != nil && f.named:
			problems.Add(fmt.Errorf("%s: %w", f.path, err))
		case err != nil:
			result.Skipped = append(result.Skipped, fmt.Sprintf("%s: %v", f.path, err))
		}
		for _, m := range ms {
			all = append(all, measured{f.path, m, len(ms) == 1})
		}
	}
	if err := problems.Err(); err != nil {
		return audit.Evidence{}, err
	}
	if len(all) == 0 {
		return audit.Evidence{}, fmt.Errorf("no file holds results that can be read:\n%s", strings.Join(result.Skipped, "\n"))
	}
	runs := join(all)
	names, err := name(runs, pattern)
	if err != nil {
		return audit.Evidence{}, err
	}
	kept := runs[:0]
	for i := range runs {
		if names[i] == nil {
			result.Skipped = append(result.Skipped, runs[i].File+": its path does not fit --name")
			continue
		}
		runs[i].Name = *names[i]
		kept = append(kept, runs[i])
		n := runs[i].Name
		result.Runs = append(result.Runs, auditedRun{runs[i].File, runs[i].Measurement.Name, n.Variant, n.Load, n.Repetition, n.Factors})
	}
	return audit.NewEvidence(kept), nil
}

func (a *app) readResults(path string) ([]ingest.Measurement, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	_, ms, err := ingest.Open(f, a.catalog.Readers, ingest.About{})
	return ms, err
}

// join makes runs of measurements. A report that lies beside the raw data of the
// same run is no run of its own.
func join(all []measured) []audit.Run {
	var runs []audit.Run
	raw := map[string]int{} // by stem and tool: its place among the runs
	key := func(x *measured) string { return audit.Stem(x.path) + "\x00" + x.m.Result.Tool.Name }
	isReport := func(x *measured) bool {
		return x.only && x.m.Result.Tool != nil && len(x.m.Requests) == 0 && slices.Contains(x.m.Result.Tool.Notes, ingest.FiguresOnly)
	}
	for i := range all {
		if x := &all[i]; !isReport(x) {
			if x.only && x.m.Result.Tool != nil {
				raw[key(x)] = len(runs)
			}
			runs = append(runs, audit.Run{Measurement: x.m, File: x.path})
		}
	}
	for i := range all {
		x := &all[i]
		if !isReport(x) {
			continue
		}
		if at, ok := raw[key(x)]; ok {
			runs[at].Report = &x.m
			continue
		}
		runs = append(runs, audit.Run{Measurement: x.m, File: x.path})
	}
	return runs
}

// name names runs by their paths below what all paths have in common; nil where
// a path does not fit the pattern.
func name(runs []audit.Run, pattern string) ([]*audit.Name, error) {
	var sources []audit.Source
	common := filepath.Dir(runs[0].File)
	for i := range runs {
		for common != "." && !strings.HasPrefix(runs[i].File, common+string(filepath.Separator)) && filepath.Dir(common) != common {
			common = filepath.Dir(common)
		}
	}
	for i := range runs {
		r := &runs[i]
		path, err := filepath.Rel(common, r.File)
		if err != nil || pattern != "" {
			path = r.File
		}
		inside := r.Measurement.Name
		if inside == "" {
			inside = r.Labels[ingest.LabelLabel]
		}
		sources = append(sources, audit.Source{
			Path: filepath.ToSlash(path), Name: inside, Protocol: strings.ToLower(r.Labels[ingest.LabelProtocol]), Fallback: loadOf(r),
		})
	}
	names, fits := audit.Names(sources), make([]bool, len(sources))
	if pattern != "" {
		p, err := audit.ParsePattern(pattern)
		if err == nil {
			names, fits, err = p.Apply(sources)
		}
		if err != nil {
			return nil, fmt.Errorf("--name: %w", err)
		}
	}
	out := make([]*audit.Name, len(names))
	for i := range names {
		if fits[i] || pattern == "" {
			out[i] = &names[i]
		}
	}
	return out, nil
}

// loadOf describes a load by what its tool says of it.
func loadOf(r *audit.Run) string {
	var parts []string
	if asked := r.Labels[ingest.LabelAsked]; asked != "" {
		parts = append(parts, asked+"qps")
	} else if r.Result.Arrival == model.ArrivalOpen && r.Result.Rate > 0 {
		parts = append(parts, fmt.Sprintf("%gqps", r.Result.Rate))
	}
	if c := r.Result.Connections; c > 0 {
		parts = append(parts, fmt.Sprintf("%dc", c))
	}
	if p := strings.ToLower(r.Labels[ingest.LabelProtocol]); p != "" {
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		return "load"
	}
	return strings.Join(parts, "-")
}
