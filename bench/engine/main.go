// Command engine measures the load engine and the tools that people use, side
// by side: the same servers, the same CPUs, rounds of all tools in random
// order. It prints the tables of docs/engine.md and fails where a budget is
// missed. `make bench-engine` runs it; its README says how it measures.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/placement"
	"github.com/windtunnel/windtunnel/internal/sys"
	"github.com/windtunnel/windtunnel/internal/target/lab"
)

// commandServe is what this program is called with to be the fast server.
const commandServe = "serve"

// Exit codes.
const (
	exitOK     = 0
	exitMissed = 1 // a budget
	exitFailed = 2 // something broke
)

func main() {
	stdio := sys.Stdio()
	code, err := run(sys.Args(), stdio)
	if err != nil {
		_, _ = fmt.Fprintln(stdio[2], "bench/engine:", err) // there is nobody else to tell
	}
	os.Exit(code) //nolint:forbidigo // this is main
}

// options are the flags.
type options struct {
	rounds       int
	window       time.Duration
	parts, peers string
	dirs         string
	seed         uint64
	strict       bool
	rest         time.Duration
	program      string
	congestion   string
	deepIdle     bool
	out          string
}

func parse(args []string, errs io.Writer) (o options, err error) {
	f := flag.NewFlagSet("engine", flag.ContinueOnError)
	f.SetOutput(errs)
	f.IntVar(&o.rounds, "rounds", 5, "how often each tool is measured in each part; below five, medians alone judge")
	f.DurationVar(&o.window, "duration", 3*time.Second, "the measured window of each run")
	f.StringVar(&o.parts, "parts", "", "only these parts, separated by commas: fast, nginx, open1k, open10k, stall, grpc, gogrpc, tcp, udp, ping, agree")
	f.StringVar(&o.peers, "peers", "", "only these peers, separated by commas")
	f.StringVar(&o.dirs, "peers-dir", ".tools/peers", "folders to look for peers in before the search path, separated by colons")
	f.Uint64Var(&o.seed, "seed", 1, "of the random order within rounds")
	f.BoolVar(&o.strict, "strict", false, "fail also where a budget could not be judged: a peer was not found, the core was not idle, the rounds differ too much")
	f.DurationVar(&o.rest, "rest", time.Second, "before each run, without which some hypervisors take more and more")
	f.StringVar(&o.program, "windtunnel", "bin/windtunnel", "our own program")
	f.BoolVar(&o.deepIdle, "deep-idle", false, "let idle CPUs sleep as deep as the kernel chooses")
	f.StringVar(&o.congestion, "congestion", "", "TCP's congestion control in the bed, such as reno; the host's where none is named")
	f.StringVar(&o.out, "out", "", "file to write the document to, such as docs/engine.md")
	if err = f.Parse(args); err != nil {
		return o, err
	}
	if o.rounds < 1 || o.window < time.Second || f.NArg() > 0 {
		return o, errors.New("at least one round of a second, and no arguments beside the flags")
	}
	return o, nil
}

func run(args []string, stdio [3]*os.File) (code int, err error) {
	if len(args) == 3 && args[0] == commandServe {
		addr, failure := netip.ParseAddrPort(args[2])
		if failure != nil {
			return exitFailed, fmt.Errorf("reading the server's address: %w", failure)
		}
		return exitOK, serveFast(addr, args[1], stdio[0], stdio[1])
	}
	if len(args) == 3 && args[0] == commandTimer {
		return exitOK, runTimer(args[1], args[2], stdio[1])
	}
	o, err := parse(args, stdio[2])
	if errors.Is(err, flag.ErrHelp) {
		return exitOK, nil
	}
	if err != nil {
		return exitFailed, err
	}
	target := lab.New(lab.StateDir(os.Getuid(), ""))
	inside, code, err := target.Enter(context.Background())
	if err != nil {
		return exitFailed, err
	}
	if !inside {
		return code, nil
	}
	target.KeepAwake(o.deepIdle)
	code, err = bench(context.Background(), o, target, stdio[1], stdio[2])
	return code, errors.Join(err, target.Close())
}

// bench is the whole of it, inside the lab.
func bench(ctx context.Context, o options, target *lab.Target, out, progress io.Writer) (code int, err error) {
	b, err := newBed(target, o.congestion)
	if err != nil {
		return exitFailed, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	all, err := tools(b, o)
	if err != nil {
		return exitFailed, err
	}
	missing, err := find(ctx, b, all, strings.Split(o.dirs, ":"))
	if err != nil {
		return exitFailed, err
	}
	if slices.Contains(missing, ours) {
		return exitFailed, fmt.Errorf("%s is not there: make build", o.program)
	}
	found := slices.DeleteFunc(slices.Clone(all), func(t *tool) bool { return t.path == "" })
	f := newFigures(o.rounds)
	if f.place, err = placement.New(ctx, target); err != nil {
		return exitFailed, err
	}
	if err = o.measure(ctx, append(plan(b, found, o.window), planStreams(b, found, o.window)...), f, progress); err != nil {
		return exitFailed, err
	}
	r := newReport(o, target.Host(), all, f, missing)
	text := r.markdown()
	if _, err = io.WriteString(out, text); err != nil {
		return exitFailed, fmt.Errorf("printing the tables: %w", err)
	}
	if o.out != "" {
		if err = os.WriteFile(o.out, []byte(text), 0o600); err != nil {
			return exitFailed, fmt.Errorf("writing the document: %w", err)
		}
	}
	if r.failed(o.strict) {
		return exitMissed, nil
	}
	return exitOK, nil
}

// measure runs all trials once a round, in a new random order each time. A
// trial that breaks is told and left out.
func (o options) measure(ctx context.Context, trials []trial, f *figures, progress io.Writer) error {
	trials = slices.DeleteFunc(trials, func(t trial) bool { return !o.wants(t) })
	if len(trials) == 0 {
		return fmt.Errorf("nothing to measure: parts %q, peers %q", o.parts, o.peers)
	}
	random := rand.New(rand.NewPCG(o.seed, 0)) //nolint:gosec // G404: an order, which the seed gives again
	for round := range o.rounds {
		random.Shuffle(len(trials), func(i, k int) { trials[i], trials[k] = trials[k], trials[i] })
		for i, t := range trials {
			_, _ = fmt.Fprintf(progress, "round %d of %d, %d of %d: %s, %s\n", round+1, o.rounds, i+1, len(trials), t.part, t.tool) // progress may be lost
			got, err := f.undisturbed(ctx, t, o.rest)
			if err != nil {
				f.failed[figure{part: t.part, tool: t.tool}] = err.Error()
				_, _ = fmt.Fprintf(progress, "  failed: %v\n", err) // as above
				continue
			}
			for m, v := range got {
				f.record(round, figure{t.part, t.tool, m}, v)
			}
		}
	}
	return nil
}

// wants says whether a trial is among the chosen ones.
func (o options) wants(t trial) bool {
	chosen := func(list, name string) bool {
		return list == "" || slices.Contains(strings.Split(list, ","), name)
	}
	return chosen(o.parts, string(t.part)) && (strings.HasPrefix(t.tool, ours) || t.tool == bareTimer || chosen(o.peers, t.tool))
}
