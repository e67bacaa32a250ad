package feature

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

const statusOK = http.StatusOK

// tries is how often a check is done that does not come out as yes although
// the rules were taken: what a proxy is told, its threads follow a moment later.
const tries = 5

// applied is said of rules that a layer has taken.
const applied = "applied"

// pauseBetween is the time between tries.
const pauseBetween = 400 * time.Millisecond

// Run does a check.
func (b *Bench) Run(ctx context.Context, c Check) (r Result, err error) {
	told, undo, err := b.apply(ctx, c)
	if err != nil {
		return r, fmt.Errorf("%s: %w", c.Name, err)
	}
	defer func() { err = errors.Join(err, undo(context.WithoutCancel(ctx))) }()
	if err := b.settle(ctx); err != nil {
		return r, err
	}
	for try := range tries {
		if try > 0 {
			wait(ctx, pauseBetween)
		}
		seen, err := b.look(ctx, c)
		if err != nil {
			return r, fmt.Errorf("%s: %w", c.Name, err)
		}
		r = c.Judge(seen)
		if r.Verdict == Yes || !b.changes() || told != "" && told != applied {
			break
		}
	}
	r.Rules = told
	return r, b.behave(ctx, nil)
}

// settle sends requests that nobody judges, where layers take rules: they end
// the proxies' connections among each other that began under other rules.
func (b *Bench) settle(ctx context.Context) error {
	const enough = 20
	if !b.changes() {
		return nil
	}
	for _, from := range []string{Client, Stranger} {
		if _, err := b.burst(ctx, Burst{From: from, To: ToService, Count: enough, Path: "/", Parallel: 2, Fresh: true}); err != nil {
			return err
		}
	}
	return nil
}

// changes says whether any layer has proxies of its own, which can be late.
func (b *Bench) changes() bool {
	for _, l := range b.layers {
		if _, ok := l.(model.Router); ok {
			return true
		}
	}
	return false
}

// apply gives the rules to all layers that take any, and says what became of them.
func (b *Bench) apply(ctx context.Context, c Check) (told string, undo func(context.Context) error, err error) {
	var done []func(context.Context) error
	undo = func(ctx context.Context) error {
		var errs []error
		for _, u := range done {
			errs = append(errs, u(ctx))
		}
		return errors.Join(errs...)
	}
	if c.Rules == nil {
		return "", undo, nil
	}
	rules := c.Rules(Addresses{Allowed: b.addrs[ToAllowed][0], Spans: netip.AddrPortFrom(b.addrs[ToAllowed][0].Addr(), portSpans)})
	rules.Service = Service
	told = "no layer of the stack takes such rules"
	for _, l := range b.layers {
		router, ok := l.(model.Router)
		if !ok {
			continue
		}
		u, err := router.Apply(ctx, b.site, rules)
		var missing *model.UnsupportedError
		switch {
		case errors.As(err, &missing):
			told = "refused: " + missing.Missing
			continue
		case err != nil:
			return told, undo, errors.Join(err, undo(context.WithoutCancel(ctx)))
		}
		done = append(done, u)
		told = applied
	}
	return told, undo, nil
}

// look sends what a check asks for, and gathers what was seen.
func (b *Bench) look(ctx context.Context, c Check) (seen Seen, err error) {
	if err = errors.Join(b.behave(ctx, c.Behave), b.forget(ctx)); err != nil {
		return seen, err
	}
	before, err := b.counted(ctx, c.Meter)
	if err != nil {
		return seen, err
	}
	if err = b.hellos(ctx, c, &seen); err != nil {
		return seen, err
	}
	names := make([]string, 0, len(c.Bursts))
	for i, one := range c.Bursts {
		var replies []Reply
		if c.Rotate && i == 0 {
			replies, seen.Rotated, err = b.rotating(ctx, one)
		} else {
			replies, err = b.burst(ctx, one)
		}
		if err != nil {
			return seen, err
		}
		names = append(names, b.burstName()+"-")
		seen.Replies = append(seen.Replies, replies)
	}
	if c.Rotate {
		if err = b.hellos(ctx, c, &seen); err != nil {
			return seen, err
		}
	}
	if c.Meter {
		if seen.Counted, err = b.counted(ctx, true); err != nil {
			return seen, err
		}
		seen.Counted = minus(seen.Counted, before)
	}
	if err = b.receive(ctx, &seen); err != nil {
		return seen, err
	}
	if c.Logs {
		seen.Lines = b.linesOf(ctx, c, seen, names)
	}
	return seen, nil
}

// linesOf are the lines of logs that name requests, once the check is content
// with them: proxies write them a moment later.
func (b *Bench) linesOf(ctx context.Context, c Check, seen Seen, names []string) []string {
	const looks = 20
	for range looks {
		seen.Lines = naming(b.logs(), names)
		if c.Judge(seen).Verdict == Yes || !b.changes() {
			break
		}
		wait(ctx, pauseBetween/4)
	}
	return seen.Lines
}

// receive gathers what servers have got, and what was translated for them.
func (b *Bench) receive(ctx context.Context, seen *Seen) (err error) {
	seen.Got = map[string]Got{}
	for _, name := range b.servers() {
		if seen.Got[name], err = b.scouts[name].tell(ctx); err != nil {
			return err
		}
	}
	for _, l := range b.layers {
		o, ok := l.(model.Observer)
		if !ok {
			continue
		}
		ledger, err := o.Observe(ctx, b.site)
		if err != nil {
			return err
		}
		for _, f := range ledger {
			seen.Translated = seen.Translated || f.Key == model.FactTranslated && strings.HasPrefix(f.Value, "yes")
		}
	}
	return nil
}

// servers are the names of all servers, also those outside.
func (b *Bench) servers() []string {
	all := Pods()
	for _, name := range outsiders() {
		all = append(all, name)
	}
	return all
}

func (b *Bench) behave(ctx context.Context, how map[string]Behaviour) error {
	for _, name := range Pods() {
		one := how[name]
		if _, err := b.scouts[name].do(ctx, order{Behave: &one}); err != nil {
			return err
		}
	}
	return nil
}

// forget drops what servers have got so far.
func (b *Bench) forget(ctx context.Context) error {
	for _, name := range b.servers() {
		if _, err := b.scouts[name].tell(ctx); err != nil {
			return err
		}
	}
	return nil
}

// hellos are answered where ambient meshes speak TLS, or else where the service is.
func (b *Bench) hellos(ctx context.Context, c Check, seen *Seen) error {
	for _, h := range c.Hellos {
		pod, err := b.site.Pod(h.Pod)
		if err != nil {
			return err
		}
		var shown Shown
		for _, port := range []uint16{portHBONE, portTarget} {
			a, err := b.scouts[Outside].do(ctx, order{Hello: &hello{
				Addr: netip.AddrPortFrom(pod.Addr(), port), Versions: [2]uint16{h.Lowest, h.Highest}, Ciphers: h.Ciphers,
			}})
			if err != nil {
				return err
			}
			if shown = *a.Shown; shown.Version != 0 {
				break
			}
		}
		seen.Shown = append(seen.Shown, shown)
	}
	return nil
}

// rotating sends a burst, and in the middle of it has all layers that can give
// their proxies new certificates.
func (b *Bench) rotating(ctx context.Context, one Burst) (replies []Reply, rotated bool, err error) {
	type result struct {
		replies []Reply
		err     error
	}
	done := make(chan result, 1)
	go func() {
		replies, err := b.burst(ctx, one)
		done <- result{replies, err}
	}()
	wait(ctx, one.Over/3)
	var errs []error
	for _, l := range b.layers {
		if r, ok := l.(model.Rotator); ok {
			err := r.Rotate(ctx, b.site)
			rotated = rotated || err == nil
			if !errors.Is(err, model.ErrUnsupported) {
				errs = append(errs, err)
			}
		}
	}
	sent := <-done
	return sent.replies, rotated, errors.Join(append(errs, sent.err)...)
}

// counted are the requests that layers have counted; nil: none counts.
func (b *Bench) counted(ctx context.Context, wanted bool) (map[int]int, error) {
	if !wanted {
		return nil, nil //nolint:nilnil // nobody counts
	}
	var all map[int]int
	for _, l := range b.layers {
		m, ok := l.(model.Meter)
		if !ok {
			continue
		}
		counts, err := m.Requests(ctx, b.site, Service)
		if errors.Is(err, model.ErrUnsupported) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = map[int]int{}
		}
		for class, n := range counts {
			all[class] += int(n) //nolint:gosec // requests of a check
		}
	}
	return all, nil
}

func minus(after, before map[int]int) map[int]int {
	for class, n := range before {
		after[class] -= n
	}
	return after
}

// naming are the lines that have one of the names in them.
func naming(log []byte, names []string) []string {
	var lines []string
	for line := range bytes.Lines(log) {
		for _, name := range names {
			if bytes.Contains(line, []byte(name)) {
				lines = append(lines, strings.TrimSpace(string(line)))
				break
			}
		}
	}
	return lines
}
