package runner

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/agent"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/plan"
)

// Bounds on the steps of a trial: generous, so that only what hangs meets them.
const (
	stepTimeout  = 30 * time.Second
	gateTimeout  = 20 * time.Second
	undoTimeout  = 20 * time.Second
	loadGrace    = 15 * time.Second // beyond warm-up, duration and request timeout
	gateStreak   = 20               // right answers in a row: enough to meet every endpoint of a small service
	maxFileBytes = 1 << 20          // of one log or artefact in the run folder
)

// trial is one trial under way.
type trial struct {
	*run
	model.Trial
	variant model.Variant
	load    model.Load
	out     model.Outcome
	site    model.Site
	layers  []model.Layer
	undo    []func(context.Context) error
	files   map[string][]byte
	gens    []*agent.Client // one in each pod that sends
	targets []netip.AddrPort
	host    string         // that requests name
	tracing []model.Tracer // the layers that record requests, of a breakdown trial
	began   time.Time
}

// trial runs one trial, from nothing to nothing. Its outcome is complete
// whatever happens; the error is the one in the outcome.
func (r *run) trial(ctx context.Context, at model.Trial) (model.Outcome, map[string][]byte, error) {
	t := &trial{run: r, Trial: at, files: map[string][]byte{}}
	t.out = model.Outcome{Schema: model.OutcomeSchema, Trial: at, Started: time.Now().UTC()}
	t.variant, t.load = find(r.Plan.Study, at)
	var err error
	if t.load.Rate, err = plan.RateOf(t.load, at.Variant, r.frozen); err != nil {
		return t.out, nil, t.failed("looking up the load's rate", err)
	}
	if at.Breakdown {
		t.load = traced(t.load)
	}
	err = t.steps(ctx)
	if undoErr := t.undoAll(context.WithoutCancel(ctx)); undoErr != nil && err == nil {
		err = t.failed("undoing the trial", undoErr)
	}
	return t.out, t.files, err
}

func find(s model.Study, at model.Trial) (v model.Variant, l model.Load) {
	v = s.Variants[slices.IndexFunc(s.Variants, func(v model.Variant) bool { return v.Name == at.Variant })]
	l = s.Loads[slices.IndexFunc(s.Loads, func(l model.Load) bool { return l.Name == at.Load })]
	return v, l
}

func (t *trial) steps(ctx context.Context) error {
	provision, _ := t.limits()
	steps := []struct {
		name  string
		limit time.Duration
		do    func(context.Context) error
	}{
		{"provisioning the site", provision, t.provision},
		{"deploying the app", stepTimeout, t.deployApp},
		{"deploying the stack", max(stepTimeout, provision), t.deployStack},
		{"starting the generator", stepTimeout, t.startGenerators},
		{"waiting for the path to be ready", t.gateLimit()*time.Duration(1+len(t.load.Generators)) + stepTimeout, t.gate},
		{"running the load", t.loadLimit(), t.runLoad},
		{"observing the stack", stepTimeout, t.observe},
	}
	for _, s := range steps {
		t.Progress.Step(t.Trial, s.name)
		t.began = time.Now()
		limited, cancel := context.WithTimeout(ctx, s.limit)
		err := s.do(limited)
		cancel()
		t.out.Steps = append(t.out.Steps, model.Step{Name: s.name, Took: time.Since(t.began)})
		if err != nil {
			return t.failed(s.name, t.blame(ctx, err))
		}
	}
	return nil
}

func (t *trial) failed(step string, err error) error {
	t.out.Failure = &model.Failure{Step: step, Error: err.Error()}
	return fmt.Errorf("%s: %w", step, err)
}

// undoAll undoes in reverse order, each step with its own time, and collects
// the logs of the site before it is gone.
func (t *trial) undoAll(ctx context.Context) error {
	began := time.Now()
	var errs []error
	_, limit := t.limits()
	for _, undo := range slices.Backward(t.undo) {
		limited, cancel := context.WithTimeout(ctx, limit)
		errs = append(errs, undo(limited))
		cancel()
	}
	t.out.Steps = append(t.out.Steps, model.Step{Name: "undoing the trial", Took: time.Since(began)})
	return errors.Join(errs...)
}

func (t *trial) provision(ctx context.Context) error {
	site, err := t.makeSite(ctx)
	if err != nil {
		return err
	}
	t.site = site
	if l, ok := site.(model.LinkedSite); ok {
		t.out.Links = l.Links()
		for _, state := range t.out.Links {
			t.out.Ledger = append(t.out.Ledger, state.Fact())
		}
	}
	if f, ok := site.(model.FactSite); ok {
		t.out.Ledger = append(t.out.Ledger, f.Facts()...)
	}
	t.undo = append(t.undo, func(ctx context.Context) error {
		err := site.Close(ctx)
		if l, ok := site.(model.LoggedSite); ok {
			for name, log := range l.Logs() {
				t.file(name+".log", log)
			}
		}
		return err
	})
	return nil
}

// file keeps the end of a log or an artefact; empty ones are left out.
func (t *trial) file(name string, data []byte) {
	if len(data) > 0 {
		t.files[name] = data[max(0, len(data)-maxFileBytes):]
	}
}

func (t *trial) deployApp(ctx context.Context) error {
	endpoints, err := t.App.Deploy(ctx, t.site)
	if err == nil {
		entry(&endpoints, t.Plan.Study.Topology, t.load.To)
		err = place(&endpoints, t.Plan.Study.Topology, t.load.From)
	}
	t.out.Endpoints = endpoints
	return err
}

func (t *trial) deployStack(ctx context.Context) error {
	layers, err := t.Stack(t.variant)
	if err != nil {
		return err
	}
	t.tracers(layers)
	for i, l := range layers {
		remove, err := l.Deploy(ctx, t.site)
		if err != nil {
			return fmt.Errorf("layer %s: %w", t.variant.Stack[i].Kind, err)
		}
		t.undo = append(t.undo, remove)
		t.layers = append(t.layers, l)
		if o, ok := l.(model.Observer); ok {
			t.out.Claims = append(t.out.Claims, o.Claims()...)
		}
	}
	if err := t.connect(ctx); err != nil {
		return fmt.Errorf("connecting the app's services: %w", err)
	}
	return t.address()
}

// address finds where the load goes: the topmost layer that fronts the
// service, or the app's own servers.
func (t *trial) address() error {
	svc, err := t.site.Service(t.load.To)
	if err != nil {
		return err
	}
	t.host = t.load.To
	if t.targets = t.front(svc); len(t.targets) > 0 {
		// The app's own certificates are for the service's name.
		if svc.Host != "" && t.load.TLS == nil {
			t.host = svc.Host
		}
		return nil
	}
	for _, b := range t.out.Endpoints.Backends {
		t.targets = append(t.targets, b.Addr)
	}
	if len(t.targets) == 0 {
		return fmt.Errorf("service %s has no servers", t.load.To)
	}
	return nil
}

// gate lets the generator itself prove that the path works, while the witness
// reads off the wire what the path does. Nothing watches the wire later, so
// that watching costs the measurement nothing.
func (t *trial) gate(ctx context.Context) error {
	stop := func() (model.Ledger, error) { return nil, nil }
	if t.Witness != nil {
		var err error
		if stop, err = t.Witness.Watch(ctx, t.site, t.load.From); err != nil {
			return fmt.Errorf("watching the wire: %w", err)
		}
	}
	ready, err := t.gateFrom(ctx)
	seen, watchErr := stop()
	t.out.Ledger = append(t.out.Ledger, seen...)
	t.out.Ready = &ready
	if err = errors.Join(err, watchErr); err != nil {
		return err
	}
	if !ready.Passed {
		return fmt.Errorf("no %d right answers in a row within %s; last error: %s", gateStreak, t.gateLimit(), ready.LastError)
	}
	t.out.Ledger = append(t.out.Ledger, answers(ready)...)
	return nil
}

// answers are the facts that the right answers themselves carry.
func answers(r model.Ready) model.Ledger {
	var l model.Ledger
	if peer := peerURI(r.Headers["x-windtunnel-peer"]); peer != "" {
		l = append(l, model.Fact{Layer: "app", Key: model.FactPeer, Value: peer, Source: model.SourceAnswer})
	}
	if hops := r.Headers["x-windtunnel-hops"]; hops != "" {
		l = append(l, model.Fact{Layer: "app", Key: model.FactHops, Value: hops, Source: model.SourceAnswer})
	}
	if server := r.Headers["server"]; server != "" {
		l = append(l, model.Fact{Layer: "app", Key: "server header", Value: server, Source: model.SourceAnswer})
	}
	return l
}

// peerURI finds the client's identity in what a sidecar told the app: the URI
// of an x-forwarded-client-cert, e.g. "By=...;Hash=...;URI=spiffe://...".
func peerURI(told string) string {
	for _, part := range strings.FieldsFunc(told, func(r rune) bool { return r == ';' || r == ',' }) {
		if uri, ok := strings.CutPrefix(part, "URI="); ok {
			return uri
		}
	}
	return told
}

func (t *trial) identities() []string {
	var ids []string
	for _, b := range t.out.Endpoints.Backends {
		ids = append(ids, b.Identity)
	}
	return ids
}

func (t *trial) observe(ctx context.Context) error {
	if err := t.explain(ctx); err != nil {
		return fmt.Errorf("breaking down the latency: %w", err)
	}
	for i, l := range t.layers {
		kind := t.variant.Stack[i].Kind
		if o, ok := l.(model.Observer); ok {
			facts, err := o.Observe(ctx, t.site)
			if err != nil {
				return fmt.Errorf("layer %s: %w", kind, err)
			}
			t.out.Ledger = append(t.out.Ledger, facts...)
		}
		a, ok := l.(Artefacter)
		if !ok || t.Block != 1 || t.Calibration || t.Breakdown {
			continue // one block's live configuration stands for all: the trials are alike
		}
		files, err := a.Artefacts(ctx, t.site)
		if err != nil {
			return fmt.Errorf("layer %s: reading its live configuration: %w", kind, err)
		}
		for name, data := range files {
			t.file(kind+"."+name, data)
		}
	}
	return nil
}
