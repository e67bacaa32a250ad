package h2load

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
	out := read(t, "requests.log", ingest.About{})
	if out.Due != 52 || out.Succeeded != 50 || out.Failed[model.CauseStatus] != 1 || out.Failed[model.CauseProtocol] != 1 {
		t.Errorf("%+v", out)
	}
	if out.Response.Count() != 50 || out.Service.Max() > time.Second || out.Arrival != model.ArrivalClosed {
		t.Errorf("%d response times up to %s", out.Response.Count(), out.Service.Max())
	}
	if paced := read(t, "requests.log", ingest.About{Rate: 100}); paced.Response.Count() != 0 || paced.Service.Count() != 50 {
		t.Error("response times of a paced loop")
	}
}

func TestBad(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "1\t200", "a\t200\t1", "1\t2000\t1", "1\t200\t-1", "9223372036854775807\t200\t1"} {
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
