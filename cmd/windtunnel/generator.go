// Command windtunnel is a wind tunnel for Kubernetes networks. With the build tag
// agent it is that one's load generator and the server to try it on, with the tag
// kube it also knows real clusters.
package main

import (
	"context"
	"net"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/term"

	"github.com/windtunnel/windtunnel/internal/agent"
	"github.com/windtunnel/windtunnel/internal/app/echo"
	"github.com/windtunnel/windtunnel/internal/command"
	"github.com/windtunnel/windtunnel/internal/generator"
	"github.com/windtunnel/windtunnel/internal/load/grpc"
	"github.com/windtunnel/windtunnel/internal/load/http1"
	"github.com/windtunnel/windtunnel/internal/load/http2"
	"github.com/windtunnel/windtunnel/internal/load/icmp"
	"github.com/windtunnel/windtunnel/internal/load/tcp"
	"github.com/windtunnel/windtunnel/internal/load/udp"
)

func main() { os.Exit(run()) }

// generators is the part of the catalog that load generators need.
func generators() generator.Catalog {
	return generator.Catalog{
		Protocols: agent.Protocols{
			http1.Plugin(),
			http2.Plugin(),
			grpc.Plugin(),
			tcp.Plugin(),
			udp.Plugin(),
			icmp.Plugin(),
		},
		Echo: serveEcho,
	}
}

func serveEcho(ctx context.Context, o generator.EchoOptions) error {
	plant := echo.Plant{Delay: o.PlantDelay, Fail: o.PlantFail, Burn: o.PlantBurn}
	return echo.Serve(ctx, echo.Options{Listen: o.Listen, Identity: o.Identity, Ready: o.Ready, Plant: plant, Impairable: o.Impairable})
}

// outside is the world of this process.
func outside() command.Env {
	return command.Env{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Terminal: term.IsTerminal(int(os.Stdout.Fd())), Version: version(), Now: time.Now,
		StderrTerminal: term.IsTerminal(int(os.Stderr.Fd())), Lookup: net.DefaultResolver.LookupNetIP,
	}
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
