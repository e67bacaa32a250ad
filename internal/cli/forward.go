package cli

import (
	"context"

	"github.com/windtunnel/windtunnel/internal/monitor"
)

// anyPort is where metrics are served that only --remote-write asks for.
const anyPort = "127.0.0.1:0"

// checkRemoteWrite says what is wrong with --remote-write before anything is made,
// and sees to it that there are metrics.
func checkRemoteWrite(o *runOptions) error {
	if o.remoteWrite == "" {
		return nil
	}
	if err := monitor.CheckRemote(o.remoteWrite); err != nil {
		return wrong(err)
	}
	if o.metrics == "" {
		o.metrics = anyPort
	}
	return nil
}

// forwarding is --remote-write of a run.
type forwarding struct {
	app *app
	to  string // empty: not asked for
	f   *monitor.Forwarder
}

// start begins to forward what is served at an address.
func (w *forwarding) start(ctx context.Context, address string) {
	if w.to != "" {
		w.f = monitor.Forward(ctx, address, w.to, func(err error) { w.app.complain("windtunnel: %s; it goes on trying\n", err) })
	}
}

// finish waits until what has been read is written. A run is no worse for what
// could not be: it is only said.
func (w *forwarding) finish() {
	if w.f == nil {
		return
	}
	sent, failed, err := w.f.Stop()
	if w.f = nil; failed > 0 {
		w.app.complain("windtunnel: %d of %d remote writes failed; the last: %s\n", failed, sent+failed, err)
	}
}
