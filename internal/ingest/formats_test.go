package ingest_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/ingest/fortio"
	"github.com/windtunnel/windtunnel/internal/ingest/h2load"
	"github.com/windtunnel/windtunnel/internal/ingest/hdr"
	"github.com/windtunnel/windtunnel/internal/ingest/iperf3"
	"github.com/windtunnel/windtunnel/internal/ingest/k6"
	"github.com/windtunnel/windtunnel/internal/ingest/nighthawk"
	"github.com/windtunnel/windtunnel/internal/ingest/oha"
	"github.com/windtunnel/windtunnel/internal/ingest/ping"
	"github.com/windtunnel/windtunnel/internal/ingest/sockperf"
	"github.com/windtunnel/windtunnel/internal/ingest/vegeta"
	"github.com/windtunnel/windtunnel/internal/ingest/wrk"
)

func formats() []ingest.Format {
	return []ingest.Format{
		fortio.Format(), h2load.Format(), hdr.Format(), iperf3.Format(), k6.Format(), nighthawk.Format(),
		oha.Format(), ping.Format(), sockperf.Format(), vegeta.Format(), wrk.Format(),
	}
}

// content is what a file holds, decompressed.
func content(t *testing.T, path string) []byte {
	t.Helper()
	zipped, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	in, err := ingest.Unzip(bytes.NewReader(zipped))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Every sample is recognised by one format, its own, and read by it.
func TestFormatsAreToldApart(t *testing.T) {
	t.Parallel()
	n := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		parts := strings.Split(filepath.ToSlash(path), "/")
		if err != nil || d.IsDir() || len(parts) < 3 || parts[1] != "testdata" || parts[2] == "fuzz" {
			return err
		}
		want := parts[0]
		if want == "hdr" {
			want = hdr.Name
		}
		check(t, path, want)
		n++
		return nil
	})
	for dir, want := range map[string]string{"vegeta/*/10rps.*": "vegeta", "fortio-json/*/*": "fortio", "fortio-log/report-120*": "fortio"} {
		files, _ := filepath.Glob("testdata/studies/" + dir)
		for _, path := range files {
			check(t, path, want)
			n++
		}
	}
	if err != nil || n < 60 {
		t.Error(n, err)
	}
}

func check(t *testing.T, path, want string) {
	t.Helper()
	data := content(t, path)
	var by []string
	for _, f := range formats() {
		if f.Detect(data[:min(len(data), 64<<10)]) {
			by = append(by, f.Name)
		}
	}
	if !slices.Equal(by, []string{want}) {
		t.Errorf("%s is recognised by %v, not by %s alone", path, by, want)
		return
	}
	_, all, err := ingest.Open(bytes.NewReader(data), formats(), ingest.About{})
	if refused := filepath.Base(path) == "refused.json"; refused || err != nil {
		if !refused || err == nil {
			t.Errorf("%s: %v", path, err)
		}
		return
	}
	names := map[string]bool{}
	for _, m := range all {
		r := m.Result
		if names[m.Name] {
			t.Errorf("%s: two are named %q", path, m.Name)
		}
		names[m.Name] = true
		if r.Due != r.Succeeded+r.FailedTotal()+r.Unsent || len(r.Tool.Notes) == 0 || m.Labels[ingest.LabelFormat] == "" {
			t.Errorf("%s: %+v %v", path, r, m.Labels)
		}
		if !slices.IsSortedFunc(m.Requests, func(a, b ingest.Request) int { return a.Sent.Compare(b.Sent) }) {
			t.Errorf("%s: requests are out of order", path)
		}
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write(content(t, "wrk/testdata/wrk-plain.txt")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, all, err := ingest.Open(&zipped, formats(), ingest.About{})
	if err != nil || f.Name != wrk.Name || len(all) != 1 {
		t.Error(f.Name, all, err)
	}
	for text, want := range map[string]string{
		"":                                "empty",
		"Lorem ipsum":                     `begins with "Lorem ipsum": that is none of the formats that are known (fortio, h2load, hdrhistogram, iperf3`,
		"\x1f\x8bbroken":                  "decompressing",
		"Running 1s test @ http://x\nx\n": "no whole output",
	} {
		if _, _, err := ingest.Open(strings.NewReader(text), formats(), ingest.About{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// No input makes detection or a reader panic.
func FuzzOpen(f *testing.F) {
	for _, text := range []string{"{", "PING ", "0,1,2", "1\t2\t3", `{"metrics":{},"root_group":1}`, "Value Percentile TotalCount x", "Requests [total, rate] 1, 2\nLatencies [min, mean, 50] 1s"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, all, err := ingest.Open(bytes.NewReader(data), formats(), ingest.About{})
		for _, m := range all {
			if r := m.Result; err != nil || r.Tool.Name == "" {
				t.Errorf("%+v, %v", r, err)
			}
		}
	})
}
