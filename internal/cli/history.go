package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/history"
	"github.com/windtunnel/windtunnel/internal/store"
)

type historyOptions struct {
	study, format  string
	points, anyway bool
	seed           uint64
	alpha          float64
}

func (a *app) historyCommand() *cobra.Command {
	var o historyOptions
	c := &cobra.Command{
		Use: "history DIR...", Short: "Follow a study's primary metrics over its runs, and find where they changed", Args: cobra.MinimumNArgs(1),
		Long: `Reads runs of one study, in time order: run folders, or folders that hold some. For
every variant, load and primary metric it shows the estimates with their intervals,
and the change points with date, version and size.

Runs that ask for something else than the last one are left out, and listed;
runs on another host are kept, and listed. A change point needs about ten runs.`,
		Example: `  windtunnel history runs
  windtunnel history runs --study quick --format md > history.md`,
		RunE: func(_ *cobra.Command, args []string) error { return a.history(args, o) },
	}
	f := c.Flags()
	f.StringVar(&o.study, "study", "", "`name` of the study, where the folders hold runs of several")
	f.StringVar(&o.format, "format", "text", "one of "+strings.Join(history.Formats(), ", "))
	f.BoolVar(&o.points, "points", false, "list the points of every series, not only of those that changed")
	f.BoolVar(&o.anyway, "anyway", false, "keep runs that ask for something else than the last one")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the permutation test")
	f.Float64Var(&o.alpha, "alpha", 0.01, "largest p-value of a change point")
	return c
}

func (a *app) history(folders []string, o historyOptions) error {
	switch {
	case !slices.Contains(history.Formats(), o.format):
		return wrong(fmt.Errorf("no format %q; known: %s", o.format, strings.Join(history.Formats(), ", ")))
	case !(o.alpha > 0 && o.alpha < 1):
		return wrong(fmt.Errorf("--alpha %g: it must lie between 0 and 1", o.alpha))
	}
	dirs, err := runFolders(folders)
	if err != nil {
		return wrong(err)
	}
	sides, err := a.sides(dirs, o.study)
	if err != nil {
		return wrong(err)
	}
	if len(sides) == 0 {
		return wrong(fmt.Errorf("no finished run of study %q in %s", o.study, strings.Join(folders, ", ")))
	}
	r, err := history.New(sides, history.Settings{Anyway: o.anyway, Seed: o.seed, Alpha: o.alpha})
	if err != nil {
		return wrong(err)
	}
	return r.Write(a.env.Stdout, o.format, o.points)
}

// sides reads the finished runs of a study.
func (a *app) sides(dirs []string, study string) ([]*history.Side, error) {
	var sides []*history.Side
	for _, dir := range dirs {
		side, err := openSide(dir)
		switch {
		case err != nil:
			return nil, fmt.Errorf("reading the runs: %w", err)
		case study != "" && side.Model.Name != study:
		case !side.Model.Run.Complete:
			a.complain("windtunnel: %s is not finished, and left out\n", dir)
		default:
			sides = append(sides, &history.Side{Run: side.Run, Model: side.Model, Manifest: side.Manifest})
		}
	}
	return sides, nil
}

// runFolders are the folders that are runs, and the runs right below the others.
func runFolders(folders []string) ([]string, error) {
	var dirs []string
	var errs []error
	for _, folder := range folders {
		below, err := filepath.Glob(filepath.Join(globbed(folder), "*", store.FileMeta))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if _, err := os.Stat(filepath.Join(folder, store.FileMeta)); err == nil {
			below = []string{filepath.Join(folder, store.FileMeta)}
		}
		if len(below) == 0 {
			errs = append(errs, fmt.Errorf("%s is neither a run folder nor holds any", folder))
		}
		for _, file := range below {
			if dir := filepath.Dir(file); !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs, errors.Join(errs...)
}

// globbed keeps a folder's own name from being a pattern.
func globbed(name string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(name)
}
