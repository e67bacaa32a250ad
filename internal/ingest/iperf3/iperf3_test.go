package iperf3

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

func TestStream(t *testing.T) {
	t.Parallel()
	for name, direction := range map[string]string{"tcp.json": "up", "reverse.json": "down", "bidir.json": "both"} {
		s := read(t, name, ingest.About{}).Stream
		if s.Direction != direction || (s.Up > 0) != (direction != "down") || (s.Down > 0) != (direction != "up") || len(s.Intervals) != 2 || s.Block != 131072 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestDatagrams(t *testing.T) {
	t.Parallel()
	out := read(t, "udp.json", ingest.About{})
	d := out.Datagrams
	if d.Size != 1000 || d.Sent < 400 || d.Received+d.Lost != d.Sent || len(d.Intervals) != 2 || out.Elapsed < 900*time.Millisecond {
		t.Errorf("%+v", d)
	}
}

func TestBad(t *testing.T) {
	t.Parallel()
	refused, err := os.ReadFile("testdata/refused.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "{}", string(refused), `{"start":{"test_start":{"protocol":"TCP"}}}`, `{"start":{"test_start":{"protocol":"UDP"}},"end":{"sum":{"lost_packets":2,"packets":1}}}`} {
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
