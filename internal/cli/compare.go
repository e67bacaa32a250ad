package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/command"
	"github.com/windtunnel/windtunnel/internal/compare"
	"github.com/windtunnel/windtunnel/internal/manifest"
	"github.com/windtunnel/windtunnel/internal/report"
	"github.com/windtunnel/windtunnel/internal/store"
)

type compareOptions struct {
	allow, factor, format string
	anyway, strict        bool
}

func (a *app) compareCommand() *cobra.Command {
	var o compareOptions
	c := &cobra.Command{
		Use: "compare RUN-A RUN-B", Short: "Compare two runs of one study: a regression gate", Args: cobra.ExactArgs(2),
		Long: `Compares run B with run A, for every variant, load and primary metric: estimate,
interval and verdict. A regression is a change for the worse that is shown, and
whose unfavourable end is beyond --allow; it ends with exit code 3. With --strict
so does everything that cannot rule out such a change.

Only the declared factor may differ between the runs; if anything else does, that
is listed and nothing is compared (exit code 2), unless --anyway is given.
docs/method.md describes the test.`,
		Example: `  windtunnel compare runs/before runs/after
  windtunnel compare runs/before runs/after --allow 2% --format md > comment.md
  windtunnel compare runs/kernel-6.1 runs/kernel-6.12 --factor host`,
		RunE: func(_ *cobra.Command, args []string) error { return a.compare(args[0], args[1], o) },
	}
	f := c.Flags()
	f.StringVar(&o.allow, "allow", "5%", "`share` by which a metric may get worse")
	f.StringVar(&o.factor, "factor", string(manifest.FactorVersion), "what the runs may differ in: version, host or config")
	f.BoolVar(&o.anyway, "anyway", false, "compare although more than the factor differs, and say so")
	f.BoolVar(&o.strict, "strict", false, "fail, too, where a change for the worse beyond --allow is not ruled out")
	f.StringVar(&o.format, "format", "text", "one of "+strings.Join(compare.Formats(), ", "))
	return c
}

func (a *app) compare(dirA, dirB string, o compareOptions) error {
	allow, err := parsePercent(o.allow)
	factor := manifest.Factor(o.factor)
	switch {
	case err != nil:
		return wrong(fmt.Errorf("--allow %s: %w", o.allow, err))
	case !slices.Contains(manifest.Factors(), factor):
		return wrong(fmt.Errorf("--factor %s: it is one of version, host, config", o.factor))
	case !slices.Contains(compare.Formats(), o.format):
		return wrong(fmt.Errorf("no format %q; known: %s", o.format, strings.Join(compare.Formats(), ", ")))
	}
	sideA, errA := openSide(dirA)
	sideB, errB := openSide(dirB)
	if err := errors.Join(errA, errB); err != nil {
		return wrong(fmt.Errorf("reading the runs: %w", err))
	}
	for _, s := range []*compare.Side{sideA, sideB} {
		if !s.Model.Run.Complete {
			return wrong(fmt.Errorf("%s is not finished: windtunnel run --resume %s", s.Run.Dir, s.Run.Dir))
		}
	}
	changes := manifest.Diff(sideA.Manifest, sideB.Manifest)
	if more := manifest.Undeclared(changes, factor); len(more) > 0 && !o.anyway {
		return wrong(fmt.Errorf("the runs differ in more than their %s:\n%sSet the runs up alike, declare another --factor, or compare --anyway", factor, manifest.Text(more, 100)))
	}
	r := compare.Runs(sideA, sideB, factor, allow)
	if err := r.Write(a.env.Stdout, o.format); err != nil {
		return err
	}
	if r.Regressions() > 0 || o.strict && r.Open() > 0 {
		return silent(command.ExitGate)
	}
	return nil
}

// openSide reads a run and derives its results and its manifest.
func openSide(dir string) (*compare.Side, error) {
	run, m, err := readRun(dir)
	if err != nil {
		return nil, err
	}
	all, err := manifest.New(run)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return &compare.Side{Run: run, Model: m, Manifest: all}, nil
}

// readRun reads a run and derives its results.
func readRun(dir string) (*store.Run, *report.Model, error) {
	run, err := store.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	m, err := report.Build(run)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", dir, err)
	}
	return run, m, nil
}

// parsePercent reads a share, e.g. "5%", "2.5 %" or "0.05".
func parsePercent(s string) (float64, error) {
	number, isPercent := strings.CutSuffix(strings.TrimSpace(s), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if isPercent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 1e6) {
		return 0, errors.New("it must be a share such as 5%, and not negative")
	}
	return v, nil
}
