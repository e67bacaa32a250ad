package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/report"
)

// doing is what a run is doing, for whoever asks while it goes on.
type doing struct {
	mu   sync.Mutex
	text string
}

func (d *doing) set(t model.Trial, step string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.text = fmt.Sprintf("trial %d, %s, %s", t.Index, t.Variant, t.Load)
	if step != "" {
		d.text += ": " + step
	}
}

func (d *doing) say() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text
}

// serveLive lets others look at what passes the lab's devices while f runs.
// That nobody can is no reason to end it.
func (a *app) serveLive(ctx context.Context, at place, run string, say func() string, f func() error) error {
	if at.target != model.Target(a.catalog.Lab) {
		return f() // its devices are other hosts'
	}
	if run != "" {
		var err error
		if run, err = filepath.Abs(run); err != nil {
			return fmt.Errorf("finding the run's folder: %w", err)
		}
	}
	live, stop := context.WithCancel(ctx)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := a.catalog.Lab.ServeLive(live, run, say); err != nil {
			a.complain("windtunnel: %s\n", err)
		}
	})
	err := f()
	stop()
	serving.Wait()
	return err
}

// The terminal's own words: to its first corner, and clear what follows.
const (
	homePosition = "\x1b[H"
	clearBelow   = "\x1b[J"
)

// topLive draws what goes on in the lab, again and again.
func (a *app) topLive(ctx context.Context, dir string, o topOptions) error {
	if o.every <= 0 || o.pictures < 0 {
		return wrong(errors.New("--every must be above 0, and --pictures not below"))
	}
	if dir != "" {
		var err error
		if dir, err = filepath.Abs(dir); err != nil {
			return fmt.Errorf("finding the run's folder: %w", err)
		}
	}
	var last model.Live
	drawn := 0
	var failure error
	err := a.catalog.Lab.Watch(ctx, dir, o.every, func(now model.Live) bool {
		between, title, ok := rates(last, now)
		last = now
		if !ok {
			return true
		}
		if a.env.Terminal {
			a.printf(homePosition + clearBelow)
		} else if drawn > 0 {
			a.printf("\n")
		}
		failure = writeTraffic(a.env.Stdout, title, report.NodesOf(now.Topology), between)
		drawn++
		return failure == nil && drawn != o.pictures
	})
	return errors.Join(err, failure)
}

// rates are those between two looks at one site.
func rates(last, now model.Live) (t report.Traffic, title string, ok bool) {
	if last.Site == "" || last.Site != now.Site {
		return t, "", false
	}
	var o model.Outcome
	before := map[[2]string]model.Reading{}
	for _, r := range last.Readings {
		before[[2]string{r.Subject, r.Metric}] = r
	}
	for _, r := range now.Readings {
		b, ok := before[[2]string{r.Subject, r.Metric}]
		if !ok || r.At <= b.At {
			continue
		}
		if o.Window.Start == 0 || b.At < o.Window.Start {
			o.Window.Start = b.At
		}
		o.Window.End = max(o.Window.End, r.At)
		o.Samples = append(o.Samples, model.Series{Subject: r.Subject, Metric: r.Metric, At: []int64{b.At, r.At}, Values: []float64{b.Value, r.Value}})
	}
	t = report.TrafficOf([]*model.Outcome{&o})
	title = fmt.Sprintf("%s (the last %s)", now.Doing, o.Window.Duration().Round(10*time.Millisecond))
	return t, title, len(t.Devices) > 0
}
