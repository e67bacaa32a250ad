package fortio

import (
	"bytes"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func read(t *testing.T, path string) *model.LoadResult {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out, err := Read(bytes.NewReader(data), ingest.About{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// quantilesAgree compares our quantiles to Fortio's own.
func quantilesAgree(t *testing.T, path string, out *model.LoadResult) {
	t.Helper()
	for name, q := range map[string]float64{"p50": 0.5, "p75": 0.75, "p90": 0.9, "p99": 0.99, "p99.9": 0.999} {
		want, got := out.Tool.Figures[name], out.Service.Quantile(q)
		if math.Abs(float64(got-want)) > 0.01*float64(want) {
			t.Errorf("%s: %s is %s, fortio says %s", path, name, got, want)
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	out := read(t, "testdata/qps6000.json")
	quantilesAgree(t, "qps6000", out)
	if out.Due != 29869 || out.Succeeded != 29869 || out.Connections != 1 || out.Elapsed.Round(time.Second) != time.Minute || out.Tool.Version != "1.40.0" {
		t.Errorf("%+v", out)
	}
	if out.Response.Count() != 0 || out.Service.Count() != 29869 || out.Service.Max() > 18261449 || out.Service.Min() < 1110960 {
		t.Errorf("%d response times; service times %d from %s to %s", out.Response.Count(), out.Service.Count(), out.Service.Min(), out.Service.Max())
	}
	out = read(t, "testdata/max.json")
	if out.Response.Count() != 400 || out.BodyBytesMax != 5 || out.Sockets != 2 || out.Statuses[200] != 400 {
		t.Errorf("%+v", out)
	}
	out = read(t, "testdata/status.json")
	if out.Succeeded != 0 || out.Failed[model.CauseStatus] != 400 || out.Service.Count() != 0 || out.FailedResponse.Count() != 400 {
		t.Errorf("%+v, %d in the distribution", out, out.Service.Count())
	}
}

// All runs of the published study, against its tables, where they are at hand:
// the study took the mean of its runs.
func TestPublished(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("WINDTUNNEL_STUDY_DATA")
	if dir == "" {
		t.Skip("$WINDTUNNEL_STUDY_DATA names no folder with the studies' raw data")
	}
	files, err := filepath.Glob(filepath.Join(dir, "fortio-json", "*", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		out := read(t, f)
		quantilesAgree(t, f, out)
		t.Logf("%s: %.2f/s, mean %s p90 %s p99 %s p99.9 %s", filepath.Join(filepath.Base(filepath.Dir(f)), filepath.Base(f)), float64(out.Succeeded)/out.Elapsed.Seconds(),
			out.Tool.Figures["mean"], out.Service.Quantile(0.9), out.Service.Quantile(0.99), out.Service.Quantile(0.999))
	}
}

func TestPublishedTable(t *testing.T) {
	t.Parallel()
	data, tables := os.Getenv("WINDTUNNEL_STUDY_DATA"), os.Getenv("WINDTUNNEL_STUDY_TABLES")
	if data == "" || tables == "" {
		t.Skip("$WINDTUNNEL_STUDY_DATA and $WINDTUNNEL_STUDY_TABLES name no folders")
	}
	f, err := os.Open(filepath.Join(tables, "multicluster-tables-1-2.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	folder := map[string]string{"istio": "aws-imp", "kuma": "aws-kmz", "nsm-vl3": "aws-nsmvl3"}
	for _, row := range rows[1:] {
		if row[0] != "aws-eks" {
			continue
		}
		var qps []string
		for i := 1; i <= 3; i++ {
			out := read(t, filepath.Join(data, "fortio-json", folder[row[1]], "run-0"+strconv.Itoa(i)+".json"))
			qps = append(qps, strconv.FormatFloat(float64(out.Succeeded)/out.Elapsed.Seconds(), 'f', 2, 64))
		}
		t.Logf("%s: published %s/s, of the runs here: %s", row[1], row[2], strings.Join(qps, ", "))
	}
}

func TestBad(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "{}", "[]", `{"DurationHistogram":{"Count":1}}`, `{"DurationHistogram":{"Count":1,"Data":[{"Start":2,"End":1,"Count":1}]}}`,
		`{"DurationHistogram":{"Count":1,"Data":[{"Start":0,"End":1e300,"Count":1}]}}`,
		`{"DurationHistogram":{"Count":1,"Data":[{"Start":0,"End":1,"Count":1}]},"RetCodes":{"200":2}}`,
	} {
		if _, err := Read(strings.NewReader(text), ingest.About{}); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"qps6000", "max", "status"} {
		if data, err := os.ReadFile("testdata/" + name + ".json"); err == nil {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := Read(bytes.NewReader(data), ingest.About{})
		if err == nil && out.Due < out.Service.Count() {
			t.Errorf("%d due, %d service times", out.Due, out.Service.Count())
		}
	})
}
