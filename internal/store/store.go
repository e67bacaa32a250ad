// Package store keeps a run: a folder to which records are only ever appended,
// each chained to the one before by its digest, so that a crash loses at most
// the trial in flight and a change after the fact is seen.
//
//	runs/<id>/run.json        what was asked: identity, command, plan digest
//	runs/<id>/study.yaml      the study as the user wrote it
//	runs/<id>/plan.json       the frozen plan
//	runs/<id>/records.jsonl   sessions, outcomes, frozen rates and the end, one JSON object a line
//	runs/<id>/trials/NNNN/    logs and live configurations of trial NNNN
//	runs/<id>/calibration/    the same of the calibration's trials
//	runs/<id>/breakdown/      the same of the breakdown trials
//	runs/<id>/results.json    the report's model; derived, re-derived by verify
package store

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Schema is the version of the run folder that this program writes.
const Schema = 1

// The files of a run folder.
const (
	FileMeta       = "run.json"
	FileStudy      = "study.yaml"
	FilePlan       = "plan.json"
	FileRecords    = "records.jsonl"
	FileResults    = "results.json"
	DirTrials      = "trials"
	DirCalibration = "calibration"
	DirBreakdown   = "breakdown"
)

// Meta is what identifies a run; written once, before the first trial.
type Meta struct {
	Schema      int       `json:"schema"`
	ID          string    `json:"id"`
	Dir         string    `json:"dir"` // as the user named it
	Created     time.Time `json:"created"`
	Study       string    `json:"study"`
	StudySource string    `json:"study_source"` // a built-in name or the file's base name
	StudyDigest string    `json:"study_sha256"`
	PlanDigest  string    `json:"plan_digest"`
	Command     string    `json:"command"`
}

// Session is one process that worked on the run: the first, or a resumed one.
type Session struct {
	Started time.Time  `json:"started"`
	Version string     `json:"version"`
	Host    model.Host `json:"host"`
	Resumed bool       `json:"resumed,omitempty"`
}

// End says why and when a run ended.
type End struct {
	At       time.Time `json:"at"`
	Reason   string    `json:"reason"`
	Complete bool      `json:"complete"` // as planned, or by the stop rule
}

// Record is one line of records.jsonl; exactly one of the four is set.
type Record struct {
	Seq     int            `json:"seq"`
	Prev    string         `json:"prev"` // sha256 of the line before; of the plan for the first
	Session *Session       `json:"session,omitempty"`
	Outcome *model.Outcome `json:"outcome,omitempty"`
	Frozen  *model.Frozen  `json:"frozen,omitempty"` // after the calibration's outcomes, before all others
	End     *End           `json:"end,omitempty"`
	// Files are the digests of the files that came with an outcome, by path
	// inside the run folder.
	Files map[string]string `json:"files,omitempty"`
}

// Run is a run folder that has been read.
type Run struct {
	Dir      string
	Meta     Meta
	Study    []byte
	Plan     []byte
	Sessions []Session
	Outcomes []model.Outcome
	// Calibration are the outcomes of the trials before the first block, and
	// Frozen the rates that follow from them; nil: not yet, or there are none.
	Calibration []model.Outcome
	Frozen      *model.Frozen
	// Broken are the outcomes of the breakdown trials.
	Broken []model.Outcome
	End    *End
	// Head is the digest of the last record.
	Head string
	// Torn is the number of bytes of an unfinished last record: the trace of a
	// crash. They are ignored, and cut off when the run is resumed.
	Torn int

	files map[string]string
	good  int64 // length of the intact part of the records
	next  int
}

// Writer appends to a run folder. It is for one goroutine.
type Writer struct {
	Dir  string
	file *os.File
	prev string
	next int
	size int64 // length of what is known to be on disk, whole
}

// Create makes a run folder. It fails if the folder exists already.
func Create(dir string, meta Meta, study, plan []byte) (*Writer, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, fmt.Errorf("creating the run's parent folder: %w", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("creating the run folder: %w (choose another with --out, or --resume it)", err)
	}
	meta.Schema, meta.StudyDigest = Schema, digest(study)
	head, err := json.MarshalIndent(meta, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", FileMeta, err)
	}
	for name, data := range map[string][]byte{FileMeta: append(head, '\n'), FileStudy: study, FilePlan: plan} {
		if err = WriteFile(filepath.Join(dir, name), data); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(filepath.Join(dir, FileRecords), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("creating the run's records: %w", err)
	}
	return &Writer{Dir: dir, file: f, prev: digest(plan)}, nil
}

// Resume opens a run that has been read for more records, cutting off a torn
// last one.
func Resume(r *Run) (*Writer, error) {
	f, err := os.OpenFile(filepath.Join(r.Dir, FileRecords), os.O_WRONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the run's records: %w", err)
	}
	w := &Writer{Dir: r.Dir, file: f, prev: r.Head, next: r.next, size: r.good}
	if err := w.rewind(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return w, nil
}

// Session appends the start of a session.
func (w *Writer) Session(s Session) error { return w.append(Record{Session: &s}) }

// Freeze appends the rates that the calibration found.
func (w *Writer) Freeze(f model.Frozen) error { return w.append(Record{Frozen: &f}) }

// Close appends the end, if there is one, and closes the records.
func (w *Writer) Close(end *End) error {
	var err error
	if end != nil {
		err = w.append(Record{End: end})
	}
	return errors.Join(err, w.file.Close())
}

// Outcome writes the trial's files and then appends its outcome. If anything
// cannot be written (a full disk), the records are as they were before.
func (w *Writer) Outcome(o model.Outcome, files map[string][]byte) error {
	r := Record{Outcome: &o, Files: map[string]string{}}
	parent := DirTrials
	switch {
	case o.Trial.Calibration:
		parent = DirCalibration
	case o.Trial.Breakdown:
		parent = DirBreakdown
	}
	dir := fmt.Sprintf("%s/%04d", parent, o.Trial.Index)
	if len(files) > 0 {
		if err := os.MkdirAll(filepath.Join(w.Dir, dir), 0o755); err != nil {
			return fmt.Errorf("creating the trial's folder: %w", err)
		}
	}
	for name, data := range files {
		path := dir + "/" + strings.ReplaceAll(name, "/", ".")
		if err := WriteFile(filepath.Join(w.Dir, path), data); err != nil {
			return err
		}
		r.Files[path] = digest(data)
	}
	o.Logs = sortedKeys(r.Files)
	return w.append(r)
}

func (w *Writer) append(r Record) error {
	r.Seq, r.Prev = w.next, w.prev
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding record %d: %w", r.Seq, err)
	}
	if _, err := w.file.Write(append(line, '\n')); err != nil {
		return errors.Join(fmt.Errorf("appending record %d: %w", r.Seq, err), w.rewind())
	}
	if err := w.file.Sync(); err != nil {
		return errors.Join(fmt.Errorf("appending record %d: %w", r.Seq, err), w.rewind())
	}
	w.size += int64(len(line)) + 1
	w.prev, w.next = digest(line), w.next+1
	return nil
}

// rewind cuts the records back to what is known to be whole.
func (w *Writer) rewind() error {
	if err := w.file.Truncate(w.size); err != nil {
		return fmt.Errorf("cutting off an unfinished record: %w", err)
	}
	if _, err := w.file.Seek(w.size, 0); err != nil {
		return fmt.Errorf("cutting off an unfinished record: %w", err)
	}
	return nil
}

// Open reads a run folder and checks every digest in its chain. A torn last
// line is a crash, not an error; anything else that does not fit is.
func Open(dir string) (*Run, error) {
	r := &Run{Dir: dir, files: map[string]string{}}
	raw, err := os.ReadFile(filepath.Join(dir, FileMeta))
	if err != nil {
		return nil, fmt.Errorf("%s is not a run folder: %w", dir, err)
	}
	if err = json.Unmarshal(raw, &r.Meta); err != nil {
		return nil, fmt.Errorf("reading %s: %w", FileMeta, err)
	}
	if r.Meta.Schema != Schema {
		return nil, fmt.Errorf("%s has version %d; this program reads version %d", dir, r.Meta.Schema, Schema)
	}
	if r.Study, err = os.ReadFile(filepath.Join(dir, FileStudy)); err != nil {
		return nil, fmt.Errorf("reading the run's study: %w", err)
	}
	if r.Plan, err = os.ReadFile(filepath.Join(dir, FilePlan)); err != nil {
		return nil, fmt.Errorf("reading the run's plan: %w", err)
	}
	if digest(r.Study) != r.Meta.StudyDigest {
		return nil, fmt.Errorf("%s: %s was changed after the run began", dir, FileStudy)
	}
	return r, r.readRecords()
}

func (r *Run) readRecords() error {
	raw, err := os.ReadFile(filepath.Join(r.Dir, FileRecords))
	if err != nil {
		return fmt.Errorf("reading the run's records: %w", err)
	}
	return r.parse(raw)
}

// parse reads records, up to a torn last one.
func (r *Run) parse(raw []byte) error {
	r.Head = digest(r.Plan)
	for in := bufio.NewReader(bytes.NewReader(raw)); ; {
		line, eof := in.ReadBytes('\n')
		if errors.Is(eof, io.EOF) { // what is left has no line end
			r.Torn = len(line)
			return nil
		}
		if err := r.add(line[:len(line)-1]); err != nil {
			return fmt.Errorf("%s, record %d: %w", filepath.Join(r.Dir, FileRecords), r.next, err)
		}
		r.good += int64(len(line))
	}
}

func (r *Run) add(line []byte) error {
	var rec Record
	if err := json.Unmarshal(line, &rec); err != nil {
		return err
	}
	if rec.Seq != r.next || rec.Prev != r.Head {
		return errors.New("the chain of digests is broken: a record was changed, removed or added after the fact")
	}
	switch {
	case rec.Session != nil:
		r.Sessions = append(r.Sessions, *rec.Session)
		r.End = nil
	case rec.Outcome != nil:
		rec.Outcome.Logs = sortedKeys(rec.Files)
		switch trial := rec.Outcome.Trial; {
		case trial.Calibration:
			r.Calibration = append(r.Calibration, *rec.Outcome)
		case trial.Breakdown:
			r.Broken = append(r.Broken, *rec.Outcome)
		default:
			r.Outcomes = append(r.Outcomes, *rec.Outcome)
		}
	case rec.Frozen != nil:
		if r.Frozen != nil || len(r.Outcomes) > 0 {
			return errors.New("rates are frozen once, and before the first block")
		}
		r.Frozen = rec.Frozen
	case rec.End != nil:
		r.End = rec.End
	default:
		return errors.New("neither a session, an outcome, frozen rates nor an end")
	}
	maps.Copy(r.files, rec.Files)
	r.Head, r.next = digest(line), r.next+1
	return nil
}

// CheckFiles compares every file that came with an outcome to its digest and
// returns all that differ or are missing.
func (r *Run) CheckFiles() error {
	var errs []error
	for _, path := range sortedKeys(r.files) {
		data, err := os.ReadFile(filepath.Join(r.Dir, path))
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("missing: %w", err))
		case digest(data) != r.files[path]:
			errs = append(errs, fmt.Errorf("%s was changed after the run", path))
		}
	}
	return errors.Join(errs...)
}

// WriteFile writes a file so that a crash leaves either the old or the new one.
func WriteFile(path string, data []byte) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, data, 0o644); err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", path, err), os.RemoveAll(tmp))
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
