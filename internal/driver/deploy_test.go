package driver_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/app/echo"
	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
)

// deploy starts the echo app and waits until it listens.
func deploy(t *testing.T, site model.Site) []netip.AddrPort {
	t.Helper()
	endpoints, err := echo.App{}.Deploy(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	var all []netip.AddrPort
	for _, b := range endpoints.Backends {
		all = append(all, b.Addr)
		labtest.In(t, site, "client-0", func() error { return listens(b.Addr) })
	}
	return all
}

// listens dials on the calling thread: an address needs no other.
func listens(addr netip.AddrPort) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var err error
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); <-tick.C {
		var conn net.Conn
		if conn, err = net.DialTimeout("tcp", addr.String(), time.Second); err == nil {
			return conn.Close()
		}
	}
	return err
}
