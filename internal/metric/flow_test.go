package metric

import (
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/model"
)

// streamed is one second of a bulk transfer: 1 GB up and half of that down.
func streamed(direction string) *model.Outcome {
	o := measured()
	o.Load = &model.LoadResult{
		Elapsed: time.Second, Response: &hist.Histogram{}, Service: &hist.Histogram{},
		Stream: &model.StreamResult{Direction: direction, Up: 1e9, Down: 5e8, Retransmits: 12, RTT: 3 * time.Millisecond},
	}
	return o
}

// sprayed is one second of a flow of datagrams.
func sprayed() *model.Outcome {
	o := measured()
	o.Load = &model.LoadResult{
		Elapsed:   time.Second,
		Datagrams: &model.DatagramResult{Size: 1000, Sent: 10_000, Received: 9_950, Lost: 100, Duplicated: 50, Reordered: 199, Jitter: 40 * time.Microsecond},
	}
	return o
}

// Each kind of load has exactly its own metrics: the rest is absent, with a
// reason, and never zero.
func TestEachKindHasItsOwnMetrics(t *testing.T) {
	t.Parallel()
	messages := measured()
	messages.Load.Messages = 5_000
	memory := map[string]float64{"memory.total": 30, "memory.sidecar": 30}
	cpu := func(gbit float64) map[string]float64 {
		return map[string]float64{"cpu.gbit.total": 1.2 / gbit, "cpu.gbit.app": 0.2 / gbit, "cpu.gbit.sidecar": 1 / gbit, "cpu.gbit.generator": 1 / gbit, "cpu.gbit.host": 1.5 / gbit}
	}
	requests := map[string]float64{
		"response.p50": 0.25, "response.p90": 0.45, "response.p99": 0.495, "response.p99.9": 0.5, "response.mean": 0.2505,
		"service.p50": 0.25, "service.p90": 0.45, "service.p99": 0.495, "service.p99.9": 0.5, "service.mean": 0.2505,
		"rate": 500, "success": 500.0 / 600, "cpu.total": 2.4, "cpu.app": 0.4, "cpu.sidecar": 2, "cpu.generator": 2,
	}
	tests := map[string]struct {
		o    *model.Outcome
		want []map[string]float64
	}{
		"requests":         {measured(), []map[string]float64{requests, memory}},
		"streamed answers": {messages, []map[string]float64{requests, memory, {"messages": 5_000}}},
		"stream up and down": {streamed("both"), []map[string]float64{memory, cpu(12), {
			"goodput": 12e9, "goodput.up": 8e9, "goodput.down": 4e9, "retransmits": 8, "rtt": 3e-3,
		}}},
		"datagrams": {sprayed(), []map[string]float64{memory, cpu(9_900 * 8_000 / 1e9), {
			"goodput": 9_900 * 8_000, "goodput.up": 9_900 * 8_000, "loss": 0.01, "reordered": 0.02, "duplicated": 50.0 / 9_950, "jitter": 40e-6, "lost": 100, "datagrams": 9_950,
		}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, got := map[string]float64{}, map[string]float64{}
			for _, w := range tt.want {
				maps.Copy(want, w)
			}
			for _, n := range Names() {
				v, err := Of(tt.o, n)
				if err == nil {
					got[n] = v
				} else if v != 0 || err.Error() == "" {
					t.Errorf("%s: %v without a reason", n, v)
				}
			}
			if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 0.003*math.Abs(a) })); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A direction in which nothing is sent has no goodput.
func TestOneWay(t *testing.T) {
	t.Parallel()
	up, down := streamed("up"), streamed("down")
	up.Load.Stream.Down, down.Load.Stream.Up = 0, 0
	for name, o := range map[string]*model.Outcome{"goodput.down": up, "goodput.up": down} {
		if v, err := Of(o, name); err == nil {
			t.Errorf("%s = %v", name, v)
		}
	}
	if v, err := Of(down, "goodput"); err != nil || v != 4e9 {
		t.Errorf("goodput = %v, %v", v, err)
	}
}

func TestNothingArrived(t *testing.T) {
	t.Parallel()
	o := sprayed()
	o.Load.Datagrams.Received, o.Load.Datagrams.Duplicated, o.Load.Datagrams.Lost = 0, 0, 10_000
	if v, err := Of(o, "loss"); err != nil || v != 1 {
		t.Errorf("loss = %v, %v", v, err)
	}
	for _, name := range []string{"jitter", "reordered", "cpu.gbit.total"} {
		if v, err := Of(o, name); err == nil {
			t.Errorf("%s = %v", name, v)
		}
	}
	o.Load.Elapsed = 0
	if v, err := Of(o, "goodput"); err == nil {
		t.Errorf("goodput of no time = %v", v)
	}
}

// docs/terms.md has one line for each metric.
func TestEveryMetricIsInTheDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/terms.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| metric | unit | better | what it is |")
	table, _, _ = strings.Cut(table, "\n\n")
	lines := strings.Split(table, "\n")
	for _, m := range All() {
		ok := slices.ContainsFunc(lines, func(line string) bool {
			return strings.Contains(line, "`"+m.Name+"`") && strings.Contains(line, "| "+string(m.Unit)+" | "+string(m.Better)+" |")
		})
		if !ok {
			t.Errorf("docs/terms.md has no line `%s` | %s | %s", m.Name, m.Unit, m.Better)
		}
	}
}
