// Command windtunnel is a wind tunnel for Kubernetes networks.
package main

import (
	"context"
	"net"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/term"

	"github.com/windtunnel/windtunnel/internal/cli"
)

func main() { os.Exit(run()) }

// run is main with a result, so that tests can be the program, too.
func run() int {
	return cli.Main(context.Background(), cli.Env{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Terminal: term.IsTerminal(int(os.Stdout.Fd())), Version: version(), Now: time.Now,
		StderrTerminal: term.IsTerminal(int(os.Stderr.Fd())), Lookup: net.DefaultResolver.LookupNetIP,
	}, withKube(catalog(os.Getenv("XDG_RUNTIME_DIR"))))
}

// version is the module's, or the commit that it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(12, len(s.Value))]
		}
	}
	return info.Main.Version
}
