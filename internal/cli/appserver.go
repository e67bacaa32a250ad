package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// AppServer serves for an app of several services until the context ends; file
// says what it is to do.
type AppServer func(ctx context.Context, file string) error

// appServerCommand is what such apps start in pods.
func (a *app) appServerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "app-server APP FILE", Short: "Serve for an app of several services, as a file says", Hidden: true, Args: cobra.ExactArgs(2), //nolint:mnd // as Use says
		RunE: func(cmd *cobra.Command, args []string) error {
			serve := a.catalog.AppServers[args[0]]
			if serve == nil {
				known := strings.Join(slices.Sorted(maps.Keys(a.catalog.AppServers)), ", ")
				return wrong(fmt.Errorf("no app %q has such servers; there are %s", args[0], known))
			}
			return serve(cmd.Context(), args[1])
		},
	}
}
