package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/transfer"
)

func (a *app) transferCommand() *cobra.Command {
	var format, margin string
	c := &cobra.Command{
		Use: "transfer RUN-A RUN-B", Short: "What carries over from one target to another", Args: cobra.ExactArgs(2),
		Long: `Sets two runs of one study on different targets side by side, such as the lab and
a cluster: which orderings (better or worse than the baseline) and which ratios to
the baseline carried over, which did not, and which the intervals leave open.`,
		Example: "  windtunnel transfer runs/quick-lab runs/quick-kube --format md",
		RunE: func(_ *cobra.Command, args []string) error {
			share, err := parsePercent(margin)
			switch {
			case err != nil:
				return wrong(fmt.Errorf("--margin %s: %w", margin, err))
			case !slices.Contains(transfer.Formats(), format):
				return wrong(fmt.Errorf("no format %q; known: %s", format, strings.Join(transfer.Formats(), ", ")))
			}
			return a.transfer(args[0], args[1], share, format)
		},
	}
	c.Flags().StringVar(&margin, "margin", "10%", "`share` within which two ratios count as the same")
	c.Flags().StringVar(&format, "format", "text", "one of "+strings.Join(transfer.Formats(), ", "))
	return c
}

func (a *app) transfer(dirA, dirB string, margin float64, format string) error {
	_, one, errA := readRun(dirA)
	_, other, errB := readRun(dirB)
	if err := errors.Join(errA, errB); err != nil {
		return wrong(fmt.Errorf("reading the runs: %w", err))
	}
	if one.Name != other.Name || one.Run.Baseline != other.Run.Baseline {
		return wrong(fmt.Errorf("these are runs of different studies: %s with baseline %s, and %s with baseline %s", one.Name, one.Run.Baseline, other.Name, other.Run.Baseline))
	}
	r := transfer.Runs(one, other, margin)
	if len(r.Rows) == 0 {
		return wrong(errors.New("the runs have no comparison in common: " + strings.Join(r.Missing, ", ")))
	}
	return r.Write(a.env.Stdout, format)
}
