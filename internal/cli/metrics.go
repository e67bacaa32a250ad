package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/windtunnel/windtunnel/internal/agent"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/monitor"
	"github.com/windtunnel/windtunnel/internal/runner"
)

// lastScrape is how long a run whose metrics have been read stays after its last
// trial, so that this one is read, too: twice Prometheus' usual interval.
const lastScrape = 30 * time.Second

// watched is a run's progress as people see it, and as Prometheus does.
type watched struct {
	runner.Progress
	monitor *monitor.Monitor // nil: nobody asks
	doing   doing
	stop    func(context.Context) error
	forward *forwarding
	app     *app
}

// checkMetrics says what is wrong with an address before anything is made.
func checkMetrics(text string) error {
	if text == "" {
		return nil
	}
	if _, err := monitor.Address(text); err != nil {
		return wrong(err)
	}
	return nil
}

// listen opens the address of --metrics.
func (a *app) listen(ctx context.Context, text string) (net.Listener, error) {
	address, err := monitor.Address(text)
	if err != nil {
		return nil, wrong(err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, wrong(fmt.Errorf("listening for --metrics: %w", err))
	}
	return l, nil
}

// listenerFile is the listener of --metrics as a file, to be brought into the lab.
// What is written to a remote is read at it from outside.
func (a *app) listenerFile(ctx context.Context, text string, to *forwarding) (*os.File, error) {
	l, err := a.listen(ctx, text)
	if err != nil {
		return nil, err
	}
	to.start(ctx, l.Addr().String())
	defer l.Close() //nolint:errcheck // the file is another handle of the same socket
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil, fmt.Errorf("--metrics %s: not a TCP address", text)
	}
	f, err := tcp.File()
	if err != nil {
		return nil, fmt.Errorf("handing the listener of --metrics to the lab: %w", err)
	}
	return f, nil
}

// watch tells Prometheus, too, where the run's options ask for it.
func (a *app) watch(ctx context.Context, j job, o runOptions, at place, shown runner.Progress) (*watched, error) {
	w := &watched{Progress: shown, app: a, forward: &forwarding{app: a, to: o.remoteWrite}}
	if o.metrics == "" {
		return w, nil
	}
	l, err := a.metricsListener(ctx, o.metrics, at.listener)
	if err != nil {
		return nil, err
	}
	clock := agent.Now
	if j.plan.Study.Target != model.TargetLab {
		clock = func() (int64, error) { return 0, errors.New("the generator's clock is another host's") }
	}
	w.monitor = monitor.New(j.plan.Study.Name, a.env.Version, a.env.Now, clock)
	if w.stop, err = w.monitor.Serve(l); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if !o.quiet {
		a.complain("metrics: http://%s/metrics\n", l.Addr())
	}
	if o.remoteWrite != "" {
		w.monitor.Forwarded()
		if at.listener == nil { // in the lab, what is outside forwards
			w.forward.start(ctx, l.Addr().String())
		}
	}
	return w, nil
}

// metricsListener is the one that was brought, or a new one.
func (a *app) metricsListener(ctx context.Context, address string, brought *os.File) (net.Listener, error) {
	if brought == nil {
		return a.listen(ctx, address)
	}
	defer brought.Close() //nolint:errcheck // the listener has its own handle
	l, err := net.FileListener(brought)
	if err != nil {
		return nil, fmt.Errorf("taking over the listener of --metrics: %w", err)
	}
	return l, nil
}

// Started tells both.
func (w *watched) Started(t model.Trial, done, total int) {
	w.Progress.Started(t, done, total)
	w.doing.set(t, "")
	if w.monitor != nil {
		w.monitor.Started(t, done, total)
	}
}

// Step tells both.
func (w *watched) Step(t model.Trial, step string) {
	w.Progress.Step(t, step)
	w.doing.set(t, step)
	if w.monitor != nil {
		w.monitor.Step(t, step)
	}
}

// Load tells both.
func (w *watched) Load(t model.Trial, p agent.Progress) {
	w.Progress.Load(t, p)
	if w.monitor != nil {
		w.monitor.Load(t, p)
	}
}

// Finished tells both.
func (w *watched) Finished(o *model.Outcome, done, total int) {
	w.Progress.Finished(o, done, total)
	if w.monitor != nil {
		w.monitor.Finished(o, done, total)
	}
}

// close ends the telling: if anybody has asked, once they have asked again.
func (w *watched) close(ctx context.Context) {
	if w.monitor == nil {
		return
	}
	last := w.monitor.End()
	limit := time.NewTimer(lastScrape)
	defer limit.Stop()
	select {
	case <-last:
	case <-limit.C:
		w.app.complain("windtunnel: nobody has read the metrics of the last trial within %s\n", lastScrape)
	case <-ctx.Done():
	}
	w.forward.finish()
	if err := w.stop(ctx); err != nil {
		w.app.complain("windtunnel: %s\n", err)
	}
}
