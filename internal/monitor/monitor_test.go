package monitor_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/windtunnel/windtunnel/internal/agent"
	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/monitor"
)

const second = int64(time.Second)

func at(s int64) time.Time { return time.Unix(1_800_000_000+s, 0) }

func newMonitor() *monitor.Monitor {
	return monitor.New("quick", "test", func() time.Time { return at(100) }, func() (int64, error) { return 50 * second, nil })
}

// outcome is a trial of which everything is known: 3 successes, 2 failures, 1
// unsent, a harm 10 s ago that was healed 4 s ago.
func outcome(t model.Trial) *model.Outcome {
	h := &hist.Histogram{}
	for _, v := range []time.Duration{40 * time.Microsecond, 900 * time.Microsecond, 20 * time.Second} {
		h.Record(v.Nanoseconds())
	}
	return &model.Outcome{
		Trial: t, Window: model.Window{Start: 38 * second, End: 48 * second},
		Load: &model.LoadResult{Due: 6, Sent: 5, Succeeded: 3, Unsent: 1, Failed: map[model.Cause]uint64{model.CauseRefused: 2}, Response: h, Service: h},
		Samples: []model.Series{
			{Subject: "server-0/app", Metric: model.SampleCPU, At: []int64{38 * second, 48 * second}, Values: []float64{1, 3}},
			{Subject: "server-0/app", Metric: model.SampleMemory, At: []int64{38 * second, 48 * second}, Values: []float64{100, 300}},
		},
		Faults: []model.FaultRecord{{Event: model.FaultEvent{Fault: model.PluginRef{Kind: "kill"}}, InjectStart: 40 * second, HealStart: 46 * second}},
	}
}

func trial(block int) model.Trial {
	return model.Trial{Index: block, Block: block, Variant: "direct", Load: "steady"}
}

func TestFinishedTrials(t *testing.T) {
	t.Parallel()
	m := newMonitor()
	for range 2 { // a trial that was run again, in a cell of its own
		m.Started(trial(1), 0, 4)
		m.Finished(outcome(trial(1)), 1, 4)
	}
	m.Started(trial(2), 1, 4)
	m.Finished(&model.Outcome{Trial: trial(2), Failure: &model.Failure{Step: "deploying"}}, 2, 4)
	const labels = `block="1",load="steady",%sstudy="quick",variant="direct"`
	of := func(more string) string { return "{" + strings.Replace(labels, "%s", more, 1) + "}" }
	want := strings.Join([]string{
		"# HELP windtunnel_requests_due_total Requests that were due in the windows of trials that have ended.", "# TYPE windtunnel_requests_due_total counter",
		"windtunnel_requests_due_total" + of("") + " 12",
		`windtunnel_requests_due_total{block="2",load="steady",study="quick",variant="direct"} 0`,
		"# HELP windtunnel_component_cpu_seconds_total CPU time in the windows of trials that have ended.", "# TYPE windtunnel_component_cpu_seconds_total counter",
		`windtunnel_component_cpu_seconds_total{block="1",component="app",load="steady",pod="server-0",study="quick",variant="direct"} 4`,
		"# HELP windtunnel_component_memory_peak_bytes Most memory in the same windows.", "# TYPE windtunnel_component_memory_peak_bytes gauge",
		`windtunnel_component_memory_peak_bytes{block="1",component="app",load="steady",pod="server-0",study="quick",variant="direct"} 300`,
		"# HELP windtunnel_trials_left Trials of the plan that have not ended.", "# TYPE windtunnel_trials_left gauge",
		`windtunnel_trials_left{study="quick"} 2`, "",
	}, "\n")
	err := testutil.CollectAndCompare(m, strings.NewReader(want), "windtunnel_requests_due_total", "windtunnel_component_cpu_seconds_total", "windtunnel_component_memory_peak_bytes", "windtunnel_trials_left")
	if err != nil {
		t.Error(err)
	}
	text := scrape(t, m, "application/openmetrics-text")
	for _, line := range []string{
		`windtunnel_requests_total{block="1",load="steady",result="refused",study="quick",variant="direct"} 4.0`,
		`windtunnel_requests_total{block="1",load="steady",result="succeeded",study="quick",variant="direct"} 6.0`,
		`windtunnel_requests_total{block="1",load="steady",result="unsent",study="quick",variant="direct"} 2.0`,
		`windtunnel_requests_total{block="2",load="steady",result="succeeded",study="quick",variant="direct"} 0.0`,
		`windtunnel_response_seconds_bucket{block="1",load="steady",study="quick",variant="direct",le="5e-05"} 2`,
		`windtunnel_response_seconds_bucket{block="1",load="steady",study="quick",variant="direct",le="0.001"} 4`,
		`windtunnel_response_seconds_bucket{block="1",load="steady",study="quick",variant="direct",le="10.0"} 4`,
		`windtunnel_response_seconds_count{block="1",load="steady",study="quick",variant="direct"} 6`,
		`windtunnel_trials_total{block="2",load="steady",state="failed",study="quick",variant="direct"} 1.0`,
		`windtunnel_fault_events_total{block="1",event="injected",fault="kill",load="steady",study="quick",variant="direct"} 2.0`,
		`windtunnel_fault_event_timestamp_seconds{block="1",event="injected",fault="kill",load="steady",study="quick",variant="direct"} 1.80000009e+09`,
		`windtunnel_fault_event_timestamp_seconds{block="1",event="healed",fault="kill",load="steady",study="quick",variant="direct"} 1.800000096e+09`,
		"# EOF",
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
}

// What goes on is in gauges of its own, and gone when it has ended.
func TestTrialThatGoesOn(t *testing.T) {
	t.Parallel()
	m := newMonitor()
	m.Started(trial(1), 0, 4)
	m.Step(trial(1), "running the load")
	m.Load(trial(1), agent.Progress{Due: 50, Succeeded: 40, Failed: 1, P50: time.Millisecond, P99: 9 * time.Millisecond})
	text := scrape(t, m, "text/plain")
	for _, line := range []string{
		`windtunnel_trial_running{block="1",load="steady",step="running the load",study="quick",variant="direct"} 1`,
		`windtunnel_load_succeeded{block="1",load="steady",study="quick",variant="direct"} 40`,
		`windtunnel_load_failed{block="1",load="steady",study="quick",variant="direct"} 1`,
		`windtunnel_load_response_seconds{block="1",load="steady",quantile="0.99",study="quick",variant="direct"} 0.009`,
		`windtunnel_requests_due_total{block="1",load="steady",study="quick",variant="direct"} 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
	m.Finished(outcome(trial(1)), 1, 4)
	if text = scrape(t, m, "text/plain"); strings.Contains(text, "windtunnel_load_") || strings.Contains(text, "windtunnel_trial_running") {
		t.Errorf("the trial has ended:\n%s", text)
	}
	calibration := model.Trial{Block: 1, Variant: "direct", Load: "steady", Calibration: true}
	m.Started(calibration, 1, 4)
	if text = scrape(t, m, "text/plain"); !strings.Contains(text, `block="calibration 1"`) {
		t.Errorf("the calibration is told apart from block 1:\n%s", text)
	}
}

func scrape(t *testing.T, m *monitor.Monitor, accept string) string {
	t.Helper()
	h, err := m.Handler()
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// After the last trial a monitor stays for one more scrape, if it was ever scraped.
func TestEnd(t *testing.T) {
	t.Parallel()
	closed := func(ch <-chan struct{}) bool {
		select {
		case <-ch:
			return true
		default:
			return false
		}
	}
	if never := newMonitor(); !closed(never.End()) {
		t.Error("it waits although nobody has ever scraped it")
	}
	m := newMonitor()
	scrape(t, m, "")
	if closed(m.End()) {
		t.Error("it does not wait for the last scrape")
	}
	scrape(t, m, "")
	if !closed(m.End()) {
		t.Error("it waits after the last scrape")
	}
	scrape(t, m, "") // one more does no harm
}

func TestServe(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop, err := newMonitor().Serve(l)
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err = errors.Join(err, answer.Body.Close()); err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
	if code, body := get("/metrics"); code != http.StatusOK || !strings.Contains(body, `windtunnel_run_info{study="quick",version="test"} 1`) {
		t.Errorf("status %d: %s", code, body)
	}
	if code, _ := get("/debug/pprof/"); code != http.StatusNotFound {
		t.Errorf("status %d for a page that is not there", code)
	}
	if err := stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{":9464": "127.0.0.1:9464", "0.0.0.0:1": "0.0.0.0:1", "[::]:1": "[::]:1", "9464": ""} {
		got, err := monitor.Address(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}

// Every metric of the dashboard is one that a monitor tells.
func TestDashboard(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../deploy/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	m := newMonitor()
	m.Started(trial(1), 0, 4)
	m.Finished(outcome(trial(1)), 1, 4)
	m.Started(trial(2), 1, 4)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, f := range families {
		known[f.GetName()] = true
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			known[f.GetName()+suffix] = f.GetType().String() == "HISTOGRAM"
		}
	}
	used := regexp.MustCompile(`windtunnel_\w+`).FindAllString(string(raw), -1)
	if len(used) < 10 {
		t.Fatalf("the dashboard uses %d metrics", len(used))
	}
	for _, name := range used {
		if !known[name] {
			t.Errorf("the dashboard uses %s, which there is not", name)
		}
	}
}
