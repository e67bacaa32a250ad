package generator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/agent"
	"github.com/windtunnel/windtunnel/internal/command"
	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/store"
	"github.com/windtunnel/windtunnel/internal/summary"
	"github.com/windtunnel/windtunnel/internal/sys"
)

func (a *app) loadCommand() *cobra.Command {
	var f loadFlags
	c := &cobra.Command{
		Use:     "load URL",
		Short:   "Load one thing, and say how it did",
		Long:    loadLong,
		Example: loadExamples,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.load(cmd.Context(), args[0], &f)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"http://", "https://", "grpc://", "grpcs://", "tcp://", "udp://", "icmp:"}, cobra.ShellCompDirectiveNoSpace
		},
	}
	f.define(c.Flags())
	c.MarkFlagsMutuallyExclusive("ipv4", "ipv6")
	return c
}

const loadLong = `Sends load to one URL and says how it did: the rate that was achieved, what
failed and why, response and service times, and how well the generator itself did.

With --rate the loop is open: requests are due by the clock, and response time
counts from then, so that waiting is not hidden. Without it every connection
sends when it has its answer; that finds out how much goes through.

Only loopback, private and link-local addresses are loaded, unless you say
--i-own-this-target. ctrl-C ends the load early and still reports.

Exit codes: 0 done, 1 failed (nothing answers), 2 the input is wrong, 3 --fail-if.`

const loadExamples = `  windtunnel echo &                                            something to load

  windtunnel load http://127.0.0.1:8080/ --rate 1000           open loop, constant rate
  windtunnel load http://127.0.0.1:8080/ -c 64                 closed loop, all that 64 connections get
  windtunnel load http://127.0.0.1:8080/ --rate 1000 --poisson  as of many independent users
  windtunnel load http://127.0.0.1:8080/ --ramp 100:5000       a rate that rises
  windtunnel load http://127.0.0.1:8080/ --steps 1000,2000,4000 --duration 30s
  windtunnel load http://127.0.0.1:8080/ --rate 1000 --burst 20
  windtunnel load http://127.0.0.1:8080/ --replay times.txt
  windtunnel load http://127.0.0.1:8080/ -c 200 --think 100ms  200 virtual users
  windtunnel load http://127.0.0.1:8080/ -c 16 --pace 500      closed loop, at most 500/s

  windtunnel load https://10.0.0.7/api -H 'Authorization: Bearer x' -d @body.json --cacert ca.pem
  windtunnel load http://127.0.0.1:8080/ --http2 -c 4 --set streams=16
  windtunnel load grpc://127.0.0.1:8080 --rate 1000
  windtunnel load grpc://10.0.0.7:50051 --call my.Service/Get --message '{"id":1}' --reflection
  windtunnel load tcp://127.0.0.1:8080 --rate 1000 --request-size 128
  windtunnel load tcp://127.0.0.1:8080 --stream --direction down -c 4
  windtunnel load udp://127.0.0.1:8080 --bitrate 100Mbit/s
  windtunnel load icmp:127.0.0.1 --rate 100 -c 1

  windtunnel load http://127.0.0.1:8080/ --rate 1000 --fail-if 'p99>20ms' --fail-if 'errors>0'
  windtunnel load http://127.0.0.1:8080/ --rate 1000 --json | jq .response.p99_ms`

// load is the whole of `windtunnel load`.
func (a *app) load(ctx context.Context, url string, f *loadFlags) error {
	j, err := a.loadJob(url, f)
	if err != nil {
		return command.Wrong(err)
	}
	addresses, err := a.resolve(ctx, j.target, f)
	if err != nil {
		return err
	}
	if addresses, err = a.ready(ctx, j, addresses, f.noCheck); err != nil {
		return err
	}
	s := &summary.Load{
		Version: a.env.Version, Command: a.command(), URL: j.target.url, Addresses: addresses,
		Started: a.env.Now(), Load: j.load, Warmup: j.warmup, Seed: f.seed,
	}
	if err := a.runLoad(ctx, j, s, f); err != nil {
		return err
	}
	for _, c := range j.conditions {
		if why := c.failed(s); why != "" {
			s.Failed = append(s.Failed, why)
		}
	}
	return a.tell(s, f)
}

// command is the command line as it was given.
func (a *app) command() string {
	words := []string{"windtunnel"}
	for _, w := range a.env.Args {
		if strings.ContainsAny(w, " '\"\\$&|<>;*?()[]{}!#~`\t\n") || w == "" {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

// loadJob is a load to run, with everything about it checked that can be
// without the network.
type loadJob struct {
	target     target
	load       model.Load
	protocol   load.Protocol
	warmup     time.Duration
	conditions []condition
}

func (a *app) loadJob(url string, f *loadFlags) (loadJob, error) {
	var p problems
	j := loadJob{load: f.load(&p), conditions: f.conditions(&p)}
	j.warmup = f.warmupOf(j.load.Duration, &p)
	if f.replay != "" {
		times, err := os.ReadFile(f.replay)
		if err != nil {
			p.add("--replay: %w", err)
		} else {
			replayed(&j.load, f.replay, string(times), &p)
		}
	}
	var err error
	if j.target, err = parseTarget(url, f.http2); err != nil {
		p.add("%w", err)
		return j, errors.Join(p...)
	}
	j.load.Protocol = j.target.protocol
	j.load.TLS = f.security(j.target, &p)
	config := f.config(j.target, &p)
	if j.load.Config, err = json.Marshal(config); err != nil {
		return j, fmt.Errorf("encoding the configuration of %s: %w", j.target.protocol, err)
	}
	j.protocol = a.plugin(j.target, j.load.Config, &p)
	if flow, ok := j.protocol.(load.Flow); ok && flow.Flows() && !f.given("connections") {
		j.load.Connections = 1 // of a flow, more are asked for
	}
	return j, errors.Join(p...)
}

// checkTimeout bounds the check before a load.
const checkTimeout = 2 * time.Second

// ready asks for one right answer, with the load's own request, so that a wrong
// URL is told at once and not after the load. It returns the addresses of the
// first family that answers.
func (a *app) ready(ctx context.Context, j loadJob, all []netip.AddrPort, skip bool) ([]netip.AddrPort, error) {
	groups := families(all)
	n, ok := j.protocol.(load.Networker)
	if skip || ok && n.Network() == load.ICMP {
		return groups[0], nil
	}
	var errs []error
	for _, group := range groups {
		ready, err := agent.Gate(ctx, agent.GateJob{
			Load: j.load, Targets: group, Host: j.target.authority, Streak: 1, Timeout: min(checkTimeout, j.load.Timeout),
		}, a.catalog.Protocols)
		if err != nil {
			return nil, err
		}
		if ready.Passed {
			return group, nil
		}
		errs = append(errs, errors.New(ready.LastError))
	}
	return nil, fmt.Errorf("%s does not answer as it should: %w\nNothing was loaded. Is it running, and is the URL right? --no-check loads it all the same, and counts what fails",
		j.target.url, errors.Join(errs...))
}

// runLoad runs the load. ctrl-C ends it early; a second one kills.
func (a *app) runLoad(ctx context.Context, j loadJob, s *summary.Load, f *loadFlags) error {
	p := &loadProgress{out: a.env.Stderr, terminal: a.env.StderrTerminal && !f.quiet, now: a.env.Now, load: j.load, warmup: j.warmup}
	job := load.Job{
		Load: j.load, Protocol: j.protocol, Host: j.target.authority, Targets: s.Addresses, Warmup: j.warmup,
		Seed: f.seed, Workers: f.workers, OnWindow: p.window, Finish: ctx.Done(),
	}
	if !f.quiet {
		job.OnProgress = p.show
	}
	awake := sys.KeepAwake(f.deepIdle)
	s.IdleCPUs = awake.String()
	var err error
	s.CPUs.Before = cpuDistance()
	s.Result, _, err = load.Run(context.WithoutCancel(ctx), job)
	s.CPUs.After = cpuDistance()
	err = errors.Join(err, awake.Close())
	p.close()
	s.Stopped = ctx.Err() != nil
	if err != nil {
		return err
	}
	if s.Stopped && !f.quiet {
		a.env.Complain("windtunnel: ended early; this is what was measured\n")
	}
	return nil
}

// cpuDistance is how far the last CPU that this program may run on is from the
// others; 0 where there are none, or they cannot be moved.
func cpuDistance() time.Duration {
	cpus, err := sys.Affinity()
	if err != nil || len(cpus) == 0 || !sys.Virtual() {
		return 0
	}
	last := len(cpus) - 1
	return sys.CPUDistance(cpus[last], cpus[:last])
}

// tell prints the summary and writes the files that were asked for.
func (a *app) tell(s *summary.Load, f *loadFlags) error {
	write := s.WriteText
	if f.json {
		write = s.WriteJSON
	}
	var errs []error
	errs = append(errs, write(a.env.Stdout))
	if f.hdr != "" {
		errs = append(errs, writeHDR(s, f.hdr))
	}
	if f.report != "" {
		var b bytes.Buffer
		errs = append(errs, s.WriteHTML(&b), store.WriteFile(f.report, b.Bytes()))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, why := range s.Failed {
		a.env.Complain("windtunnel: --fail-if %s\n", why)
	}
	if len(s.Failed) > 0 {
		return command.Silent(command.ExitGate)
	}
	return nil
}

// writeHDR keeps the latencies as other tools read them.
func writeHDR(s *summary.Load, path string) error {
	var b bytes.Buffer
	entries := []hist.Tagged{
		{Tag: "response", Start: s.Started, Interval: s.Result.Elapsed, Histogram: s.Result.Response},
		{Tag: "service", Start: s.Started, Interval: s.Result.Elapsed, Histogram: s.Result.Service},
	}
	if err := hist.WriteLog(&b, entries); err != nil {
		return err
	}
	return store.WriteFile(path, b.Bytes())
}
