package cli

import (
	"net"

	"github.com/spf13/cobra"
)

func (a *app) echoCommand() *cobra.Command {
	var listen, identity string
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.catalog.Echo(cmd.Context(), listen, identity, a.listening)
		},
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:8080", "`address` to listen on; port 0 takes a free one")
	c.Flags().StringVar(&identity, "identity", "echo", "`name` that is stamped on every answer as x-windtunnel-identity")
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
	a.complain("echo listens on %s: HTTP/1.1, h2c and gRPC, TCP and UDP. ctrl-C ends it.\nTry: windtunnel load http://%s/ --rate 1000\n",
		addr, net.JoinHostPort(host, port))
}
