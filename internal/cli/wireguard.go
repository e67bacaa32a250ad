package cli

import "github.com/spf13/cobra"

// wireguardCommand is what the layer wireguard starts on nodes where the
// kernel has none.
func (a *app) wireguardCommand() *cobra.Command {
	return &cobra.Command{
		Use: "wireguard", Short: "Carry packets on command over standard input", Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.catalog.WireGuard(a.env.Stdin, a.env.Stdout) },
	}
}
