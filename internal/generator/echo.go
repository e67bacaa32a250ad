package generator

import (
	"errors"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/command"
)

// EchoOptions are what the echo server is started with.
type EchoOptions struct {
	Listen   string
	Identity string
	// What is planted in every request.
	PlantDelay time.Duration
	PlantFail  float64 // share
	PlantBurn  time.Duration
	// Impairable lets the fault server change what is planted.
	Impairable bool
	Ready      func(net.Addr) // is told where it listens
}

func (a *app) echoCommand() *cobra.Command {
	var o EchoOptions
	c := &cobra.Command{
		Use: "echo", Short: "Serve what `load` can load: HTTP/1.1, h2c, gRPC, TCP and UDP on one port", Args: cobra.NoArgs,
		Long: `Serves until ctrl-C, on one port: HTTP/1.1 and HTTP/2 without TLS, gRPC, and what
tcp:// and udp:// loads ask for.

  GET  /         a fixed body of 27 bytes
  GET  /size/N   N bytes, at most 64 MiB
  POST, PUT      the request's own body, at most 64 MiB

Every answer carries the header x-windtunnel-identity.`,
		Example: `  windtunnel echo
  windtunnel echo --listen :9000 --identity server-1`,
		PreRunE: func(*cobra.Command, []string) error {
			if !(o.PlantFail >= 0 && o.PlantFail <= 1) || o.PlantDelay < 0 || o.PlantBurn < 0 {
				return command.Wrong(errors.New("--plant-fail is a share from 0 to 1, --plant-delay and --plant-burn are not negative"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.catalog.Echo(cmd.Context(), o)
		},
	}
	c.Flags().StringVar(&o.Listen, "listen", "127.0.0.1:8080", "`address` to listen on; port 0 takes a free one")
	c.Flags().StringVar(&o.Identity, "identity", "echo", "`name` that is stamped on every answer as x-windtunnel-identity")
	c.Flags().DurationVar(&o.PlantDelay, "plant-delay", 0, "`time` that every answer waits: an effect of a known size, to prove measurements by")
	c.Flags().Float64Var(&o.PlantFail, "plant-fail", 0, "`share` of requests that are answered with status 503, from 0 to 1")
	c.Flags().DurationVar(&o.PlantBurn, "plant-burn", 0, "CPU `time` that every request costs besides")
	c.Flags().BoolVar(&o.Impairable, "impairable", false, "let processes of this network namespace change what is planted")
	_ = c.Flags().MarkHidden("impairable") // there is such a flag
	o.Ready = a.listening
	return c
}

// listening says where the echo server is, and how to load it.
func (a *app) listening(addr net.Addr) {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return // an address that no URL can name
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1" // as good as any
	}
	a.env.Complain("echo listens on %s: HTTP/1.1, h2c and gRPC, TCP and UDP. ctrl-C ends it.\nTry: windtunnel load http://%s/ --rate 1000\n",
		addr, net.JoinHostPort(host, port))
}
