package summary_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/summary"
)

func sample(n uint64) *summary.Load {
	r := &model.LoadResult{
		Arrival: model.ArrivalOpen, Rate: 100, Connections: 2, Elapsed: 10 * time.Second, Due: n + 3, Sent: n + 2, Succeeded: n, Unsent: 1,
		Failed: map[model.Cause]uint64{model.CauseTimeout: 2}, Response: &hist.Histogram{}, Service: &hist.Histogram{},
		FailedResponse: &hist.Histogram{}, Lateness: &hist.Histogram{}, Workers: 1, Clock: "a clock",
		Timeline: model.Timeline{SlotWidth: 100 * time.Millisecond, Slots: make([]model.Slot, 100)},
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		d := time.Duration(rng.ExpFloat64() * 1e6)
		r.Response.Record(int64(d))
		r.Service.Record(int64(d) / 2)
		s := &r.Timeline.Slots[i%50+20] // the first and the last are empty
		s.Succeeded++
		s.Cells = append(s.Cells, [2]uint32{hist.Cell(d), 1})
	}
	return &summary.Load{URL: "http://" + strings.Repeat("long.", 30), Load: model.Load{Arrival: model.ArrivalOpen, Rate: 100, Duration: r.Elapsed}, Result: r}
}

func TestTextFitsAndClaimsNoMoreThanItKnows(t *testing.T) {
	t.Parallel()
	for _, n := range []uint64{0, 1, 99, 100, 999, 1000, 20_000} {
		var b bytes.Buffer
		if err := sample(n).WriteText(&b); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if width := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > 100 && !strings.Contains(line, "long.") {
				t.Errorf("%d successes: %d columns: %s", n, width, line)
			}
		}
		for q, needs := range map[string]uint64{" p99 ": 100, " p99.9 ": 1000, " p99.99 ": 10_000} {
			head, _, _ := strings.Cut(b.String(), "\nresponse")
			if _, table, _ := strings.Cut(head, "\n\n"); n > 0 && strings.Contains(table, q) != (n >= needs) {
				t.Errorf("%d successes: is%sgiven? %s", n, q, table)
			}
		}
	}
}

func TestJSONIsOneObject(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := sample(500).WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var o struct {
		Response map[string]*float64 `json:"response"`
		Failed   map[string]uint64   `json:"failed"`
	}
	if err := json.Unmarshal(b.Bytes(), &o); err != nil {
		t.Fatal(err)
	}
	if o.Response["p99_ms"] == nil || o.Response["p99_9_ms"] != nil || o.Failed["timed out"] != 2 {
		t.Errorf("%+v", o)
	}
}

func TestPageNeedsNothingElse(t *testing.T) {
	t.Parallel()
	for _, n := range []uint64{0, 500} {
		var b bytes.Buffer
		if err := sample(n).WriteHTML(&b); err != nil {
			t.Fatal(err)
		}
		for _, outside := range []string{"<script", "src=", "<link", "NaN", "Inf"} {
			if strings.Contains(b.String(), outside) {
				t.Errorf("%d successes: the page has %q", n, outside)
			}
		}
	}
}
