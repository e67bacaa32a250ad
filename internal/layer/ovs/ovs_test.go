package ovs

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"testing"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestMain(m *testing.M) {
	// The tests mostly wait: for switches to connect, for packets that are too
	// large. One after the other they take minutes.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	labtest.Main(m, labtest.Commands{Command: func(args []string) int {
		if Serve(context.Background(), args[0], slog.New(slog.NewTextHandler(os.Stderr, nil))) != nil {
			return 1
		}
		return 0
	}})
}

// need skips where there is no Open vSwitch.
func need(t *testing.T) {
	t.Helper()
	labtest.Need(t)
	if err := (&fabric{}).find(); err != nil {
		t.Skip(err)
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	need(t)
	for kind, tunnel := range tunnels() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			labtest.NetworkLayer(t, labtest.NetworkSuite{
				Plugin: Plugin(), Config: map[string]any{"tunnel": kind}, Form: tunnel.form.String(), Overhead: tunnel.overhead,
				DataPath: "Open vSwitch, user-space datapath", Service: func(*testing.T) model.Layer { return own{} },
			})
		})
	}
}

// own is no layer: the switches make services themselves.
type own struct{ Fronted }

func (own) Deploy(context.Context, model.Site) (func(context.Context) error, error) {
	return func(context.Context) error { return nil }, nil
}
