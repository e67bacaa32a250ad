package cli

import "github.com/spf13/cobra"

// burnCommand is what the fault cpu starts in pods and on nodes.
func (a *app) burnCommand() *cobra.Command {
	return &cobra.Command{
		Use: "burn-cpu THREADS", Short: "Burn CPU time until standard input ends", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.catalog.BurnCPU(args[0], a.env.Stdin, a.env.Stdout)
		},
	}
}
