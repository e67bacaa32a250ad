package cli

import (
	"log/slog"

	"github.com/spf13/cobra"
)

// openFlowCommand is the controller that the layer ovs starts on a node.
func (a *app) openFlowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "openflow-controller PLAN", Short: "Tell switches what to do, by a plan's file", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.catalog.OpenFlow(c.Context(), args[0], slog.New(slog.NewTextHandler(a.env.Stderr, nil)))
		},
	}
}
