// Package ingesttest is what the tests of readers of other tools' results share:
// a folder testdata with results of the tool, and what holds for all of them.
package ingesttest

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Read reads the one result of a run, as drivers do.
type Read func(r io.Reader, about ingest.About) (*model.LoadResult, error)

// Result reads a file of testdata. Its counts must add up, and it must say
// which tool it is of and what it lacks.
func Result(t *testing.T, read Read, name string, about ingest.About) *model.LoadResult {
	t.Helper()
	out, err := read(file(t, name), about)
	if err != nil {
		t.Fatal(err)
	}
	if !adds(out) || out.Tool.Name == "" || len(out.Tool.Notes) == 0 {
		t.Errorf("%s: %+v", name, out)
	}
	return out
}

// All are the measurements of a file of testdata, which must be recognised.
func All(t *testing.T, format ingest.Format, name string) []ingest.Measurement {
	t.Helper()
	_, all, err := ingest.Open(file(t, name), []ingest.Format{format}, ingest.About{})
	if err != nil {
		t.Fatal(name, err)
	}
	return all
}

// One is the only measurement of a file of testdata.
func One(t *testing.T, format ingest.Format, name string) *ingest.Measurement {
	t.Helper()
	all := All(t, format, name)
	if len(all) != 1 {
		t.Fatalf("%s has %d measurements, want 1", name, len(all))
	}
	return &all[0]
}

// FuzzResult feeds a reader with what is like the files of testdata: what it
// reads must add up.
func FuzzResult(f *testing.F, read Read) {
	f.Helper()
	fuzz(f, func(t *testing.T, data []byte) {
		t.Helper()
		if out, err := read(bytes.NewReader(data), ingest.About{}); err == nil && !adds(out) {
			t.Errorf("%+v", out)
		}
	})
}

// FuzzMeasurements does so with a reader of several measurements. What it could
// read before an error does not count.
func FuzzMeasurements(f *testing.F, read func(r io.Reader, about ingest.About) ([]ingest.Measurement, error)) {
	f.Helper()
	fuzz(f, func(t *testing.T, data []byte) {
		t.Helper()
		all, err := read(bytes.NewReader(data), ingest.About{})
		for _, m := range all {
			if err != nil || !adds(m.Result) {
				t.Errorf("%+v, %v", m.Result, err)
			}
		}
	})
}

func fuzz(f *testing.F, feed func(t *testing.T, data []byte)) {
	f.Helper()
	names, err := filepath.Glob("testdata/*.*")
	if err != nil || len(names) == 0 {
		f.Fatal("no files in testdata", err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name) //nolint:gosec // G304: names are of the test's own folder
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(feed)
}

func file(t *testing.T, name string) io.Reader {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name)) //nolint:gosec // as above
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(data)
}

// adds says whether every request that was due has one outcome.
func adds(r *model.LoadResult) bool { return r.Due == r.Succeeded+r.FailedTotal()+r.Unsent }
