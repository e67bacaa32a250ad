package echo

import (
	"context"
	"encoding/json"
	"flag"
	"os/signal"
	"syscall"
	"testing"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestMain(m *testing.M) {
	labtest.Main(m, labtest.Commands{"echo": command, "agent": agentCommand})
}

// command is what the program does as `windtunnel echo`.
func command(args []string) int {
	var o Options
	flags := flag.NewFlagSet("echo", flag.ContinueOnError)
	flags.StringVar(&o.Listen, "listen", "", "")
	flags.StringVar(&o.Identity, "identity", "", "")
	flags.BoolVar(&o.Impairable, "impairable", false, "")
	if flags.Parse(args) != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if Serve(ctx, o) != nil {
		return 1
	}
	return 0
}

func TestConformance(t *testing.T) {
	t.Parallel()
	labtest.App(t, labtest.AppSuite{New: func(*testing.T) model.App { return App{} }, Servers: 3})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for raw, ok := range map[string]bool{"": true, " {} ": true, "null": true, `{"size": 1}`: false, "[]": false} {
		if _, err := Plugin().New(json.RawMessage(raw)); (err == nil) != ok {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

// empty is a site without services.
type empty struct{ model.Site }

func (empty) Topology() model.Topology { return model.Topology{} }

func TestNothingToDeploy(t *testing.T) {
	t.Parallel()
	if _, err := (App{}).Deploy(t.Context(), empty{}); err == nil {
		t.Error("no error")
	}
}
