// Package generator is the commands of the load generator: load, what load can
// be sent to, and the agent that sends it for a run. They are apart from the
// others because they need little, and should take little: an agent's memory
// is in the way of what it measures.
package generator

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/agent"
	"github.com/windtunnel/windtunnel/internal/command"
)

// Catalog is what the commands choose from.
type Catalog struct {
	Protocols agent.Protocols
	// Echo serves until the context ends.
	Echo func(ctx context.Context, o EchoOptions) error
}

// Commands are load, echo and agent.
func Commands(env command.Env, catalog Catalog) []*cobra.Command {
	a := &app{env, catalog}
	return []*cobra.Command{a.loadCommand(), a.echoCommand(), a.agentCommand()}
}

// Names are the names of Commands.
func Names() []string { return []string{"load", "echo", "agent"} }

type app struct {
	env     command.Env
	catalog Catalog
}

// pipe joins standard input and output.
type pipe struct {
	io.Reader
	io.Writer
}

func (a *app) agentCommand() *cobra.Command {
	return &cobra.Command{
		Use: "agent", Short: "Generate load on command over standard input", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return agent.Serve(cmd.Context(), pipe{a.env.Stdin, a.env.Stdout}, a.catalog.Protocols)
		},
	}
}
