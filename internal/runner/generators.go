package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/agent"
	"github.com/windtunnel/windtunnel/internal/model"
)

// senders are the pods that send a load, the first of them first.
func senders(l model.Load) []string { return append([]string{l.From}, l.Generators...) }

// startGenerators starts an agent in each pod that sends.
func (t *trial) startGenerators(ctx context.Context) error {
	for _, name := range senders(t.load) {
		pod, err := t.site.Pod(name)
		if err != nil {
			return err
		}
		process, err := pod.Start(ctx, model.Process{
			Name: "agent", Component: model.ComponentGenerator, Command: []string{"{self}", "agent"},
			Piped: true, Exclusive: true,
		})
		if err != nil {
			return err
		}
		t.undo = append(t.undo, process.Stop)
		t.gens = append(t.gens, agent.Dial(process.Stream())) //nolint:contextcheck // the client lives as long as the pipe; its calls take contexts
	}
	return nil
}

// gateFrom gates from one pod after the other. What the first saw is returned;
// the others must see the same body.
func (t *trial) gateFrom(ctx context.Context) (model.Ready, error) {
	job := agent.GateJob{
		Load: t.load, Targets: t.targets, Host: t.host, Streak: gateStreak, Timeout: t.gateLimit(), Identities: t.identities(),
		RTT: t.longestRTT(),
	}
	first, err := t.gens[0].Gate(ctx, job)
	if err != nil || !first.Passed {
		return first, err
	}
	for i, gen := range t.gens[1:] {
		pod := t.load.Generators[i]
		ready, err := gen.Gate(ctx, job)
		switch {
		case err != nil:
			return first, fmt.Errorf("from pod %s: %w", pod, err)
		case !ready.Passed:
			return first, fmt.Errorf("from pod %s: no %d right answers in a row within %s; last error: %s", pod, gateStreak, t.gateLimit(), ready.LastError)
		case ready.Payload != first.Payload:
			return first, fmt.Errorf("pod %s gets another body than pod %s: %s, not %s", pod, t.load.From, ready.Payload, first.Payload)
		}
	}
	return first, nil
}

// longestRTT is that of the topology's slowest link.
func (t *trial) longestRTT() time.Duration {
	const ways = 2
	var longest time.Duration
	for _, l := range t.Plan.Study.Topology.Links {
		longest = max(longest, ways*(l.Delay+l.Jitter))
	}
	return longest
}

// gateLimit is how long a pod's gate may take. Where links are long, right
// answers take their time: each a few round trips for connecting, for TLS on
// the way and for itself.
func (t *trial) gateLimit() time.Duration {
	const trips = 4
	return gateTimeout + gateStreak*trips*t.longestRTT()
}

// share is the part of a load that one of several generators sends: its own
// connections and pace; the schedule is that of all.
func share(l model.Load, shard, shards int) model.Load {
	all := l.Connections
	l.Connections = all / shards
	if shard < all%shards {
		l.Connections++
	}
	l.Pace *= float64(l.Connections) / float64(all)
	return l
}

// measured is what one load gave.
type measured struct {
	load    *model.LoadResult
	window  model.Window
	samples []model.Series
}

// measure runs one load through all generators and samples meanwhile.
func (t *trial) measure(ctx context.Context, l model.Load, seed uint64, sample bool) (measured, error) {
	harms, err := t.harmsOf(l)
	if err != nil {
		return measured{}, err
	}
	m := &measuring{trial: t, harms: harms}
	if sampled, ok := t.site.(model.SampledSite); ok && sample {
		t.out.Unavailable = sampled.Unavailable()
		m.sampling = newSampling(sampled.Samplers(), t.SampleEvery)
	}
	result, err := m.run(ctx, l, seed)
	faults, faultErr := harms.finish(ctx)
	t.out.Faults, err = faults, errors.Join(err, faultErr)
	out := measured{load: result, window: m.window}
	if m.sampling != nil {
		var sampleErr error
		out.samples, sampleErr = m.sampling.stop(ctx)
		err = errors.Join(err, sampleErr)
	}
	return out, err
}

// measuring is a load under way; its callbacks come from several goroutines.
type measuring struct {
	*trial
	sampling *sampling
	harms    *harms
	mu       sync.Mutex
	window   model.Window
	progress []agent.Progress // of each generator
	err      error
}

func (m *measuring) run(ctx context.Context, l model.Load, seed uint64) (*model.LoadResult, error) {
	if l.Driver != "" {
		return m.drive(ctx, l)
	}
	shards := len(m.gens)
	job := agent.LoadJob{Targets: m.targets, Host: m.host, Warmup: m.Plan.Study.Design.Warmup, Payload: m.out.Ready.Payload, Seed: seed, Traced: m.Breakdown}
	clocks, err := m.clocks(senders(l))
	if err != nil {
		return nil, err
	}
	m.harms.ahead = clocks.ahead[0]
	starts := make([]int64, shards)
	if shards > 1 {
		if starts, err = clocks.together(); err != nil {
			return nil, err
		}
		job.Shards = shards
		m.out.Ledger = append(m.out.Ledger, clocks.facts()...)
	}
	m.progress = make([]agent.Progress, shards)
	results := make([]*model.LoadResult, shards)
	sampleCtx := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for i, gen := range m.gens {
		job := job
		job.Load, job.Shard, job.Start = share(l, i, shards), i, starts[i]
		all.Go(func() {
			result, err := gen.Load(ctx, job, func(w model.Window) { m.opened(sampleCtx, clocks.window(i, w)) }, func(p agent.Progress) { m.told(i, p) })
			if err != nil {
				cancel(fmt.Errorf("pod %s: %w", senders(l)[i], err))
			}
			results[i] = result
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for _, r := range results[1:] {
		if err := results[0].Merge(r); err != nil {
			return nil, err
		}
	}
	return results[0], m.err
}

// opened starts the sampling with the first generator's window; all must have
// the same.
func (m *measuring) opened(ctx context.Context, w model.Window) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.window == (model.Window{}):
		m.window = w
		m.harms.start(ctx, w)
		if m.sampling != nil {
			m.sampling.start(ctx, w)
		}
	case m.window != w:
		m.err = fmt.Errorf("the generators did not begin together: one window opens %s after another", time.Duration(w.Start-m.window.Start))
	}
}

// told adds up how the generators are doing; of the quantiles the worst counts.
func (m *measuring) told(shard int, p agent.Progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.progress[shard] = p
	var sum agent.Progress
	for _, p := range m.progress {
		sum.Due += p.Due
		sum.Succeeded += p.Succeeded
		sum.Failed += p.Failed
		sum.P50, sum.P99 = max(sum.P50, p.P50), max(sum.P99, p.P99)
	}
	m.Progress.Load(m.Trial, sum)
}
