package fortio

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
)

const studies = "../testdata/studies"

func open(t *testing.T, path string) []ingest.Measurement {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, all, err := ingest.Open(bytes.NewReader(data), []ingest.Format{Format()}, ingest.About{})
	if err != nil {
		t.Fatal(path, err)
	}
	return all
}

// ms is a figure as the studies printed it, in milliseconds.
func ms(d time.Duration) float64 { return math.Round(float64(d)/float64(time.Millisecond)*100) / 100 }

// The ranges of the comparison of Linkerd 2 and Istio. Those at 120 and 1500/s
// are of these logs alone and are what was printed, but where noted; the others
// are of several logs, of which one is here.
func TestPublishedLogs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file   string
		prefix string // of the runs' labels
		n      int
		low    float64 // p99.9 over the runs, ms
		high   float64
		behind int // runs with a warning
	}{
		{"report-0qps-30s-32c", "http_baseline", 20, 5.76, 5.97, 0},
		{"report-0qps-30s-32c", "grpc_istio", 20, 37.24, 71.72, 0},
		{"report-120qps-10s-4c", "http_baseline", 20, 1.59, 4.68, 0},
		{"report-120qps-10s-4c", "http_linkerd", 20, 2.38, 5.75, 0}, // printed: 2.48
		{"report-120qps-10s-4c", "http_istio", 20, 4.98, 21.55, 0},  // printed: 5.12
		{"report-120qps-10s-4c", "grpc_linkerd", 20, 4.95, 50.54, 0},
		{"report-1500qps-10s-4c", "http_baseline", 20, 3.67, 4.68, 0}, // printed: 3.79
		{"report-1500qps-10s-4c", "http_istio", 20, 13.61, 17.63, 20},
		{"report-1500qps-10s-4c", "grpc_istio", 20, 16.50, 19.58, 20}, // printed: 16.63
		{"report-2374qps-5m-32c", "http_baseline", 20, 5.25, 5.85, 0},
		{"report-2374qps-5m-32c", "http_linkerd", 20, 7.82, 9.34, 0},
		{"report-2374qps-5m-32c", "http_istio", 20, 34.48, 40.12, 20},
		{"report-2374qps-5m-32c", "grpc_istio", 20, 36.36, 45.64, 20}, // printed, of both: 47.21 to 63.36
	} {
		all := open(t, studies+"/fortio-log/"+c.file+".log.gz")
		low, high, n, behind := math.Inf(1), 0.0, 0, 0
		names := map[string]bool{}
		for _, m := range all {
			names[m.Name] = true
			if !strings.HasPrefix(m.Labels[ingest.LabelLabel], c.prefix) {
				continue
			}
			p := float64(m.Result.Tool.Figures["p99.9"]) / float64(time.Millisecond)
			n, low, high = n+1, min(low, p), max(high, p)
			if v, ok := m.Number(ingest.LabelBehind); ok && v > 5 {
				behind++
			}
		}
		t.Logf("%s %s: %d runs of %d, p99.9 from %.2f to %.2f ms, %d behind", c.file, c.prefix, n, len(all), low, high, behind)
		if len(all) != 120 || len(names) != len(all) || n != c.n || off(low, c.low) || off(high, c.high) || behind != c.behind {
			t.Errorf("%s %s: want %d runs of 120, from %.2f to %.2f ms, %d behind", c.file, c.prefix, c.n, c.low, c.high, c.behind)
		}
	}
}

// off says whether a figure is not what is printed with two digits.
func off(got, want float64) bool { return math.Abs(got-want) > 0.00501 }

func TestLogInDetail(t *testing.T) {
	t.Parallel()
	all := open(t, studies+"/fortio-log/report-1500qps-10s-4c.log.gz")
	i := slices.IndexFunc(all, func(m ingest.Measurement) bool { return strings.HasPrefix(m.Labels[ingest.LabelLabel], "http_istio") })
	m := all[i]
	for label, want := range map[string]string{
		ingest.LabelBehind: "14.86", ingest.LabelProcs: "1", "procs": "1->1", ingest.LabelThreads: "4", ingest.LabelAsked: "1500", ingest.LabelAchieved: "1497.80",
		ingest.LabelSockets: "4", ingest.LabelPerfect: "4", ingest.LabelPlanned: "10", ingest.LabelVersion: "1.3.1-pre", ingest.LabelProtocol: "HTTP",
		ingest.LabelURL: "fortio-echo-0.benchmark-istio:8080/echo",
	} {
		if m.Labels[label] != want {
			t.Errorf("%s is %q, want %q", label, m.Labels[label], want)
		}
	}
	r := m.Result
	if r.Due != 15000 || r.Succeeded != 15000 || r.Service.Count() != 15000 || r.Elapsed != 10014753709 || r.Statuses[200] != 15000 || r.Sockets != 4 ||
		r.Tool.Figures["mean"] != 1802869 || r.Tool.Figures["min"] != 539597 || r.HeaderBytesMax != 209 {
		t.Errorf("%+v %v", r, r.Tool)
	}
	// The distribution agrees with the figures: fortio, too, spreads a bucket's values evenly.
	for name, q := range map[string]float64{"p50": 0.5, "p90": 0.9, "p99": 0.99} {
		if want, got := r.Tool.Figures[name], r.Service.Quantile(q); math.Abs(float64(got-want)) > 0.02*float64(want) {
			t.Errorf("%s is %s, fortio says %s", name, got, want)
		}
	}
	if m.Started.Format("2006-01-02 15:04:05") != "2018-11-19 06:01:26" {
		t.Error(m.Started)
	}
}

// A run that was aborted, and one that the log ends in, are told of and do not
// spoil the others.
func TestAborted(t *testing.T) {
	t.Parallel()
	all := open(t, studies+"/fortio-log/report-http-0qps-grpc-0qps-32c-30s-50mcpu.log.gz")
	var aborted []string
	for _, m := range all {
		if why := m.Labels[ingest.LabelAborted]; why != "" {
			aborted = append(aborted, why)
			if m.Result.Due != 0 || m.Result.Tool.Notes[0] != "nothing was measured: "+why {
				t.Errorf("%d due, %v", m.Result.Due, m.Result.Tool.Notes)
			}
		}
	}
	if len(all) != 111 || len(aborted) != 2 || !strings.Contains(aborted[0], "connection refused") || !strings.Contains(aborted[1], "ends before") {
		t.Errorf("%d runs, aborted: %q", len(all), aborted)
	}
}

// The runs of Istio, Kuma and NSM, as they were published: figures of each run
// with two digits.
func TestPublishedJSON(t *testing.T) {
	t.Parallel()
	for system, want := range map[string]struct {
		qps [3]float64
		p   map[string][3]float64
	}{
		"imp": {[3]float64{497.8, 510.5, 501.6}, map[string][3]float64{
			"mean": {2.0, 1.95, 1.99}, "p50": {2.05, 2.03, 2.03}, "p90": {2.66, 2.46, 2.47}, "p99": {5.84, 6.09, 5.77}, "p99.9": {11.01, 11.82, 10.27},
		}},
		"kmz": {[3]float64{862.0, 905.7, 916.6}, map[string][3]float64{
			"mean": {1.15, 1.1, 1.08}, "p50": {1.03, 0.98, 0.96}, "p90": {1.33, 1.23, 1.23}, "p99": {4.23, 3.77, 4.21}, "p99.9": {9.17, 8.87, 9.2},
		}},
		"nsmvl3": {[3]float64{1328.7, 1328.2, 1335.4}, map[string][3]float64{
			"mean": {0.74, 0.74, 0.74}, "p50": {0.73, 0.73, 0.73}, "p90": {0.84, 0.86, 0.82}, "p99": {1.07, 1.1, 0.99}, "p99.9": {2.45, 2.46, 2.47},
		}},
	} {
		files, err := filepath.Glob(studies + "/fortio-json/aws-" + system + "/run-*.json*")
		if err != nil || len(files) != 3 {
			t.Fatal(files, err)
		}
		for i, path := range files {
			m := open(t, path)[0]
			if qps, _ := strconv.ParseFloat(m.Labels[ingest.LabelAchieved], 64); math.Abs(qps-want.qps[i]) > 0.06 {
				t.Errorf("%s: %g/s, want %g", path, qps, want.qps[i])
			}
			for name, values := range want.p {
				if got := ms(m.Result.Tool.Figures[name]); got != values[i] {
					t.Errorf("%s: %s is %g ms, want %g", path, name, got, values[i])
				}
			}
			// the proxy that rewrites headers keeps one connection; nginx ends its own after 1000 requests
			perSocket := float64(m.Result.Due) / float64(m.Result.Sockets)
			if rewritten := system == "imp"; rewritten != (m.Result.Sockets == 1) || !rewritten && math.Abs(perSocket-1000) > 20 {
				t.Errorf("%s: %d requests over %d sockets", path, m.Result.Due, m.Result.Sockets)
			}
			if m.Started.Year() != 2023 || m.Labels[ingest.LabelAsked] != "6000" {
				t.Errorf("%s: %s %v", path, m.Started, m.Labels)
			}
		}
	}
}

// The log of a newer version: JSON lines among the text.
func TestNewLog(t *testing.T) {
	t.Parallel()
	all := open(t, "testdata/new.log")
	if len(all) != 3 {
		t.Fatal(len(all))
	}
	if m := all[1]; m.Labels[ingest.LabelBehind] != "100.00" || !strings.Contains(m.Labels[ingest.LabelWarnings], "only did") || m.Started.Year() != 2026 {
		t.Errorf("%s %v", m.Started, m.Labels)
	}
	r := all[2].Result
	if r.Due != 20 || r.Failed["bad status"] != 11 || r.FailedResponse.Count() != 11 || r.Service.Count() != 9 {
		t.Errorf("%+v", r)
	}
}

func TestLogNamesItsLines(t *testing.T) {
	t.Parallel()
	const head = "Fortio 1.3.1-pre running at 120 queries per second, 1->1 procs, for 10s: host/echo\n"
	for text, want := range map[string]string{
		head + "Aggregated Function Time : count 2 avg 1 +/- 0 min 1 max x sum 2\n":        "line 2:",
		head + "\nAggregated Function Time : count 2 avg 1 min 1 max 1 sum 2\n> 0 1 2\n":   "line 4:",
		head + "WARNING much% of sleep were falling behind\n":                              "line 2:",
		"Fortio 1.3.1-pre running at 120 queries per second of mine\n":                     "line 1:",
		head + "Aggregated Function Time : count 2 avg 1 +/- 0 min 1 max 1 sum 2\n" + head: "the run from line 1 on",
	} {
		_, err := Format().Read(strings.NewReader(text), ingest.About{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzFormat(f *testing.F) {
	f.Add([]byte(`{"RunType":"HTTP","RequestedQPS":"max","DurationHistogram":{"Count":1,"Data":[{"Start":0.1,"End":0.2,"Count":1}]},"RetCodes":{"200":1}}`))
	f.Add([]byte(fmt.Sprintf("Fortio 1.3.1-pre running at 120 queries per second, 1->1 procs, for 10s: host/echo\n%s\n%s\n%s\n%s\n%s\n",
		"Starting at 120 qps with 4 thread(s) [gomax 1] for 10s : 300 calls each (total 1200)", "Ended after 10s : 2 calls. qps=1",
		"Aggregated Function Time : count 2 avg 1 +/- 0 min 1 max 1 sum 2\n> 0.1 <= 0.2 , 0.15 , 100, 2\n# target 50% 0.1",
		"WARNING 14.86% of sleep were falling behind", "Code 200 : 2 (100.0 %)\nSockets used: 4 (for perfect keepalive, would be 4)")))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := Format().Read(strings.NewReader(string(data)), ingest.About{})
		for _, m := range all {
			if r := m.Result; err != nil || r.Due != r.Succeeded+r.FailedTotal()+r.Unsent {
				t.Errorf("%+v, %v", r, err)
			}
		}
	})
}
