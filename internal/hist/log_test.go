package hist

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

func sampleLog() []Tagged {
	t0 := time.Date(2026, 11, 20, 12, 0, 0, 250e6, time.UTC)
	return []Tagged{
		{Tag: "response", Start: t0, Interval: 10 * time.Second, Histogram: of(1_000_000, 2_500_000, 7)},
		{Tag: "service", Start: t0, Interval: 10 * time.Second, Histogram: of(900_000)},
		{Start: t0.Add(10 * time.Second), Interval: 1500 * time.Millisecond, Histogram: &Histogram{}},
	}
}

func readAll(tb testing.TB, text string) ([]Tagged, error) {
	tb.Helper()
	var all []Tagged
	for e, err := range ReadLog(strings.NewReader(text)) {
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
	return all, nil
}

func same(a, b Tagged) bool {
	return a.Tag == b.Tag && a.Start.Equal(b.Start) && a.Interval == b.Interval && a.counts == b.counts
}

func TestLogMatchesTheGoldenFile(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := WriteLog(&out, sampleLog()); err != nil {
		t.Fatal(err)
	}
	got, err := readAll(t, out.String())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range sampleLog() {
		if !same(got[i], want) {
			t.Errorf("interval %d: read %v, wrote %v", i, got[i], want)
		}
	}
	golden, err := os.ReadFile("testdata/sample.hlog")
	if err != nil {
		t.Fatal(err)
	}
	// The payload depends on the zlib of the Go release; the rest must not change.
	if strip(out.String()) != strip(string(golden)) {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), golden)
	}
	old, err := readAll(t, string(golden))
	if err != nil || len(old) != len(got) {
		t.Fatalf("the golden file holds %d intervals: %v", len(old), err)
	}
	for i := range old {
		if !same(old[i], got[i]) {
			t.Errorf("interval %d of the golden file differs", i)
		}
	}
}

func strip(log string) string {
	lines := strings.Split(log, "\n")
	for i, l := range lines {
		lines[i], _, _ = strings.Cut(l, ",HISTF")
	}
	return strings.Join(lines, "\n")
}

func TestHdrHistogramReadsOurLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := WriteLog(&out, sampleLog()); err != nil {
		t.Fatal(err)
	}
	r := hdr.NewHistogramLogReader(&out)
	for i, want := range sampleLog() {
		h, err := r.NextIntervalHistogram()
		if err != nil || h == nil {
			t.Fatalf("interval %d: %v, %v", i, h, err)
		}
		if h.Tag() != want.Tag && want.Tag != "" || h.TotalCount() != int64(want.Count()) || h.StartTimeMs() != want.Start.UnixMilli() {
			t.Errorf("interval %d: tag %q, %d values from %d", i, h.Tag(), h.TotalCount(), h.StartTimeMs())
		}
	}
}

func TestWeReadHdrHistogramsLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := hdr.NewHistogramLogWriter(&out)
	h := hdr.New(1, Highest, 3)
	h.SetTag("GET")
	h.SetStartTimeMs(1_700_000_000_500)
	h.SetEndTimeMs(1_700_000_002_500)
	if err := errors.Join(h.RecordValues(12_345_678, 9), w.OutputLogFormatVersion(), w.OutputStartTime(1_700_000_000_000), w.OutputLegend(), w.OutputIntervalHistogram(h)); err != nil {
		t.Fatal(err)
	}
	got, err := readAll(t, out.String())
	if err != nil || len(got) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	want := &Histogram{}
	want.RecordN(12_345_678, 9)
	if !same(got[0], Tagged{"GET", time.UnixMilli(1_700_000_000_500), 2 * time.Second, want}) {
		t.Errorf("read %v %v %v", got[0].Tag, got[0].Start, got[0].Interval)
	}
}

func TestLogTimes(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := WriteLog(&out, []Tagged{{Start: time.Unix(0, 0), Histogram: of(1)}}); err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(strings.TrimSpace(out.String()[strings.LastIndex(out.String(), "\n0.000,"):]), ",")
	tests := []struct {
		name, head string
		stamp      string
		want       float64
	}{
		{"relative to a base", "#[BaseTime: 1500000000.000 (seconds since epoch)]\n", "2.5", 1500000002.5},
		{"far before the start: relative", "#[StartTime: 1500000000 (seconds since epoch)]\n", "2.5", 1500000002.5},
		{"near the start: absolute", "#[StartTime: 1500000000 (seconds since epoch)]\n", "1500000001", 1500000001},
		{"nothing said", "", "3", 3},
		{"windows line ends", "#[BaseTime: 7 (seconds)]\r\n\r\n", "1", 8},
		{"a base that is no number", "#[BaseTime: soon]\n#[StartTime:\n#\n", "1", 1},
	}
	for _, tt := range tests {
		got, err := readAll(t, tt.head+tt.stamp+","+body)
		if err != nil || len(got) != 1 {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if want := time.UnixMilli(int64(tt.want * 1000)); !got[0].Start.Equal(want) {
			t.Errorf("%s: %v, want %v", tt.name, got[0].Start, want)
		}
	}
}

func TestLogRefuses(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]Tagged{
		"a comma in the tag": {Tag: "a,b", Histogram: of(1), Start: time.Unix(1, 0)},
		"a space in the tag": {Tag: "a b", Histogram: of(1), Start: time.Unix(1, 0)},
		"no histogram":       {Start: time.Unix(1, 0)},
		"no start":           {Histogram: of(1)},
		"a negative length":  {Histogram: of(1), Start: time.Unix(1, 0), Interval: -1},
	} {
		if err := WriteLog(&bytes.Buffer{}, []Tagged{e}); err == nil {
			t.Errorf("%s: written", name)
		}
	}
	for name, text := range map[string]string{
		"two fields":        "1,2\n",
		"no number":         "x,1,1,AAAA\n",
		"not a number":      "NaN,1,1,AAAA\n",
		"beyond all time":   "1e300,1,1,AAAA\n",
		"base and start":    "#[BaseTime: 8e9 ]\n8e9,1,1,AAAA\n",
		"a negative length": "1,-1,1,AAAA\n",
		"no base64":         "1,1,1,*\n",
		"no histogram":      "1,1,1,AAAA\n",
		"a tag alone":       "Tag=x\n",
		"an endless line":   strings.Repeat("1", maxLine+1),
	} {
		if _, err := readAll(t, text); err == nil {
			t.Errorf("%s: read", name)
		}
	}
	if err := WriteLog(full{}, sampleLog()); !errors.Is(err, errFull) {
		t.Errorf("a full disk gives %v", err)
	}
}

var errFull = errors.New("full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func FuzzReadLog(f *testing.F) {
	var out bytes.Buffer
	if err := WriteLog(&out, sampleLog()); err != nil {
		f.Fatal(err)
	}
	f.Add(out.String())
	f.Add("#[StartTime: 15 (x)]\n1,2,3,HISTFAAAA\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := readAll(t, text)
		if err != nil || len(all) == 0 || len(all) > 50 {
			return
		}
		var out bytes.Buffer
		if err = WriteLog(&out, all); err != nil {
			t.Fatalf("cannot write what was read: %v", err)
		}
		again, err := readAll(t, out.String())
		if err != nil || len(again) != len(all) {
			t.Fatalf("cannot read what was written: %d of %d, %v", len(again), len(all), err)
		}
		for i := range all {
			if !same(all[i], again[i]) {
				t.Errorf("interval %d: %v %v %v, then %v %v %v", i, all[i].Tag, all[i].Start, all[i].Interval, again[i].Tag, again[i].Start, again[i].Interval)
			}
		}
	})
}
