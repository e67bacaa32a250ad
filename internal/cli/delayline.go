package cli

import "github.com/spf13/cobra"

// delayLineCommand is what the lab starts to emulate links.
func (a *app) delayLineCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delay-line", Short: "Emulate links on command over standard input", Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.catalog.DelayLine(a.env.Stdin, a.env.Stdout) },
	}
}
