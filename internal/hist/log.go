package hist

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Tagged is one interval of a histogram log: what was recorded from Start for
// the length of Interval. The tag keeps apart series that share a log, such as
// "response" and "service"; it may be empty, and holds no comma or white space.
type Tagged struct {
	Tag      string
	Start    time.Time
	Interval time.Duration
	*Histogram
}

const (
	// maxLine is room for the longest histogram that DecodeV2 takes, in base64.
	maxLine = maxDecoded*4/3 + 4096
	// maxSeconds bounds times to what time.Duration holds: 285 years.
	maxSeconds = 9e9
)

// WriteLog writes intervals as an HdrHistogram log, version 1.3: the text
// (.hlog) that HistogramLogAnalyzer and the HdrHistogram libraries read. Times
// are kept to the millisecond, and maxima are given in milliseconds, as is
// usual there. Intervals belong in the order of their starts.
func WriteLog(w io.Writer, entries []Tagged) error {
	b := bufio.NewWriter(w)
	base := earliest(entries)
	if _, err := b.WriteString(logHeader(base)); err != nil {
		return fmt.Errorf("writing a histogram log: %w", err)
	}
	for i, e := range entries {
		if err := writeInterval(b, e, base); err != nil {
			return fmt.Errorf("writing interval %d of a histogram log: %w", i, err)
		}
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("writing a histogram log: %w", err)
	}
	return nil
}

// earliest is the start that the times of a log count from; the epoch if there
// is none.
func earliest(entries []Tagged) time.Time {
	if len(entries) == 0 {
		return time.Unix(0, 0)
	}
	first := slices.MinFunc(entries, func(a, b Tagged) int { return a.Start.Compare(b.Start) })
	return first.Start.Truncate(time.Millisecond)
}

func logHeader(base time.Time) string {
	epoch := float64(base.UnixMilli()) / 1000
	return fmt.Sprintf("#[Histogram log format version 1.3]\n"+
		"#[StartTime: %.3f (seconds since epoch), %s]\n"+
		"#[BaseTime: %.3f (seconds since epoch)]\n"+
		`"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"`+"\n",
		epoch, base.UTC().Format(time.RFC3339), epoch)
}

func writeInterval(b *bufio.Writer, e Tagged, base time.Time) error {
	if strings.ContainsAny(e.Tag, ", \t\r\n") {
		return fmt.Errorf("tag %q: a tag has no comma and no white space", e.Tag)
	}
	if e.Histogram == nil {
		return errors.New("it has no histogram")
	}
	if math.Abs(float64(e.Start.Unix())) > maxSeconds {
		return fmt.Errorf("its start %v is out of range", e.Start)
	}
	if e.Interval < 0 {
		return fmt.Errorf("its length %v is negative", e.Interval)
	}
	hdr, err := e.EncodeV2()
	if err != nil {
		return err
	}
	tag := ""
	if e.Tag != "" {
		tag = "Tag=" + e.Tag + ","
	}
	_, err = fmt.Fprintf(b, "%s%.3f,%.3f,%.3f,%s\n", tag, e.Start.Sub(base).Seconds(), e.Interval.Seconds(),
		float64(e.Max())/float64(time.Millisecond), base64.StdEncoding.EncodeToString(hdr))
	return err
}

// ReadLog reads an HdrHistogram log one interval at a time, so that a log of any
// length takes the memory of one histogram. The first error ends it.
func ReadLog(r io.Reader) iter.Seq2[Tagged, error] {
	return func(yield func(Tagged, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxLine)
		var clock logClock
		for n := 1; lines.Scan(); n++ {
			line := strings.TrimSpace(lines.Text())
			if strings.HasPrefix(line, "#") {
				clock.note(line)
				continue
			}
			if line == "" || strings.HasPrefix(line, `"StartTimestamp"`) {
				continue
			}
			e, err := readInterval(line, &clock)
			if err != nil {
				yield(Tagged{}, fmt.Errorf("reading a histogram log: line %d: %w", n, err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(Tagged{}, fmt.Errorf("reading a histogram log: %w", err))
		}
	}
}

func readInterval(line string, clock *logClock) (e Tagged, err error) {
	if tag, ok := strings.CutPrefix(line, "Tag="); ok {
		e.Tag, line, _ = strings.Cut(tag, ",")
		if strings.ContainsAny(e.Tag, " \t\r") {
			return Tagged{}, fmt.Errorf("tag %q: a tag has no white space", e.Tag)
		}
	}
	field := strings.Split(line, ",")
	if len(field) != 4 {
		return Tagged{}, fmt.Errorf("%d fields, not start, length, maximum and histogram", len(field))
	}
	start, err := seconds(field[0])
	if err != nil {
		return Tagged{}, err
	}
	length, err := seconds(field[1])
	if err != nil || length < 0 {
		return Tagged{}, errors.Join(fmt.Errorf("length %q is none", field[1]), err)
	}
	at := clock.absolute(start)
	if math.Abs(at) > maxSeconds {
		return Tagged{}, fmt.Errorf("start %q with the log's base is out of range", field[0])
	}
	hdr, err := base64.StdEncoding.DecodeString(field[3])
	if err != nil {
		return Tagged{}, fmt.Errorf("its histogram: %w", err)
	}
	e.Start = time.UnixMilli(int64(math.Round(at * 1000))).UTC()
	e.Interval = time.Duration(math.Round(length*1000)) * time.Millisecond
	e.Histogram, err = DecodeV2(hdr)
	return e, err
}

// seconds reads a time in seconds.
func seconds(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, fmt.Errorf("time %q is no number of seconds", s)
	}
	if math.IsNaN(v) || math.Abs(v) > maxSeconds {
		return 0, fmt.Errorf("time %q is out of range", s)
	}
	return v, nil
}

// logClock turns a log's times into absolute ones, by the rules of
// org.HdrHistogram.HistogramLogReader: an explicit base is added; without one,
// times over a year before the log's start are relative to it.
type logClock struct {
	start, base       float64
	hasStart, hasBase bool
}

func (c *logClock) note(comment string) {
	if v, ok := noted(comment, "#[StartTime:"); ok {
		c.start, c.hasStart = v, true
	}
	if v, ok := noted(comment, "#[BaseTime:"); ok {
		c.base, c.hasBase = v, true
	}
}

func noted(comment, name string) (float64, bool) {
	rest, ok := strings.CutPrefix(comment, name)
	words := strings.Fields(rest)
	if !ok || len(words) == 0 {
		return 0, false
	}
	v, err := seconds(words[0])
	return v, err == nil
}

func (c *logClock) absolute(t float64) float64 {
	const year = 365 * 24 * 3600
	if !c.hasBase {
		c.hasBase = true
		if c.hasStart && t < c.start-year {
			c.base = c.start
		}
	}
	return t + c.base
}
