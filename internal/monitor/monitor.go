// Package monitor tells Prometheus how a run is doing while it goes on.
//
// Counters and histograms grow when a trial has ended, by exactly what the run
// folder keeps of it, so that the two agree when the run has ended. How the load
// under way is doing is in gauges of its own, warm-up included.
package monitor

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/windtunnel/windtunnel/internal/agent"
	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Monitor hears how a run is doing and tells it to whoever asks. It is safe for
// use by several goroutines.
type Monitor struct {
	now   func() time.Time
	mono  func() (int64, error) // CLOCK_MONOTONIC of the generator's host
	descs descs

	mu        sync.Mutex
	done      int
	total     int
	running   *model.Trial
	step      string
	load      agent.Progress
	cells     map[cell]*counted
	order     []cell
	faults    []faultEvent
	started   map[cell]time.Time
	scraped   bool // by others than a Forwarder
	forwarded bool // a Forwarder reads
	finished  bool
	afterward chan struct{} // closed when everybody has read after the end
}

// cell is what a sample is of.
type cell struct {
	variant, load string
	block         int
	calibration   bool
	breakdown     bool
}

func cellOf(t model.Trial) cell { return cell{t.Variant, t.Load, t.Block, t.Calibration, t.Breakdown} }

// labels are a cell's values in the order of cellLabels.
func (c cell) labels(more ...string) []string {
	block := strconv.Itoa(c.block)
	if c.calibration {
		block = "calibration " + block
	}
	if c.breakdown {
		block = "breakdown"
	}
	return append([]string{c.variant, c.load, block}, more...)
}

// counted is what the trials of a cell have given.
type counted struct {
	trials            map[string]uint64 // by state
	due               uint64
	results           map[string]uint64 // "succeeded", "unsent" or why it failed
	response, service hist.Histogram
	responseSum       float64
	serviceSum        float64
	usages            map[[2]string]*metric.Usage // by pod and component
	ended             time.Time
}

// faultEvent is a harm that set in or was healed.
type faultEvent struct {
	cell
	kind, event string
	at          time.Time
}

// New makes a monitor of a study's run. Mono reads CLOCK_MONOTONIC of the
// generator's host; it dates what faults did.
func New(study, version string, now func() time.Time, mono func() (int64, error)) *Monitor {
	return &Monitor{
		now: now, mono: mono, descs: describe(study, version), cells: map[cell]*counted{}, started: map[cell]time.Time{},
		afterward: make(chan struct{}),
	}
}

// Started hears that a trial begins.
func (m *Monitor) Started(t model.Trial, done, total int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running, m.done, m.total, m.load, m.step = &t, done, total, agent.Progress{}, ""
	m.started[cellOf(t)] = m.now()
	m.at(cellOf(t)) // so that its counters are there from 0 on: a rate needs that
}

// Step hears what the trial is doing.
func (m *Monitor) Step(_ model.Trial, step string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.step = step
}

// Load hears how the load under way is doing.
func (m *Monitor) Load(_ model.Trial, p agent.Progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.load = p
}

// Finished hears what a trial gave.
func (m *Monitor) Finished(o *model.Outcome, done, total int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running, m.done, m.total, m.step, m.load = nil, done, total, "", agent.Progress{}
	c := m.at(cellOf(o.Trial))
	c.ended = m.now()
	state := "done"
	if o.Failure != nil {
		state = "failed"
	}
	c.trials[state]++
	m.harmed(o)
	if o.Load == nil {
		return
	}
	c.add(o.Load)
	for _, u := range metric.Usages(o) {
		c.use(u)
	}
}

// at is what is counted of a cell.
func (m *Monitor) at(k cell) *counted {
	c := m.cells[k]
	if c == nil {
		c = &counted{trials: map[string]uint64{}, results: map[string]uint64{"succeeded": 0, "unsent": 0}, usages: map[[2]string]*metric.Usage{}}
		m.cells[k] = c
		m.order = append(m.order, k)
	}
	return c
}

func (c *counted) add(l *model.LoadResult) {
	c.due += l.Due
	c.results["succeeded"] += l.Succeeded
	c.results["unsent"] += l.Unsent
	for cause, n := range l.Failed {
		c.results[string(cause)] += n
	}
	c.responseSum += merge(&c.response, l.Response)
	c.serviceSum += merge(&c.service, l.Service)
}

// merge adds a histogram, and says the sum of what was added, in seconds.
func merge(into, h *hist.Histogram) float64 {
	if h == nil {
		return 0
	}
	into.Merge(h)
	return h.Mean().Seconds() * float64(h.Count())
}

func (c *counted) use(u metric.Usage) {
	key := [2]string{u.Pod, u.Component}
	if c.usages[key] == nil {
		c.usages[key] = &metric.Usage{}
	}
	sum := c.usages[key]
	sum.CPU += u.CPU
	sum.Throttled += u.Throttled
	sum.MemoryPeak = max(sum.MemoryPeak, u.MemoryPeak)
}

// harmed notes what faults did, and when by the wall clock.
func (m *Monitor) harmed(o *model.Outcome) {
	if len(o.Faults) == 0 {
		return
	}
	mono, err := m.mono()
	if err != nil {
		return // without that clock nobody knows when it was
	}
	now := m.now()
	for _, f := range o.Faults {
		for _, e := range []struct {
			event string
			at    int64
		}{{"injected", f.InjectStart}, {"healed", f.HealStart}} {
			if e.at != 0 {
				m.faults = append(m.faults, faultEvent{cellOf(o.Trial), f.Event.Fault.Kind, e.event, now.Add(-time.Duration(mono - e.at))})
			}
		}
	}
}

// Forwarded says that a Forwarder reads, so that there is one to wait for.
func (m *Monitor) Forwarded() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forwarded = true
}

// End says that all trials have ended. The channel is closed when everybody who
// has read before has read once more: the Forwarder, and one who scrapes. That is
// at once if nobody has ever.
func (m *Monitor) End() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.finished {
		m.finished = true
		m.release()
	}
	return m.afterward
}

// read notes an answer that was given.
func (m *Monitor) read(forwarder bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !m.finished:
		m.scraped = m.scraped || !forwarder
		return
	case forwarder:
		m.forwarded = false
	default:
		m.scraped = false
	}
	m.release()
}

// release closes the channel if nobody is left to wait for.
func (m *Monitor) release() {
	if m.scraped || m.forwarded {
		return
	}
	select {
	case <-m.afterward:
	default:
		close(m.afterward)
	}
}

var _ prometheus.Collector = (*Monitor)(nil)
