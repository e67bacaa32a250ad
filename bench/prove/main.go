// Command prove proves what docs/method.md says. `prove stats` does so by
// simulation, and writes the page's table. Everything else is the windtunnel
// program with one more layer, `pick`, so that `prove run` can measure planted
// effects in the lab; `prove lab` does that many times, and judges.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/windtunnel/windtunnel/internal/agent"
	"github.com/windtunnel/windtunnel/internal/app/echo"
	"github.com/windtunnel/windtunnel/internal/cli"
	"github.com/windtunnel/windtunnel/internal/command"
	"github.com/windtunnel/windtunnel/internal/generator"
	"github.com/windtunnel/windtunnel/internal/load/http1"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/report/csv"
	"github.com/windtunnel/windtunnel/internal/report/html"
	"github.com/windtunnel/windtunnel/internal/report/json"
	"github.com/windtunnel/windtunnel/internal/report/markdown"
	"github.com/windtunnel/windtunnel/internal/report/text"
	"github.com/windtunnel/windtunnel/internal/target/lab"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) } //nolint:forbidigo // a program of its own

func run(args []string, stdout, stderr io.Writer) int {
	prove := map[string]func([]string, io.Writer) error{"stats": proveStats, "lab": proveLab}
	if len(args) == 0 || prove[args[0]] == nil {
		return cli.Main(context.Background(), command.Env{
			Args: args, Stdin: os.Stdin, Stdout: stdout, Stderr: stderr, //nolint:forbidigo // as above
			Version: "prove", Now: time.Now, Lookup: net.DefaultResolver.LookupNetIP,
		}, catalog())
	}
	err := prove[args[0]](args[1:], stdout)
	switch {
	case errors.Is(err, errNotProved):
		return command.ExitGate
	case err != nil:
		_, _ = fmt.Fprintln(stderr, "prove:", err)
		return command.ExitFailed
	}
	return command.ExitDone
}

// errNotProved says that what was promised was not found.
var errNotProved = errors.New("not proved")

// catalog is what the planted studies need, and the layer that only they have.
func catalog() cli.Catalog {
	return cli.Catalog{
		Lab:    lab.New(lab.StateDir(os.Getuid(), os.Getenv("XDG_RUNTIME_DIR"))), //nolint:forbidigo // as above
		Layers: []model.Plugin[model.Layer]{pickPlugin()},
		Apps:   []model.Plugin[model.App]{echo.Plugin()},
		Formats: []cli.Format{
			{Name: "text", Summary: "for a terminal", Format: text.Format{}},
			{Name: "md", Summary: "for a pull request", Format: markdown.Format{}},
			{Name: "csv", Summary: "every value of every trial", Format: csv.Format{}},
			{Name: "html", Summary: "one self-contained page", Format: html.Format{}},
			{Name: "json", Summary: "the report's model", Format: json.Format{}},
		},
		Generator: generator.Catalog{
			Protocols: agent.Protocols{http1.Plugin()},
			Echo: func(ctx context.Context, o generator.EchoOptions) error {
				plant := echo.Plant{Delay: o.PlantDelay, Fail: o.PlantFail, Burn: o.PlantBurn}
				return echo.Serve(ctx, echo.Options{Listen: o.Listen, Identity: o.Identity, Ready: o.Ready, Plant: plant})
			},
		},
	}
}
