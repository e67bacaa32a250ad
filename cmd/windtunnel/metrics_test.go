package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/store"
)

const metricsStudy = `apiVersion: windtunnel/v1
kind: Study
metadata: {name: watched}
question: Does Prometheus count what the run folder holds?
baseline: direct
variants: [{name: direct, stack: []}, {name: nft-service, stack: [nft-service]}]
app: {kind: echo, replicas: 2}
faults:
  - name: crash
    events: [{at: 200ms, heal: 500ms, kill: {pods: [server-0]}}]
loads:
  - {name: steady, protocol: http1, model: open, rate: 200/s, connections: 4, duration: 700ms, timeout: 300ms, fault: crash}
design: {blocks: 6, warmup: 50ms, control: false}
`

// free is a port of loopback that nobody listens at now.
func free(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // it was only to find a port
	return l.Addr().String()
}

// startPrometheus runs Debian's Prometheus until the test ends, and says where it
// is asked.
func startPrometheus(t *testing.T, program, config string, args ...string) string {
	t.Helper()
	dir, address := t.TempDir(), free(t)
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append(args, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "tsdb"), "--web.listen-address="+address)
	server := exec.CommandContext(t.Context(), program, args...)
	server.Cancel, server.WaitDelay = func() error { return server.Process.Signal(os.Interrupt) }, 10*time.Second
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(os.Interrupt)
		_ = server.Wait()
	})
	return address
}

// Debian's Prometheus scrapes a real run from outside the lab, and another is
// written to by the run itself. Both have the run folder's counts when it has
// ended.
func TestPrometheusCountsWhatTheRunFolderHolds(t *testing.T) {
	t.Parallel()
	prometheus, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("there is no prometheus here: apt install prometheus")
	}
	bin := program(t)
	if !canLab(t, bin) {
		t.Skip("no lab here")
	}
	dir, metrics := t.TempDir(), free(t)
	scrapes := startPrometheus(t, prometheus, fmt.Sprintf("global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs: [{job_name: windtunnel, static_configs: [{targets: ['%s']}]}]\n", metrics))
	receives := startPrometheus(t, prometheus, "global: {}\n", "--web.enable-remote-write-receiver")
	file, run := filepath.Join(dir, "study.yaml"), filepath.Join(dir, "run")
	if err = os.WriteFile(file, []byte(metricsStudy), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), bin, "run", file, "--out", run, "--metrics", metrics, "--remote-write", "http://"+receives+"/api/v1/write").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "metrics: http://"+metrics+"/metrics") || strings.Contains(string(out), "nobody has read") {
		t.Errorf("it says\n%s", out)
	}
	kept, err := store.Open(run)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{}
	for _, o := range kept.Outcomes {
		if o.Load == nil {
			continue
		}
		want["windtunnel_requests_due_total"] += float64(o.Load.Due)
		want[`windtunnel_requests_total{result="succeeded"}`] += float64(o.Load.Succeeded)
		want[`windtunnel_requests_total{result!="succeeded"}`] += float64(o.Load.FailedTotal() + o.Load.Unsent)
		want["windtunnel_response_seconds_count"] += float64(o.Load.Response.Count())
		want[`windtunnel_trials_total{state="done"}`]++
		want[`windtunnel_fault_events_total{event="healed"}`] += float64(len(o.Faults))
	}
	if want["windtunnel_requests_due_total"] == 0 {
		t.Fatal("the run sent nothing")
	}
	for what, n := range want {
		// The last value of series that have ended with the run.
		for how, asked := range map[string]string{"scrapes": scrapes, "is written to": receives} {
			if got := query(t, asked, "sum(last_over_time("+what+"[1h]))"); got != n {
				t.Errorf("%s: the Prometheus that %s has %g, the run folder %g", what, how, got, n)
			}
		}
	}
}

// query asks Prometheus for one value.
func query(t *testing.T, address, text string) float64 {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/api/v1/query?query="+url.QueryEscape(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Data struct {
			Result []struct {
				Value [2]any `json:"value"`
			} `json:"result"`
		} `json:"data"`
	}
	if err = json.Unmarshal(body, &said); err != nil || len(said.Data.Result) != 1 {
		t.Fatalf("%s: %v: %s", text, err, body)
	}
	v, err := strconv.ParseFloat(fmt.Sprint(said.Data.Result[0].Value[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
