package k6

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func read(t *testing.T, name string, about ingest.About) *model.LoadResult {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	out, err := Read(bytes.NewReader(data), about)
	if err != nil {
		t.Fatal(err)
	}
	if out.Due != out.Succeeded+out.FailedTotal()+out.Unsent || out.Tool.Name == "" || len(out.Tool.Notes) == 0 {
		t.Errorf("%s: %+v", name, out)
	}
	return out
}

func TestRead(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"points.csv", "points.json", "points.csv.gz"} {
		out := read(t, name, ingest.About{Arrival: model.ArrivalOpen, Rate: 30, Duration: time.Second})
		if out.Sent != 31 || out.Succeeded != 11 || out.Failed[model.CauseStatus] != 10 || out.Failed[model.CauseRefused] != 10 {
			t.Errorf("%s: %+v", name, out)
		}
		if out.Service.Count() != 11 || out.Service.Max() > 100*time.Millisecond || out.Response.Count() != 0 {
			t.Errorf("%s: %d service times up to %s, %d response times", name, out.Service.Count(), out.Service.Max(), out.Response.Count())
		}
	}
}

func TestDropped(t *testing.T) {
	t.Parallel()
	const text = "metric_name,timestamp,metric_value,error_code,status,extra_tags,metadata\ndropped_iterations,1795272882407822253,7.000000,,,,\n"
	out, err := Read(strings.NewReader(text), ingest.About{Arrival: model.ArrivalOpen})
	if err != nil || out.Unsent != 7 || out.Due != 7 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestBad(t *testing.T) {
	t.Parallel()
	const head = "metric_name,timestamp,metric_value,error_code,status,extra_tags,metadata\n"
	for _, text := range []string{
		"garbage", head + "http_reqs,1795272882,1,,200,,", head + "http_reqs,x,1,,200,,", head + "http_reqs,1795272882407822253,1,,200,,",
		head + "http_reqs,1795272882407822253,1,,200", "{\"type\":\"Point\",\"metric\":",
	} {
		if _, err := Read(strings.NewReader(text), ingest.About{}); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*.*")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := Read(bytes.NewReader(data), ingest.About{})
		if err == nil && out.Due != out.Succeeded+out.FailedTotal()+out.Unsent {
			t.Errorf("%+v", out)
		}
	})
}
