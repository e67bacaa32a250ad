package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

func outcome(index int) model.Outcome {
	return model.Outcome{Schema: model.OutcomeSchema, Trial: model.Trial{Index: index, Block: 1, Order: index, Variant: "direct", Load: "steady"}}
}

// made is a run of two outcomes.
func made(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "runs", "one")
	w, err := Create(dir, Meta{ID: "one"}, []byte("study"), []byte("plan"))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Session(Session{Started: time.Unix(1, 0).UTC()}); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if err := w.Outcome(outcome(i+1), map[string][]byte{"server-0/echo.log": []byte("hello")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	return dir
}

func open(t *testing.T, dir string) *Run {
	t.Helper()
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	dir := made(t)
	r := open(t, dir)
	if len(r.Outcomes) != 2 || len(r.Sessions) != 1 || r.End != nil || r.Torn != 0 {
		t.Fatalf("got %d outcomes, %d sessions, end %v, torn %d", len(r.Outcomes), len(r.Sessions), r.End, r.Torn)
	}
	if got := r.Outcomes[1].Logs; len(got) != 1 || got[0] != "trials/0002/server-0.echo.log" {
		t.Errorf("logs %v", got)
	}
	if err := r.CheckFiles(); err != nil {
		t.Error(err)
	}
}

// A crash in the middle of a record loses that record only, and the run goes on.
func TestTornRecordIsCutOff(t *testing.T) {
	t.Parallel()
	for _, torn := range []int{1, 20, 200} {
		dir := made(t)
		path := filepath.Join(dir, FileRecords)
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err = os.WriteFile(path, raw[:len(raw)-torn], 0o600); err != nil {
			t.Fatal(err)
		}
		r := open(t, dir)
		if len(r.Outcomes) != 1 || r.Torn == 0 {
			t.Fatalf("torn by %d: %d outcomes, torn %d", torn, len(r.Outcomes), r.Torn)
		}
		w, err := Resume(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Outcome(outcome(2), nil); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(&End{Reason: "done", Complete: true}); err != nil {
			t.Fatal(err)
		}
		again := open(t, dir)
		if len(again.Outcomes) != 2 || again.Torn != 0 || again.End == nil || !again.End.Complete {
			t.Errorf("resumed: %d outcomes, torn %d, end %v", len(again.Outcomes), again.Torn, again.End)
		}
	}
}

func TestChangesAreSeen(t *testing.T) {
	t.Parallel()
	lines := func(raw []byte) [][]byte { return bytes.SplitAfter(raw, []byte("\n")) }
	tests := map[string]func(raw []byte) []byte{
		"an edited record": func(raw []byte) []byte {
			return bytes.Replace(raw, []byte(`"variant":"direct"`), []byte(`"variant":"envoy1"`), 1)
		},
		"a removed record":  func(raw []byte) []byte { l := lines(raw); return bytes.Join(append(l[:1:1], l[2:]...), nil) },
		"a repeated record": func(raw []byte) []byte { l := lines(raw); return append(raw, l[2]...) },
		"reordered records": func(raw []byte) []byte { l := lines(raw); return bytes.Join([][]byte{l[0], l[2], l[1]}, nil) },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := made(t)
			path := filepath.Join(dir, FileRecords)
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, change(raw), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(dir); err == nil {
				t.Error("it was not seen")
			}
		})
	}
	dir := made(t)
	if err := os.WriteFile(filepath.Join(dir, "trials/0001/server-0.echo.log"), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := open(t, dir).CheckFiles(); err == nil || !strings.Contains(err.Error(), "was changed") {
		t.Errorf("a changed log: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, FileStudy), []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil {
		t.Error("a changed study was not seen")
	}
}

func TestCreateRefusesAnExistingFolder(t *testing.T) {
	t.Parallel()
	dir := made(t)
	if _, err := Create(dir, Meta{}, nil, nil); err == nil {
		t.Error("a run was overwritten")
	}
}

func FuzzRecords(f *testing.F) {
	line, err := json.Marshal(Record{Prev: digest([]byte("plan")), Session: &Session{}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(line, '\n'))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := &Run{Plan: []byte("plan"), files: map[string]string{}}
		_ = r.parse(raw)
		if int(r.good)+r.Torn > len(raw) {
			t.Errorf("%d good and %d torn bytes of %d", r.good, r.Torn, len(raw))
		}
	})
}

func TestCalibration(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	w, err := Create(dir, Meta{ID: "one"}, []byte("study"), []byte("plan"))
	if err != nil {
		t.Fatal(err)
	}
	o := outcome(1)
	o.Trial.Calibration = true
	frozen := model.Frozen{Rates: []model.FrozenRate{{Load: "at75", Variant: "direct", Rate: 75, Basis: 100}}}
	for _, err := range []error{
		w.Session(Session{}), w.Outcome(o, map[string][]byte{"a.log": []byte("x")}), w.Freeze(frozen), w.Outcome(outcome(1), nil), w.Close(nil),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r := open(t, dir)
	if len(r.Calibration) != 1 || len(r.Outcomes) != 1 || r.Frozen == nil || len(r.Frozen.Rates) != 1 || r.Frozen.Rates[0] != frozen.Rates[0] {
		t.Fatalf("got %+v, %+v, %+v", r.Calibration, r.Outcomes, r.Frozen)
	}
	broken := outcome(1)
	broken.Trial.Breakdown = true
	if w, err = Resume(r); err != nil {
		t.Fatal(err)
	}
	if err = errors.Join(w.Outcome(broken, map[string][]byte{"a.log": []byte("y")}), w.Close(nil)); err != nil {
		t.Fatal(err)
	}
	r = open(t, dir)
	if len(r.Outcomes) != 1 || len(r.Broken) != 1 || len(r.Broken[0].Logs) != 1 || r.Broken[0].Logs[0] != "breakdown/0001/a.log" {
		t.Fatalf("a breakdown trial came back as %+v beside %+v", r.Broken, r.Outcomes)
	}
	if got := r.Calibration[0].Logs; len(got) != 1 || got[0] != "calibration/0001/a.log" {
		t.Errorf("logs %v", got)
	}
	// Rates that come after a block, or twice, were not frozen.
	if w, err = Resume(r); err != nil {
		t.Fatal(err)
	}
	if err := w.Freeze(frozen); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "frozen once") {
		t.Errorf("got %v", err)
	}
}
