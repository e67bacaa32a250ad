package driver_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/driver"
	"github.com/windtunnel/windtunnel/internal/model"
)

var update = flag.Bool("update", false, "write the golden file")

// commands renders what a run comes to.
func commands(r driver.Run) string {
	var b strings.Builder
	show := func(what string, p *model.Process) {
		if p == nil || len(p.Command) == 0 {
			return
		}
		fmt.Fprintf(&b, "  %s: %s\n", what, strings.Join(p.Command, " "))
		for _, e := range p.Env {
			fmt.Fprintf(&b, "    env %s\n", e)
		}
		for _, name := range slices.Sorted(maps.Keys(p.Files)) {
			if name != "load.js" {
				text := strings.TrimSpace(strings.Split(string(p.Files[name]), "-- Prints wrk's")[0])
				fmt.Fprintf(&b, "    file %s: %s\n", name, strings.ReplaceAll(text, "\n", "\n      "))
			}
		}
	}
	if r.Server != nil {
		show(fmt.Sprintf("server on %d, ready at %q", r.Server.Port, r.Server.Ready), &r.Server.Process)
	}
	show("warm-up", r.Warmup)
	show("main", &r.Main)
	fmt.Fprintf(&b, "  window opens after %s, read from %q, kept as %s\n", r.Lead, r.File, r.Keep)
	return b.String()
}

func jobOf(l model.Load) driver.Job {
	l.Name, l.From, l.To, l.Duration, l.Timeout = "x", "client-0", "server", 12*time.Second, 2*time.Second
	return driver.Job{
		Load: l, Host: "server", Warmup: 2 * time.Second, Program: "TOOL",
		Targets: []netip.AddrPort{netip.MustParseAddrPort("10.128.4.2:8080")},
	}
}

// The commands of every tool, for a plain load and for one with a body.
func TestCommands(t *testing.T) {
	t.Parallel()
	body := json.RawMessage(`{"method": "POST", "path": "/todos?x=1", "headers": {"content-type": "text/plain"}, "body": "it's \"1\"\n"}`)
	var b strings.Builder
	all := tools()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		l := all[name].load
		for _, config := range []json.RawMessage{l.Config, body} {
			if config != nil && string(config) == string(body) && l.Protocol != "http1" {
				continue
			}
			l.Config = config
			r, err := all[name].driver.Plan(jobOf(l))
			if err != nil {
				t.Fatal(name, err)
			}
			fmt.Fprintf(&b, "%s\n%s", name, commands(r))
		}
	}
	const golden = "testdata/commands.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("%s (write it with -update): %s", golden, diff)
	}
}

// What a tool cannot do is refused, with what to do instead.
func TestRefusals(t *testing.T) {
	t.Parallel()
	all := tools()
	for name, c := range map[string]struct {
		tool   string
		change func(j *driver.Job)
		want   string
	}{
		"open fortio":       {"fortio", func(j *driver.Job) { j.Load.Arrival, j.Load.Rate = model.ArrivalOpen, 100 }, "use model: closed, with pace"},
		"closed vegeta":     {"vegeta", func(j *driver.Job) { j.Load.Arrival = model.ArrivalClosed }, "use model: open"},
		"no such rate":      {"vegeta", func(j *driver.Job) { j.Load.Rate = 1.0 / 3 }, "whole number of requests"},
		"paced k6":          {"k6 closed", func(j *driver.Job) { j.Load.Pace = 100 }, "use model: open"},
		"waiting k6":        {"k6", func(j *driver.Job) { j.Load.Drop = false }, "when_blocked: drop"},
		"wrk2 closed":       {"wrk2", func(j *driver.Job) { j.Load.Arrival = model.ArrivalClosed }, "use model: open"},
		"wrk2 fraction":     {"wrk2", func(j *driver.Job) { j.Load.Rate = 0.5 }, "whole requests per second"},
		"paced wrk":         {"wrk", func(j *driver.Job) { j.Load.Pace = 100 }, "wrk2 has a rate"},
		"half a second":     {"wrk", func(j *driver.Job) { j.Load.Duration = 500 * time.Millisecond }, "whole seconds"},
		"two targets":       {"h2load", func(j *driver.Job) { j.Targets = append(j.Targets, j.Targets[0]) }, "nft-service"},
		"Poisson":           {"vegeta", func(j *driver.Job) { j.Load.Pattern.Poisson = true }, "constant rate only"},
		"two generators":    {"fortio", func(j *driver.Job) { j.Load.Generators = []string{"client-1"} }, "one pod"},
		"other protocol":    {"fortio", func(j *driver.Job) { j.Load.Protocol = "grpc" }, "http1 only"},
		"chunked":           {"fortio", func(j *driver.Job) { j.Load.Config = json.RawMessage(`{"chunked": 5, "body": "x"}`) }, "leave chunked out"},
		"verified TLS":      {"fortio", func(j *driver.Job) { j.Load.TLS = &model.TLS{} }, "insecure: true"},
		"iperf3's requests": {"iperf3", func(j *driver.Job) { j.Load.Config = nil }, "mode: stream"},
		"sockperf's size":   {"sockperf", func(j *driver.Job) { j.Load.Config = json.RawMessage(`{"request": 5}`) }, "at least 14"},
		"ping's interval":   {"ping", func(j *driver.Job) { j.Load.Rate = 3000 }, "whole milliseconds"},
	} {
		j := jobOf(all[c.tool].load)
		c.change(&j)
		_, err := all[c.tool].driver.Plan(j)
		var refused *driver.RefusedError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q in it", name, err, c.want)
		}
	}
}

func TestRatio(t *testing.T) {
	t.Parallel()
	for rate, want := range map[float64]string{1000: "1000 in 1s", 0.5: "5 in 10s", 33.3: "333 in 10s", 0.001: "1 in 16m40s", 1.0 / 3: "none", 0: "none"} {
		got := "none"
		if n, per, ok := driver.Ratio(rate); ok {
			got = fmt.Sprintf("%d in %s", n, per)
		}
		if got != want {
			t.Errorf("%g/s: %s, want %s", rate, got, want)
		}
	}
}

func TestFindTellsWhatIsMissing(t *testing.T) {
	t.Parallel()
	_, err := driver.Find(t.Context(), driver.Tool{Name: "x", Programs: []string{"no-such-tool"}, Hint: "get it"}, "")
	if !errors.Is(err, model.ErrUnsupported) || !strings.Contains(err.Error(), "no-such-tool") || !strings.Contains(err.Error(), "get it") {
		t.Error(err)
	}
	// A program of that name that is another one.
	_, err = driver.Find(t.Context(), driver.Tool{Name: "x", Programs: []string{"echo"}, Version: []string{"something"}, Mark: "else"}, "")
	if !errors.Is(err, model.ErrUnsupported) || !strings.Contains(err.Error(), "another program") {
		t.Error(err)
	}
}
