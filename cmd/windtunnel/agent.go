//go:build agent

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/command"
	"github.com/windtunnel/windtunnel/internal/generator"
)

func run() int {
	env := outside()
	root := &cobra.Command{
		Use: "windtunnel", Short: "The load generator of a wind tunnel for Kubernetes networks",
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.AddCommand(generator.Commands(env, generators())...)
	return command.Run(context.Background(), env, root)
}
