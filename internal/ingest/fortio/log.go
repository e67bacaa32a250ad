package fortio

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
)

const (
	maxWarnings = 20
	maxCodes    = 1000
)

// printed is what one run has printed so far.
type printed struct {
	result
	line     int
	heading  string // "120 queries per second, 1->1 procs, for 10s: host/echo"
	file     string // of its JSON, without folder and ending
	procs    string // "1->1"
	gomax    string
	behind   string // percent
	perfect  string
	aborted  string
	warnings []string
	function bool // its times have been seen
}

// log reads runs one after the other.
type log struct {
	about   ingest.About
	n       int
	run     *printed
	into    *histogram // what histogram lines belong to; nil: nothing that is kept
	all     []ingest.Measurement
	names   map[string]int
	started regexp.Regexp
}

// readLog reads what Fortio has printed: each run from its line "Fortio ...
// running at ... queries per second" to the next one's.
func readLog(r io.Reader, about ingest.About) ([]ingest.Measurement, error) {
	l := log{about: about, names: map[string]int{}, started: *regexp.MustCompile(`^\d{4}-\d{2}-\d{2}-\d{6}`)}
	err := ingest.Lines(r, func(line string) error {
		l.n++
		return l.line(line)
	})
	if err == nil {
		err = l.end()
	}
	if err != nil {
		return nil, fmt.Errorf("reading fortio's log: %w", err)
	}
	return l.all, nil
}

// end makes a measurement of the run so far.
func (l *log) end() error {
	p := l.run
	l.run, l.into = nil, nil
	if p == nil {
		return nil
	}
	if len(l.all) >= ingest.MaxMeasurements {
		return fmt.Errorf("more than %d runs; split it", ingest.MaxMeasurements)
	}
	m, err := p.measured(l.about)
	if err != nil {
		return fmt.Errorf("the run from line %d on (%s): %w", p.line, p.heading, err)
	}
	if stamp := l.started.FindString(p.file); stamp != "" {
		if at, err := time.Parse("2006-01-02-150405", stamp); err == nil {
			m.Started = at
			m.Result.Tool.Note("when it started is from the name of its JSON file, in a time zone that is not told; UTC is taken")
		}
		m.Label(ingest.LabelLabel, strings.Trim(strings.TrimPrefix(p.file, stamp), "_"))
	}
	if m.Name = p.file; m.Name == "" {
		m.Name = fmt.Sprintf("run %d: %s", len(l.all)+1, p.heading)
	}
	if l.names[m.Name]++; l.names[m.Name] > 1 {
		m.Name += fmt.Sprintf(" (%d)", l.names[m.Name])
	}
	l.all = append(l.all, *m)
	return nil
}

func (p *printed) measured(about ingest.About) (*ingest.Measurement, error) {
	if !p.function {
		if p.aborted == "" {
			p.aborted = "its output ends before the result"
		}
		about.Connections = p.NumThreads
		out := ingest.NewResult(Name, about, model.BasisNothing)
		out.Tool.Version = p.Version
		out.Tool.Note("nothing was measured: " + p.aborted)
		m := &ingest.Measurement{Result: out}
		m.Label(ingest.LabelAborted, p.aborted)
		p.label(m)
		return m, nil
	}
	m, err := p.measurement(about)
	if err != nil {
		return nil, err
	}
	m.Result.Tool.Note("the buckets' bounds are printed with six digits")
	p.label(m)
	return m, nil
}

func (p *printed) label(m *ingest.Measurement) {
	m.Label(ingest.LabelFormat, "text log")
	m.Label(ingest.LabelURL, p.URL)
	m.Label(ingest.LabelAsked, p.RequestedQPS)
	m.Label(ingest.LabelVersion, p.Version)
	m.Label(ingest.LabelProcs, p.gomax)
	m.Label("procs", p.procs)
	m.Label(ingest.LabelBehind, p.behind)
	m.Label(ingest.LabelPerfect, p.perfect)
	m.Label(ingest.LabelWarnings, strings.Join(p.warnings, "\n"))
}

func (l *log) line(line string) error {
	if strings.HasPrefix(line, "Fortio ") && strings.Contains(line, " queries per second") {
		err := l.end()
		l.run = &printed{line: l.n}
		l.run.RunType, l.run.RetCodes = "HTTP", map[string]uint64{}
		return errors.Join(err, l.run.head(line))
	}
	p := l.run
	switch {
	case p == nil:
		return nil
	case strings.HasPrefix(line, ">"):
		return l.bucket(line)
	case strings.HasPrefix(line, "# target "):
		return l.target(line)
	case strings.HasPrefix(line, "{"):
		p.structured(line)
		return nil
	}
	name, rest, ok := strings.Cut(line, " : ")
	if ok {
		return l.named(name, rest)
	}
	return p.other(line)
}

// head reads "Fortio 1.3.1-pre running at 120 queries per second, 1->1 procs, for 10s: host/echo".
func (p *printed) head(line string) error {
	version, rest, ok := strings.Cut(strings.TrimPrefix(line, "Fortio "), " running at ")
	qps, more, ok2 := strings.Cut(rest, " queries per second, ")
	procs, more, ok3 := strings.Cut(more, " procs, for ")
	length, target, ok4 := strings.Cut(more, ": ")
	if !ok || !ok2 || !ok3 || !ok4 {
		return fmt.Errorf("%.200q is no heading of a run", line)
	}
	p.Version, p.procs, p.RequestedDuration, p.URL, p.heading = version, procs, length, target, rest
	p.RequestedQPS = qps
	if qps == "0" || strings.HasPrefix(qps, "-") {
		p.RequestedQPS = "max"
	}
	return nil
}

// bucket reads "> 0.0002 <= 0.0003 , 0.00025 , 0.25, 1": from, to, middle,
// percent so far, count.
func (l *log) bucket(line string) error {
	if l.into == nil {
		return nil
	}
	f := strings.Fields(strings.NewReplacer(",", " ", "<=", " ", ">=", " ", ">", " ").Replace(line))
	const columns = 5
	if len(f) != columns {
		return fmt.Errorf("%.100q is no line of a histogram", line)
	}
	var b bucket
	var err [3]error
	b.Start, err[0] = strconv.ParseFloat(f[0], 64)
	b.End, err[1] = strconv.ParseFloat(f[1], 64)
	b.Count, err[2] = strconv.ParseUint(f[4], 10, 48)
	if err := errors.Join(err[:]...); err != nil {
		return err
	}
	if len(l.into.Data) >= maxBuckets {
		return fmt.Errorf("more than %d buckets", maxBuckets)
	}
	l.into.Data = append(l.into.Data, b)
	return nil
}

// target reads "# target 99.9% 0.00306303".
func (l *log) target(line string) error {
	if l.into == nil {
		return nil
	}
	f := strings.Fields(line)
	const words = 4
	if len(f) != words {
		return fmt.Errorf("%.100q is no percentile", line)
	}
	var q percentile
	var err, err2 error
	q.Percentile, err = strconv.ParseFloat(strings.TrimSuffix(f[2], "%"), 64)
	q.Value, err2 = strconv.ParseFloat(f[3], 64)
	if err = errors.Join(err, err2); err != nil {
		return err
	}
	if len(l.into.Percentiles) < 100 {
		l.into.Percentiles = append(l.into.Percentiles, q)
	}
	return nil
}

// named reads lines "name : ...".
func (l *log) named(name, rest string) (err error) {
	p := l.run
	kind, what, _ := strings.Cut(name, " ")
	switch {
	case strings.HasPrefix(name, "Starting at "):
		return p.starting(name)
	case name == "Aggregated Function Time":
		p.DurationHistogram = &histogram{}
		l.into, p.function = p.DurationHistogram, true
		return summary(l.into, rest)
	case name == "Error cases" && strings.HasPrefix(rest, "count "):
		p.ErrorsDurationHistogram = &histogram{}
		l.into = p.ErrorsDurationHistogram
		return summary(l.into, rest)
	case name == "Response Header Sizes":
		l.into = nil
		return summary(&p.HeaderSizes, rest)
	case name == "Response Body/Total Sizes":
		l.into = nil
		return summary(&p.Sizes, rest)
	case strings.HasPrefix(rest, "count "), strings.HasPrefix(rest, "no data"): // sleeps, connecting
		l.into = nil
	case strings.HasPrefix(name, "Ended after "):
		return p.ended(strings.TrimPrefix(name, "Ended after "), rest)
	case kind == "Code", kind == "Ping", kind == "Health":
		l.into = nil
		if kind != "Code" {
			p.RunType = "GRPC " + kind
		}
		n, _, _ := strings.Cut(rest, " ")
		if len(p.RetCodes) >= maxCodes {
			return fmt.Errorf("more than %d codes", maxCodes)
		}
		p.RetCodes[strings.Clone(what)], err = strconv.ParseUint(n, 10, 48)
	}
	return err
}

// summary reads "count 1200 avg 0.0005 +/- 0.0002 min 0.0001 max 0.003 sum 0.7".
func summary(h *histogram, text string) (err error) {
	f := strings.Fields(text)
	for i := 0; i+1 < len(f); i += 2 {
		v := f[i+1]
		switch f[i] {
		case "count":
			h.Count, err = strconv.ParseUint(v, 10, 48)
		case "avg":
			h.Avg, err = strconv.ParseFloat(v, 64)
		case "min":
			h.Min, err = strconv.ParseFloat(v, 64)
		case "max":
			h.Max, err = strconv.ParseFloat(v, 64)
		case "sum":
			h.Sum, err = strconv.ParseFloat(v, 64)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ended reads "10.003445707s" and "1200 calls. qps=119.96".
func (p *printed) ended(after, rest string) (err error) {
	if p.ActualDuration, err = time.ParseDuration(strings.TrimSpace(after)); err != nil {
		return err
	}
	_, qps, _ := strings.Cut(rest, "qps=")
	p.ActualQPS, err = strconv.ParseFloat(qps, 64)
	return err
}

// starting reads "Starting at 120 qps with 4 thread(s) [gomax 1] for 10s".
func (p *printed) starting(line string) (err error) {
	_, rest, _ := strings.Cut(line, " with ")
	threads, rest, ok := strings.Cut(rest, " thread(s) [gomax ")
	gomax, _, ok2 := strings.Cut(rest, "]")
	if !ok || !ok2 {
		return fmt.Errorf("%.100q does not say how many threads there are", line)
	}
	p.gomax = gomax
	if strings.Contains(line, "at max qps") {
		p.RequestedQPS = "max"
	}
	p.NumThreads, err = strconv.Atoi(threads)
	return err
}

func (p *printed) other(line string) (err error) {
	switch {
	case strings.HasPrefix(line, "Starting at "):
		return p.starting(line)
	case strings.HasPrefix(line, "WARNING "):
		if share, _, ok := strings.Cut(strings.TrimPrefix(line, "WARNING "), "% of sleep"); ok {
			if _, err = strconv.ParseFloat(share, 64); err != nil {
				return err
			}
			p.behind = share
		}
		p.warn(line)
	case strings.HasPrefix(line, "Sockets used: "): // "4 (for perfect keepalive, would be 4)"
		used, rest, _ := strings.Cut(strings.TrimPrefix(line, "Sockets used: "), " ")
		if _, perfect, ok := strings.Cut(rest, "would be "); ok {
			p.perfect = strings.TrimSuffix(perfect, ")")
		}
		p.SocketCount, err = strconv.ParseUint(used, 10, 48)
	case strings.HasPrefix(line, "Successfully wrote "):
		if _, file, ok := strings.Cut(line, " data to "); ok {
			p.file = strings.TrimSuffix(path.Base(file), ".json")
		}
	case strings.HasPrefix(line, "Aborting because "):
		p.aborted = strings.TrimPrefix(line, "Aborting because ")
	case strings.Contains(line, " I grpcrunner.go"):
		p.RunType = "GRPC"
	case len(line) > 10 && (line[8:11] == " W " || line[8:11] == " E "):
		p.warn(line)
	}
	return err
}

func (p *printed) warn(line string) {
	if len(p.warnings) < maxWarnings {
		p.warnings = append(p.warnings, line[:min(len(line), 300)])
	}
}

// structured reads a line of newer versions' log: JSON.
func (p *printed) structured(line string) {
	var entry struct {
		Seconds float64 `json:"ts"`
		Level   string  `json:"level"`
		Text    string  `json:"msg"`
	}
	if json.Unmarshal([]byte(line), &entry) != nil {
		return // of people's interest only
	}
	const latest = 1 << 33
	if p.StartTime.IsZero() && entry.Seconds > 0 && entry.Seconds < latest {
		p.StartTime = time.UnixMicro(int64(entry.Seconds * 1e6)).UTC()
	}
	if entry.Level == "warn" || entry.Level == "err" || entry.Level == "error" {
		p.warn(entry.Text)
	}
}
