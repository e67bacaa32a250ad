// Package hdr reads HdrHistogram's own formats, which many tools write: interval
// logs (.hlog, V2) and percentile distributions (.hgrm), among them vegeta's
// `report -type=hdrplot`.
package hdr

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Name is the format's name.
const Name = "hdrhistogram"

const (
	headBytes = 64 << 10
	maxTags   = 100
)

// Format is the catalog entry.
func Format() ingest.Format {
	return ingest.Format{
		Name: Name, Summary: "HdrHistogram's interval logs (.hlog, V2) and percentile distributions (.hgrm, vegeta's hdrplot)",
		Detect: func(head []byte) bool { return isLog(head) || isPercentiles(head) },
		Read: func(r io.Reader, about ingest.About) ([]ingest.Measurement, error) {
			in := bufio.NewReaderSize(r, headBytes)
			head, err := in.Peek(headBytes)
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, fmt.Errorf("reading a histogram: %w", err)
			}
			if isLog(head) {
				return readLog(in, about)
			}
			m, err := readPercentiles(in, about)
			if err != nil {
				return nil, fmt.Errorf("reading a percentile distribution: %w", err)
			}
			return []ingest.Measurement{*m}, nil
		},
	}
}

func isLog(head []byte) bool {
	return bytes.Contains(head, []byte("[Histogram log format version")) || bytes.Contains(head, []byte(",HISTFAAA"))
}

// isPercentiles says whether the first line that is not empty names the columns.
func isPercentiles(head []byte) bool {
	first, _, _ := bytes.Cut(bytes.TrimSpace(head), []byte{'\n'})
	f := strings.Fields(string(first))
	return len(f) == 4 && strings.HasPrefix(f[0], "Value") && f[1] == "Percentile" && f[2] == "TotalCount"
}

// result holds what is the same of both formats: a distribution and no more.
func result(about ingest.About) *model.LoadResult {
	out := ingest.NewResult(Name, about, model.BasisSent)
	t := out.Tool
	t.Note(ingest.NoRequests)
	t.Note(ingest.NoBytes)
	return out
}

// series is what a log tells of one load.
type series struct {
	m     ingest.Measurement
	took  map[string]time.Duration // by kind
	kinds bool
}

// readLog reads an interval log. Intervals of one tag are one measurement;
// where tags tell kinds of latency apart, those of one load are, too.
func readLog(r io.Reader, about ingest.About) ([]ingest.Measurement, error) {
	byName := map[string]*series{}
	for e, err := range hist.ReadLog(r) {
		if err != nil {
			return nil, err
		}
		name, kind := kindOf(e.Tag)
		s := byName[name]
		if s == nil {
			if len(byName) >= maxTags {
				return nil, fmt.Errorf("reading a histogram log: more than %d tags", maxTags)
			}
			s = &series{took: map[string]time.Duration{}, kinds: kind != ""}
			s.m = ingest.Measurement{Name: name, Started: e.Start, Result: result(about)}
			s.m.Label(ingest.LabelFormat, "interval log")
			s.m.Label(ingest.LabelLabel, name)
			byName[name] = s
		}
		s.took[kind] += e.Interval
		s.of(kind).Merge(e.Histogram)
	}
	var all []ingest.Measurement
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		s := byName[name]
		s.end()
		if s.m.Result.Due > 0 {
			all = append(all, s.m)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("reading a histogram log: it has no values")
	}
	if len(all) == 1 {
		all[0].Name = ""
	}
	return all, nil
}

// The kinds of latency that Windtunnel's own logs have in their tags.
const (
	kindResponse = "response"
	kindService  = "service"
	kindFailed   = "failed"
)

// kindOf takes the kind out of a tag such as "mesh/peak/service/3/valid".
func kindOf(tag string) (name, kind string) {
	parts := strings.Split(tag, "/")
	for i, p := range parts {
		if p == kindResponse || p == kindService || p == kindFailed {
			return strings.Join(slices.Delete(parts, i, i+1), "/"), p
		}
	}
	return tag, ""
}

func (s *series) of(kind string) *hist.Histogram {
	switch kind {
	case kindResponse:
		return s.m.Result.Response
	case kindFailed:
		return s.m.Result.FailedResponse
	}
	return s.m.Result.Service
}

// end counts what the histograms hold.
func (s *series) end() {
	out, t := s.m.Result, s.m.Result.Tool
	out.Elapsed = 0
	for _, d := range s.took {
		out.Elapsed = max(out.Elapsed, d)
	}
	out.Succeeded = max(out.Response.Count(), out.Service.Count())
	if n := out.FailedResponse.Count(); n > 0 {
		out.Failed[model.CauseProtocol] = n
		t.Note("failures are all counted as protocol errors: the log does not tell why they failed")
	}
	out.Due = out.Succeeded + out.FailedTotal()
	out.Sent = out.Due
	t.Note("values are taken for nanoseconds: the format does not tell their unit")
	if s.kinds {
		t.Note("response, service and failed in tags are taken for what Windtunnel means by them")
		if out.Response.Count() > 0 {
			t.Basis = model.BasisDue
		}
		return
	}
	unknown(t)
}

// unknown says what a distribution alone does not tell.
func unknown(t *model.Tool) {
	t.Note("what latencies count from is not told; they are taken to count from sending")
	t.Note("failures: the format does not tell; all values are counted as successes")
}

// readPercentiles reads lines "0.109     0.000000            1         1.00":
// value, share, values so far.
func readPercentiles(r io.Reader, about ingest.About) (*ingest.Measurement, error) {
	out := result(about)
	points := ingest.NewSpectrum(out.Service)
	unit, known := time.Millisecond, false
	err := ingest.Lines(r, func(line string) error {
		f := strings.Fields(line)
		const columns = 4
		switch {
		case len(f) == 0 || strings.HasPrefix(f[0], "#"):
			return footer(out.Tool, line, unit)
		case strings.HasPrefix(f[0], "Value"):
			unit, known = unitOf(f[0])
			return nil
		case len(f) != columns:
			return fmt.Errorf("%d columns instead of value, percentile, count and 1/(1-percentile)", len(f))
		}
		v, err := value(f[0], unit)
		if err != nil {
			return err
		}
		n, err := strconv.ParseUint(f[2], 10, 48)
		if err != nil {
			return err
		}
		return points.Add(v, n)
	})
	if err != nil {
		return nil, err
	}
	n := out.Service.Count()
	if n == 0 {
		return nil, errors.New("it has no values")
	}
	out.Succeeded, out.Sent, out.Due = n, n, n
	out.Tool.Note(ingest.Coarse)
	unknown(out.Tool)
	if !known {
		out.Tool.Note("values are taken for milliseconds, as is usual: the format does not tell their unit")
	}
	if out.Elapsed == 0 {
		out.Tool.Note("how long it took is not told: there are no rates")
	}
	m := &ingest.Measurement{Result: out}
	m.Label(ingest.LabelFormat, "percentile distribution")
	return m, nil
}

// unitOf reads "Value(ms)"; false if the heading has no unit.
func unitOf(heading string) (time.Duration, bool) {
	for text, unit := range map[string]time.Duration{
		"(s)": time.Second, "(sec)": time.Second, "(ms)": time.Millisecond, "(us)": time.Microsecond, "(µs)": time.Microsecond, "(ns)": 1,
	} {
		if strings.HasSuffix(heading, text) {
			return unit, true
		}
	}
	return time.Millisecond, false
}

func value(text string, unit time.Duration) (time.Duration, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%.30q is no value", text)
	}
	return ingest.Seconds(v * unit.Seconds())
}

// footer reads "#[Mean    =        1.967, StdDeviation   =        2.518]" and
// "#[Max     =       19.440, Total count    =          200]".
func footer(t *model.Tool, line string, unit time.Duration) error {
	for part := range strings.SplitSeq(strings.Trim(line, "#[] "), ",") {
		name, text, ok := strings.Cut(part, "=")
		name = strings.ToLower(strings.TrimSpace(name))
		if !ok || name != "mean" && name != "max" {
			continue
		}
		v, err := value(strings.TrimSpace(text), unit)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		t.Figures[name] = v
	}
	return nil
}
