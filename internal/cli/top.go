package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/report"
	"github.com/windtunnel/windtunnel/internal/store"
)

type topOptions struct {
	variant, load string
	trial         int
	live          bool
	every         time.Duration
	pictures      int
}

func (a *app) topCommand() *cobra.Command {
	var o topOptions
	c := &cobra.Command{
		Use: "top [--live] RUN", Short: "Show what passed every device, tunnel and link of a run, or passes now", Args: cobra.MaximumNArgs(1),
		Long: `Shows a run's regions, clusters, nodes, pods, tunnels and links with the rates at which
they were passed in the measured windows: for every variant and load the median over
the valid trials, or one trial as it was.

Rates are those of the kernel's counters, headers included. A large segment that the
kernel keeps whole is one packet.

With --live it shows a run that goes on in the lab on this host, or without RUN the only
one, or what up keeps, until that ends: rates since the last picture. Looking costs a few milliseconds of CPU time a
picture, on the CPUs of everything but the generator: better not while you measure.`,
		Example: `  windtunnel top runs/cni
  windtunnel top runs/cni --variant flannel-native --load tcp-across
  windtunnel top runs/cni --trial 17
  windtunnel top --live`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && !o.live {
				return wrong(errors.New("top takes a run folder, or --live"))
			}
			for _, only := range []string{"every", "pictures"} {
				if !o.live && cmd.Flags().Changed(only) {
					return wrong(fmt.Errorf("--%s is for --live", only))
				}
			}
			if !o.live {
				return a.top(args[0], o)
			}
			for _, not := range []string{"variant", "load", "trial"} {
				if cmd.Flags().Changed(not) {
					return wrong(fmt.Errorf("--%s is of a run folder: what is under way cannot be chosen", not))
				}
			}
			return a.topLive(cmd.Context(), strings.Join(args, ""), o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.variant, "variant", "", "only this `variant`")
	f.StringVar(&o.load, "load", "", "only this `load`")
	f.BoolVar(&o.live, "live", false, "show what is under way on this host")
	f.DurationVar(&o.every, "every", time.Second, "with --live: `time` between pictures, shorter than a trial")
	f.IntVar(&o.pictures, "pictures", 0, "with --live: end after this `number` of them")
	f.IntVar(&o.trial, "trial", 0, "only the trial of this `number`, as it was")
	return c
}

func (a *app) top(dir string, o topOptions) error {
	run, err := store.Open(dir)
	if err != nil {
		return wrong(err)
	}
	m, err := report.Build(run)
	if err != nil {
		return err
	}
	all := m.Topology.Traffic
	if o.trial != 0 {
		if all, err = trafficOfTrial(run.Outcomes, o.trial); err != nil {
			return wrong(err)
		}
	}
	all = slices.DeleteFunc(slices.Clone(all), func(t report.Traffic) bool {
		return o.variant != "" && t.Variant != o.variant || o.load != "" && t.Load != o.load
	})
	if len(all) == 0 {
		return wrong(fmt.Errorf("%s has no traffic of a valid trial of what was asked for (--trial shows any); its variants are %s, its loads %s", dir,
			names(m.Variants, func(v report.Variant) string { return v.Name }), names(m.Loads, func(l report.Load) string { return l.Name })))
	}
	for i, t := range all {
		if i > 0 {
			a.printf("\n")
		}
		if err := writeTraffic(a.env.Stdout, titleOf(t), m.Topology.Nodes, t); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
	}
	return nil
}

func trafficOfTrial(outcomes []model.Outcome, index int) ([]report.Traffic, error) {
	i := slices.IndexFunc(outcomes, func(o model.Outcome) bool { return o.Trial.Index == index })
	if i < 0 {
		return nil, fmt.Errorf("--trial %d: the run has trials 1 to %d", index, len(outcomes))
	}
	t := report.TrafficOf([]*model.Outcome{&outcomes[i]})
	if len(t.Devices) == 0 {
		return nil, fmt.Errorf("--trial %d: its traffic was not sampled", index)
	}
	t.Variant, t.Load = outcomes[i].Trial.Variant, outcomes[i].Trial.Load
	return []report.Traffic{t}, nil
}

func titleOf(t report.Traffic) string {
	count := fmt.Sprintf("median of %d trials", t.Trials)
	if t.Trials == 1 {
		count = "one trial"
	}
	return fmt.Sprintf("%s, %s (%s)", t.Variant, t.Load, count)
}

// writeTraffic prints the site as a tree, with a line a device.
func writeTraffic(out io.Writer, title string, nodes []report.Node, t report.Traffic) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(cells ...string) { _, _ = fmt.Fprintln(w, strings.Join(cells, "\t")+"\t") }
	_, _ = fmt.Fprintln(out, title)
	line(tree(0, ""), "in", "out", "packets in/s", "out/s", "dropped/s")
	place := ""
	for _, n := range nodes {
		if at := n.Region + "/" + n.Cluster; at != place {
			place = at
			line(tree(0, place), "", "", "", "", "")
		}
		line(tree(1, n.Name), "", "", "", "", "")
		for _, cells := range devicesOf(n, t.Devices) {
			line(cells...)
		}
	}
	for _, d := range t.Devices {
		if d.Kind == metric.KindLink {
			line(tree(0, "link "+strings.Replace(d.Place, ">", " to ", 1)), "", "", "", digits(d.OutPackets), digits(d.Dropped))
		}
	}
	return w.Flush()
}

// devicesOf are the lines of a node's own devices, and then of its pods'.
func devicesOf(n report.Node, all []report.Device) [][]string {
	var lines [][]string
	for _, d := range all {
		if d.Place == n.Name && d.Kind != model.PlacePod {
			lines = append(lines, device(d, tree(2, d.Name+note(d))))
		}
	}
	for _, p := range n.Pods {
		for _, d := range all {
			if d.Place == p.Name && d.Kind == model.PlacePod {
				lines = append(lines, device(d, tree(2, "pod "+p.Name+" ("+p.Role+") "+d.Name)))
			}
		}
	}
	return lines
}

// tree indents; what follows fills the column, so that it stands left.
func tree(depth int, text string) string {
	const column = 44
	return fmt.Sprintf("%-*s", column, strings.Repeat("  ", depth)+text)
}

func note(d report.Device) string {
	if d.Kind == model.PlaceUnderlay {
		return " (underlay)"
	}
	return ""
}

func device(d report.Device, name string) []string {
	bits := func(v float64) string { return report.FormatValue(metric.UnitBits, v) }
	return []string{name, bits(d.In), bits(d.Out), digits(d.InPackets), digits(d.OutPackets), digits(d.Dropped)}
}

func digits(v float64) string { return report.FormatValue(metric.UnitCount, v) }
