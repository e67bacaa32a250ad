package monitor

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/windtunnel/windtunnel/internal/hist"
)

// descs are all metrics that a monitor tells.
type descs struct {
	info, planned, left, trials, running, start, end *prometheus.Desc
	due, requests, response, service                 *prometheus.Desc
	loadDue, loadSucceeded, loadFailed, loadResponse *prometheus.Desc
	cpu, throttled, memory, faults, faultTime        *prometheus.Desc
}

func describe(study, version string) descs {
	constant := prometheus.Labels{"study": study}
	run := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("windtunnel_"+name, help, labels, constant)
	}
	of := func(name, help string, more ...string) *prometheus.Desc {
		return run(name, help, append([]string{"variant", "load", "block"}, more...)...)
	}
	return descs{
		info:    prometheus.NewDesc("windtunnel_run_info", "The run that goes on.", nil, prometheus.Labels{"study": study, "version": version}),
		planned: run("trials_planned", "Trials of the plan, with those of the calibration."),
		left:    run("trials_left", "Trials of the plan that have not ended."),
		trials:  of("trials_total", "Trials that have ended.", "state"),
		running: of("trial_running", "1 for the trial that goes on, and what it is doing.", "step"),
		start:   of("trial_start_timestamp_seconds", "When the trial began; of several the last."),
		end:     of("trial_end_timestamp_seconds", "When the trial ended; of several the last."),

		due:      of("requests_due_total", "Requests that were due in the windows of trials that have ended."),
		requests: of("requests_total", "The same requests by what came of them: succeeded, unsent, or why they failed.", "result"),
		response: of("response_seconds", "Response time of successes, from when a request was due."),
		service:  of("service_seconds", "Service time of successes, from when a request was sent."),

		loadDue:       of("load_due", "Requests due so far of the load that goes on, warm-up included."),
		loadSucceeded: of("load_succeeded", "Successes so far of the load that goes on, warm-up included."),
		loadFailed:    of("load_failed", "Failures so far of the load that goes on, warm-up included."),
		loadResponse:  of("load_response_seconds", "Response time so far of the load that goes on, within 12 %.", "quantile"),

		cpu:       of("component_cpu_seconds_total", "CPU time in the windows of trials that have ended.", "pod", "component"),
		throttled: of("component_throttled_seconds_total", "Time in which a limit withheld CPU, in the same windows.", "pod", "component"),
		memory:    of("component_memory_peak_bytes", "Most memory in the same windows.", "pod", "component"),

		faults:    of("fault_events_total", "Harms that set in (injected) and were undone (healed), as observed, of trials that have ended.", "fault", "event"),
		faultTime: of("fault_event_timestamp_seconds", "When that was; of several the last.", "fault", "event"),
	}
}

// Describe tells what Collect can tell.
func (m *Monitor) Describe(ch chan<- *prometheus.Desc) {
	d := m.descs
	for _, one := range []*prometheus.Desc{
		d.info, d.planned, d.left, d.trials, d.running, d.start, d.end, d.due, d.requests, d.response, d.service,
		d.loadDue, d.loadSucceeded, d.loadFailed, d.loadResponse, d.cpu, d.throttled, d.memory, d.faults, d.faultTime,
	} {
		ch <- one
	}
}

// Collect tells how the run is doing.
func (m *Monitor) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.descs
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	gauge(d.info, 1)
	gauge(d.planned, float64(m.total))
	gauge(d.left, float64(m.total-m.done))
	if m.running != nil {
		c := cellOf(*m.running)
		gauge(d.running, 1, c.labels(m.step)...)
		gauge(d.loadDue, float64(m.load.Due), c.labels()...)
		gauge(d.loadSucceeded, float64(m.load.Succeeded), c.labels()...)
		gauge(d.loadFailed, float64(m.load.Failed), c.labels()...)
		gauge(d.loadResponse, m.load.P50.Seconds(), c.labels("0.5")...)
		gauge(d.loadResponse, m.load.P99.Seconds(), c.labels("0.99")...)
	}
	for _, k := range m.order {
		gauge(d.start, unix(m.started[k]), k.labels()...)
		m.cells[k].collect(d, k, ch)
	}
	m.collectFaults(ch)
}

func unix(t time.Time) float64 { return float64(t.UnixNano()) / float64(time.Second) }

func (c *counted) collect(d descs, k cell, ch chan<- prometheus.Metric) {
	counter := func(desc *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, v, labels...)
	}
	for state, n := range c.trials {
		counter(d.trials, float64(n), k.labels(state)...)
	}
	if !c.ended.IsZero() {
		ch <- prometheus.MustNewConstMetric(d.end, prometheus.GaugeValue, unix(c.ended), k.labels()...)
	}
	counter(d.due, float64(c.due), k.labels()...)
	for result, n := range c.results {
		counter(d.requests, float64(n), k.labels(result)...)
	}
	ch <- histogram(d.response, &c.response, c.responseSum, k)
	ch <- histogram(d.service, &c.service, c.serviceSum, k)
	for at, u := range c.usages {
		counter(d.cpu, u.CPU, k.labels(at[0], at[1])...)
		counter(d.throttled, u.Throttled, k.labels(at[0], at[1])...)
		ch <- prometheus.MustNewConstMetric(d.memory, prometheus.GaugeValue, u.MemoryPeak, k.labels(at[0], at[1])...)
	}
}

// limits are the buckets' upper ends: 50 µs to 10 s in steps of 1, 2, 5, the same
// for all, so that they can be summed.
func limits() []time.Duration {
	all := []time.Duration{50 * time.Microsecond}
	for decade := 100 * time.Microsecond; decade < 10*time.Second; decade *= 10 {
		all = append(all, decade, 2*decade, 5*decade)
	}
	return append(all, 10*time.Second)
}

func histogram(d *prometheus.Desc, h *hist.Histogram, sum float64, k cell) prometheus.Metric {
	buckets := map[float64]uint64{}
	for _, l := range limits() {
		buckets[l.Seconds()] = h.Count() - h.Above(l)
	}
	return prometheus.MustNewConstHistogram(d, h.Count(), sum, buckets, k.labels()...)
}

func (m *Monitor) collectFaults(ch chan<- prometheus.Metric) {
	type key struct {
		cell
		kind, event string
	}
	n, last := map[key]float64{}, map[key]time.Time{}
	for _, f := range m.faults {
		k := key{f.cell, f.kind, f.event}
		n[k]++
		last[k] = f.at
	}
	for k, count := range n {
		ch <- prometheus.MustNewConstMetric(m.descs.faults, prometheus.CounterValue, count, k.labels(k.kind, k.event)...)
		ch <- prometheus.MustNewConstMetric(m.descs.faultTime, prometheus.GaugeValue, unix(last[k]), k.labels(k.kind, k.event)...)
	}
}
