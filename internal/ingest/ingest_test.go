package ingest_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestSpread(t *testing.T) {
	t.Parallel()
	for _, n := range []uint64{0, 1, 7, 999, 2354, 1 << 60} {
		var h hist.Histogram
		ingest.Spread(&h, time.Millisecond, 2*time.Millisecond, n)
		if h.Count() != n {
			t.Errorf("%d values became %d", n, h.Count())
		}
		if n > 100 {
			if q := h.Quantile(0.3); q < 1290*time.Microsecond || q > 1310*time.Microsecond {
				t.Errorf("of %d values from 1 to 2 ms, p30 is %s", n, q)
			}
		}
	}
}

func TestCauses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]model.Cause{
		`Get "http://x": dial tcp 10.0.0.1:80: connect: connection refused`:              model.CauseRefused,
		`net/http: request canceled (Client.Timeout exceeded while awaiting headers)`:    model.CauseTimeout,
		`read tcp 1.2.3.4:5->6.7.8.9:80: read: connection reset by peer`:                 model.CauseReset,
		`x509: certificate signed by unknown authority`:                                  model.CauseTLS,
		`dial tcp: lookup nowhere: no such host`:                                         model.CauseConnect,
		`net/http: HTTP/1.x transport connection broken: malformed HTTP response "what"`: model.CauseProtocol,
		`unexpected EOF`: model.CauseClosed,
	} {
		if got, known := ingest.CauseOf(text); got != want || !known {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if _, known := ingest.CauseOf("something else"); known {
		t.Error("what is not known is known")
	}
}

// A timeline of unknown length keeps every request, in at most 100 slots.
func TestTimelineGrows(t *testing.T) {
	t.Parallel()
	r := ingest.NewRecorder("x", ingest.About{Arrival: model.ArrivalOpen}, model.BasisSent)
	for i := range int64(5000) {
		q := ingest.Record{Sent: i * 10e6, Done: i*10e6 + 1e6}
		if i%10 == 0 {
			q.Failure = model.CauseReset
		}
		r.Add(q)
	}
	out := r.Result()
	var ok, failed uint64
	for _, s := range out.Timeline.Slots {
		ok, failed = ok+s.Succeeded, failed+s.Failed
	}
	if len(out.Timeline.Slots) > 100 || len(out.Timeline.Slots) < 50 || ok != 4500 || failed != 500 {
		t.Errorf("%d slots of %s hold %d and %d", len(out.Timeline.Slots), out.Timeline.SlotWidth, ok, failed)
	}
	if out.Elapsed != 50*time.Second || out.FailedPrefix != 1 || out.Due != out.Succeeded+out.FailedTotal() {
		t.Errorf("%s, prefix %d, %d due", out.Elapsed, out.FailedPrefix, out.Due)
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	err := ingest.Lines(strings.NewReader(strings.Repeat("x\n", 100)), func(string) error { return errors.New("bad") })
	if text := err.Error(); !strings.Contains(text, "line 1: bad") || !strings.Contains(text, "and 90 more") {
		t.Error(text)
	}
	if err := ingest.Lines(strings.NewReader(strings.Repeat("x", 2<<20)), func(string) error { return nil }); err == nil {
		t.Error("a line without an end is none")
	}
	if _, err := ingest.ReadAll(strings.NewReader("12345"), 4); err == nil {
		t.Error("5 bytes are at most 4")
	}
	for _, s := range []float64{-1, 1e300} {
		if _, err := ingest.Seconds(s); err == nil {
			t.Errorf("%g s is a time", s)
		}
	}
}
