package cli

import (
	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/podside"
)

// podCommand is what the program does inside a pod of the target kube.
func (a *app) podCommand() *cobra.Command {
	c := &cobra.Command{Use: "pod", Short: "What the program does in pods of Kubernetes", Hidden: true}
	c.AddCommand(
		&cobra.Command{
			Use: "idle", Short: "Keep the pod alive", Args: cobra.NoArgs,
			Run: func(cmd *cobra.Command, _ []string) { podside.Idle(cmd.Context()) },
		},
		&cobra.Command{
			Use: "run", Short: "Run the process that standard input describes, until that ends", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				code, err := podside.Run(cmd.Context(), a.env.Stdin, a.env.Stdout, a.env.Stderr)
				if err == nil && code != 0 {
					return silent(code)
				}
				return err
			},
		},
		&cobra.Command{
			Use: "get URL", Short: "Print what a proxy in the pod says of itself", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				return podside.Get(cmd.Context(), args[0], a.env.Stdout)
			},
		},
		&cobra.Command{
			Use: "signal PID NAME", Short: "Kill, stop or continue a process of the pod", Args: cobra.ExactArgs(2),
			RunE: func(cmd *cobra.Command, args []string) error { return podside.Signal(cmd.Context(), args[0], args[1]) },
		},
		&cobra.Command{
			Use: "probe", Short: "Tell clocks and resources, a line for a line", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { return podside.Probe(a.env.Stdin, a.env.Stdout, a.env.Version) },
		},
	)
	return c
}
