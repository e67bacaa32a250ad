package sockperf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Format is the catalog entry.
func Format() ingest.Format {
	return ingest.Format{
		Name: Name, Summary: "what sockperf prints, and its --full-log",
		Detect: func(head []byte) bool {
			return bytes.Contains(head, []byte("sockperf: ")) || bytes.Contains(head, []byte("packet, txTime(sec)"))
		},
		Read: func(r io.Reader, about ingest.About) ([]ingest.Measurement, error) {
			m, err := measurement(r, about)
			if err != nil {
				return nil, err
			}
			return []ingest.Measurement{*m}, nil
		},
	}
}

func measurement(r io.Reader, about ingest.About) (*ingest.Measurement, error) {
	rd, err := scan(r, &about)
	if err != nil {
		return nil, err
	}
	m := &ingest.Measurement{}
	switch {
	case rd.table && rd.column >= 0:
		if m.Result, err = rd.packets(about); err != nil {
			return nil, err
		}
		m.Requests = rd.log.Sorted(m.Result.Tool)
		m.Result.Tool.Note("packets' times are of a clock of sockperf's own: their order and distance are known, not when they were sent")
		m.Label(ingest.LabelFormat, "full log")
	default:
		if m.Result, err = rd.printed(about); err != nil {
			return nil, fmt.Errorf("reading sockperf's output: %w", err)
		}
		m.Label(ingest.LabelFormat, "text")
	}
	m.Result.Tool.Version = rd.version
	m.Label(ingest.LabelVersion, rd.version)
	return m, nil
}

// printed makes a result of the summary.
func (r *reader) printed(about ingest.About) (*model.LoadResult, error) {
	if len(r.figures) == 0 || r.numbers["RunTime"] == 0 {
		return nil, errors.New("it has no [Valid Duration] and no percentiles: the run did not end")
	}
	out := ingest.NewResult(Name, about, model.BasisSent)
	var err error
	if out.Elapsed, err = ingest.Seconds(r.numbers["RunTime"]); err != nil {
		return nil, err
	}
	received, sent := uint64(r.numbers["ReceivedMessages"]), uint64(r.numbers["SentMessages"])
	lost := uint64(r.numbers["dropped messages"])
	out.Succeeded, out.Due, out.Sent = received, received+lost, received+lost
	if lost > 0 {
		out.Failed[model.CauseTimeout] = lost
	}
	out.Tool.Figures = r.figures
	t := out.Tool
	if received+lost < sent {
		t.Note("in its under-load mode sockperf asks for an answer to some messages only (--reply-every): the others count for nothing")
	}
	t.Note(valid)
	t.Note(ingest.FiguresOnly)
	t.Note(ingest.NoRequests)
	if !r.rtt {
		t.Note("the figures are half round trips: sockperf halves them unless --full-rtt is given")
	}
	return out, nil
}

// figure reads "sockperf: ---> percentile 99.000 =  501.493" and "<MAX> observation".
func (r *reader) figure(line string) error {
	name, value, ok := strings.Cut(line[strings.Index(line, "--->")+len("--->"):], "=")
	us, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if !ok || err != nil {
		return fmt.Errorf("%.100q is no figure of sockperf's", line)
	}
	d, err := ingest.Seconds(us / float64(time.Second/time.Microsecond))
	if err != nil {
		return err
	}
	f := strings.Fields(name)
	if len(f) != 2 { //nolint:mnd // kind and which
		return fmt.Errorf("%.100q is no figure of sockperf's", line)
	}
	switch f[0] {
	case "<MAX>":
		r.figures["max"] = d
	case "<MIN>":
		r.figures["min"] = d
	case "percentile":
		q, err := strconv.ParseFloat(f[1], 64)
		if err != nil || !(q >= 0 && q <= 100) {
			return fmt.Errorf("%.100q is no percentile", f[1])
		}
		if len(r.figures) < 100 {
			r.figures["p"+strconv.FormatFloat(q, 'g', -1, 64)] = d
		}
	}
	return nil
}

// other reads the lines that name the version and the mean: "== version #3.7 ==",
// "====> avg-latency=25.128 (std-dev=190.325)", "avg-rtt" with --full-rtt.
func (r *reader) other(line string) {
	if _, rest, ok := strings.Cut(line, "== version #"); ok {
		r.version, _, _ = strings.Cut(rest, " ")
	}
	for _, name := range []string{"avg-latency=", "avg-lat=", "avg-rtt="} {
		_, rest, ok := strings.Cut(line, name)
		if !ok {
			continue
		}
		r.rtt = name == "avg-rtt="
		word, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if us, err := strconv.ParseFloat(word, 64); err == nil {
			if d, err := ingest.Seconds(us / float64(time.Second/time.Microsecond)); err == nil {
				r.figures["mean"] = d
			}
		}
	}
}

// plain takes the colours of a terminal out of a line.
func plain(line string) string {
	if !strings.Contains(line, "[") {
		return line
	}
	return regexp.MustCompile("\x1b?\\[[0-9;]*m").ReplaceAllString(line, "")
}
