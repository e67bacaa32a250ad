package vegeta

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
)

const studies = "../testdata/studies"

// open reads a file of the studies, which may be compressed.
func open(t *testing.T, path string) *ingest.Measurement {
	t.Helper()
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		data, err = os.ReadFile(path + ".gz")
	}
	if err != nil {
		t.Fatal(err)
	}
	_, all, err := ingest.Open(bytes.NewReader(data), []ingest.Format{Format()}, ingest.About{})
	if err != nil || len(all) != 1 {
		t.Fatal(path, len(all), err)
	}
	return &all[0]
}

// What is read from the results is what vegeta's own report said of them.
func TestFiguresAreVegetas(t *testing.T) {
	t.Parallel()
	reports, err := filepath.Glob(studies + "/vegeta/*/*.report.json")
	if err != nil || len(reports) != 36 {
		t.Fatal(len(reports), err)
	}
	for _, path := range reports {
		want := open(t, path)
		got := open(t, strings.TrimSuffix(path, ".report.json")+".gob")
		for name, v := range want.Result.Tool.Figures {
			// the last digits are those of the order of additions
			if d := got.Result.Tool.Figures[name] - v; d < -2 || d > 2 {
				t.Errorf("%s: %s is %s, vegeta says %s", path, name, got.Result.Tool.Figures[name], v)
			}
		}
		if got.Result.Due != want.Result.Due || got.Result.Succeeded != want.Result.Succeeded || got.Result.BytesReceived != want.Result.BytesReceived {
			t.Errorf("%s: %d of %d, vegeta says %d of %d", path, got.Result.Succeeded, got.Result.Due, want.Result.Succeeded, want.Result.Due)
		}
		if len(got.Requests) != int(got.Result.Due) || !got.Started.Equal(want.Started) {
			t.Errorf("%s: %d requests from %s, vegeta says %d from %s", path, len(got.Requests), got.Started, want.Result.Due, want.Started)
		}
	}
}

// Every row of table 5.3 that the raw data covers, to the digit.
func TestPublishedTable53(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, row := range rows(t, "geo-table-5.3.csv") {
		for system, folder := range map[string]string{"mcs": "mc", "asm": "asm"} {
			place := map[string]string{"southeast-asia": "sea", "australia": "aus"}[row["location"]]
			path := fmt.Sprintf("%s/vegeta/%s-%s-%s/%srps.gob", studies, folder, place, row["repetition"], row["rps"])
			if found, _ := filepath.Glob(path + "*"); len(found) == 0 {
				continue // the repository has two of three repetitions
			}
			m := open(t, path)
			for name, figure := range map[string]string{"min": "min", "median": "p50", "mean": "mean", "p95": "p95", "max": "max"} {
				want := row[name+"_"+system+"_ms"]
				if got := milliseconds(m.Result.Tool.Figures[figure]); got != want {
					t.Errorf("%s: %s is %s ms, the table says %s", path, name, got, want)
				}
				checked++
			}
		}
	}
	if checked != 2*2*2*3*5 { // systems, locations, repetitions, rates, figures
		t.Errorf("%d figures checked", checked)
	}
}

// Tables 5.1 and 5.2 are means of three repetitions, of which the data has one
// of the single cluster and two of several: each must be able to be a third of
// what is printed, and 100 % where that is.
func TestPublishedTable51(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, row := range rows(t, "geo-table-5.1-5.2.csv") {
		place := map[string]string{"southeast-asia": "sea", "australia": "aus"}[row["location"]]
		prefix := map[string]string{"1": "single-", "2": ""}[row["clusters"]] + map[string]string{"mcs-mci": "mc", "istio-asm": "asm"}[row["method"]]
		dirs, _ := filepath.Glob(fmt.Sprintf("%s/vegeta/%s-%s-*", studies, prefix, place))
		for _, dir := range dirs {
			r := open(t, dir+"/"+row["rps"]+"rps.gob").Result
			percent := float64(r.Succeeded) / float64(r.Due) * 100
			want, err := strconv.ParseFloat(row["success_percent"], 64)
			if err != nil {
				t.Fatal(err)
			}
			// The other two must lie from 0 to 100 for the mean to be what is printed.
			if others := 3*want - percent; others < -0.02 || others > 200.02 {
				t.Errorf("%s at %s: %.2f %%, the table says %.2f on average", dir, row["rps"], percent, want)
			}
			// What failed there failed at once and from the start on: the
			// generator's own proxy was not up yet.
			if prefix == "single-asm" && (r.FailedPrefix != r.FailedTotal() || r.Failed[model.CauseRefused] != r.FailedTotal() || r.FailedPrefix == 0) {
				t.Errorf("%s at %s: %d failures, the first %d in a row: %v", dir, row["rps"], r.FailedTotal(), r.FailedPrefix, r.Failed)
			}
			checked++
		}
	}
	if checked != (3+8)*3 {
		t.Errorf("%d attacks checked", checked)
	}
}

// In the round-robin runs the body that comes from far is that of the near
// database: the two modes lie a whole number of round trips apart.
func TestBodiesAreKept(t *testing.T) {
	t.Parallel()
	m := open(t, studies+"/vegeta/rr-sea-1/100rps.gob")
	bodies := map[string]int{}
	for i, q := range m.Requests {
		if i > 0 && q.Sent.Before(m.Requests[i-1].Sent) {
			t.Fatal("requests are out of order")
		}
		bodies[q.Payload]++
	}
	if len(bodies) != 3 || m.Response["Content-Type"] == "" {
		t.Errorf("bodies %v, headers %v", bodies, m.Response)
	}
}

// milliseconds are as the table has them: three digits, without zeros at the end.
func milliseconds(d time.Duration) string {
	s := strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 3, 64)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}

func rows(t *testing.T, name string) (out []map[string]string) {
	t.Helper()
	data, err := os.ReadFile(studies + "/published/" + name)
	if err != nil {
		t.Fatal(err)
	}
	all, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range all[1:] {
		row := map[string]string{}
		for i, column := range all[0] {
			row[column] = line[i]
		}
		out = append(out, row)
	}
	return out
}

// A file with the text reports of several attacks, as people keep them.
func TestTextReports(t *testing.T) {
	t.Parallel()
	m := open(t, "testdata/report.txt")
	r := m.Result
	if r.Due != 50 || r.Succeeded != 36 || r.Failed[model.CauseRefused] != 14 || r.Tool.Figures["p95"] != 189626*time.Microsecond || r.Elapsed != 4900*time.Millisecond {
		t.Errorf("%+v %v", r, r.Tool.Figures)
	}
	text, err := os.ReadFile("testdata/report.txt")
	if err != nil {
		t.Fatal(err)
	}
	all, err := Format().Read(strings.NewReader("# one\n"+string(text)+"\n# two\n"+string(text)), ingest.About{})
	if err != nil || len(all) != 2 || all[0].Name != "report 1: one" || all[1].Name != "report 2: two" {
		t.Error(all, err)
	}
	for text, want := range map[string]string{
		"Requests      [total, rate, throughput]         many, 1, 1\n":                                     "line 1",
		"Requests      [total, rate, throughput]         1, 1, 1\nLatencies  [min, mean] 1s\n":             "line 2: 1 values",
		"Requests      [total, rate, throughput]         1, 1, 1\n":                                        "Status Codes",
		"Requests      [total, rate, throughput]         1, 1, 1\nStatus Codes  [code:count]      200:2\n": "2 answers",
	} {
		if _, err := Format().Read(strings.NewReader(text), ingest.About{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzReports(f *testing.F) {
	for _, path := range []string{"testdata/report.json", "testdata/report.txt"} {
		if data, err := os.ReadFile(path); err == nil {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		all, err := ReadAll(bytes.NewReader(data), ingest.About{})
		for _, m := range all {
			if r := m.Result; err != nil || r.Due != r.Succeeded+r.FailedTotal()+r.Unsent {
				t.Errorf("%+v, %v", r, err)
			}
		}
	})
}
