package labtest

import (
	"context"
	"encoding/json"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/windtunnel/windtunnel/internal/hop"
	"github.com/windtunnel/windtunnel/internal/model"
)

// New makes a plug-in of a configuration, as a study does.
func New[T any](tb testing.TB, p model.Plugin[T], config string) T {
	tb.Helper()
	made, err := p.New(json.RawMessage(config))
	if err != nil {
		tb.Fatal(err)
	}
	return made
}

// Configs checks what a plug-in says to configurations: an error with the words,
// or nothing where there are no words.
func Configs[T any](t *testing.T, p model.Plugin[T], words map[string]string) {
	t.Helper()
	for config, want := range words {
		_, err := p.New(json.RawMessage(config))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want an error with %q", config, err, want)
		}
	}
}

// AppServer is what the program does as a server of an app, for Main.
func AppServer(app string, serve func(ctx context.Context, file string) error) Commands {
	return Commands{hop.Command: func(args []string) int {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if len(args) != 2 || args[0] != app || serve(ctx, args[1]) != nil {
			return 1
		}
		return 0
	}}
}
