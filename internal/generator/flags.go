package generator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/study"
)

// problems are all that is wrong with a command, to be said at once.
type problems []error

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

// unless adds a problem where something does not hold.
func (p *problems) unless(ok bool, format string, args ...any) {
	if !ok {
		p.add(format, args...)
	}
}

// text is a flag whose value is read later, so that all problems can be told
// at once; its kind is what the help calls the value.
type text struct{ value, kind string }

func (t *text) String() string     { return t.value }
func (t *text) Set(s string) error { t.value = s; return nil }
func (t *text) Type() string       { return t.kind }

// loadFlags are the flags of `load` as they were given.
type loadFlags struct {
	given func(name string) bool

	rate, ramp, steps                 text
	duration, warmup, timeout         text
	think, pace, coalesce, spin       text
	replay                            string
	poisson, drop                     bool
	burst, connections, workers       int
	seed                              uint64
	headers, set                      []string
	data                              string
	http2, insecure                   bool
	caCert, serverName                string
	deepIdle                          bool
	json, quiet, noCheck, own, v4, v6 bool
	hdr, report                       string
	failIf                            []string
	settings                          map[string]*text // of protocols, by flag
}

func (f *loadFlags) define(s *pflag.FlagSet) {
	s.SortFlags = false
	f.given = s.Changed
	f.defineModel(s)
	f.defineProtocol(s)
	s.BoolVar(&f.json, "json", false, "print one JSON object (docs/load.md says what is in it)")
	s.StringVar(&f.hdr, "hdr", "", "write the latencies to this `file`, as an HdrHistogram V2 log")
	s.StringVar(&f.report, "report", "", "write one self-contained HTML page to this `file`")
	s.StringArrayVar(&f.failIf, "fail-if", nil, "exit with 3 if this `condition` holds, e.g. 'p99>20ms', 'success<99.9%', 'errors>0'; may be repeated")
	s.BoolVar(&f.quiet, "quiet", false, "no progress")
	s.BoolVar(&f.noCheck, "no-check", false, "do not ask for one right answer before the load")
	s.BoolVar(&f.own, "i-own-this-target", false, "load a target outside loopback, private and link-local addresses")
	s.BoolVarP(&f.v4, "ipv4", "4", false, "use IPv4 addresses only")
	s.BoolVarP(&f.v6, "ipv6", "6", false, "use IPv6 addresses only")
}

func (f *loadFlags) defineModel(s *pflag.FlagSet) {
	variable := func(t *text, name, value, kind, usage string) {
		*t = text{value, kind}
		s.Var(t, name, usage)
	}
	variable(&f.rate, "rate", "", "rate", "requests per second over all connections, as 1000 or 1000/s: an open loop.\nWithout it the loop is closed: every connection sends when it has its answer")
	s.IntVarP(&f.connections, "connections", "c", 32, "connections; of a TCP stream or a UDP flow 1")
	variable(&f.duration, "duration", "10s", "duration", "how long to measure")
	variable(&f.warmup, "warmup", "", "duration", "how long to load before that (default: a tenth of the duration, at most 2s)")
	variable(&f.timeout, "timeout", "5s", "duration", "how long one request may take, from when it was sent")
	variable(&f.ramp, "ramp", "", "from:to", "open loop whose rate goes evenly from one value to another")
	variable(&f.steps, "steps", "", "a,b,c", "open loop whose rate has these values, each for an equal part")
	s.StringVar(&f.replay, "replay", "", "open loop that sends at the times in this `file`: one a line, as 1.5ms or in seconds")
	s.BoolVar(&f.poisson, "poisson", false, "random times between requests, as of many independent users; with --think, random thoughts")
	s.IntVar(&f.burst, "burst", 1, "so many requests are due together, at the same mean rate")
	variable(&f.think, "think", "", "duration", "closed loop: how long a connection rests after an answer")
	variable(&f.pace, "pace", "", "rate", "closed loop: at most so many requests per second")
	s.BoolVar(&f.drop, "drop", false, "give up, as unsent, what is due when no connection is free; otherwise it waits")
	variable(&f.coalesce, "coalesce", "", "duration", "send together what is due within that time: less CPU, more dispersion")
	variable(&f.spin, "spin", "", "duration", "watch the clock that long before a request is due: less lateness, for a core")
	s.BoolVar(&f.deepIdle, "deep-idle", false, "let idle CPUs sleep as deep as the kernel chooses: less power, more lateness.\nOtherwise root keeps them awake during the load")
	s.IntVar(&f.workers, "workers", 1, "threads that send; more than there are processors or connections are not started")
	s.Uint64Var(&f.seed, "seed", 1, "seed of what is random")
}

// load is the load that the flags ask for, but for its protocol.
func (f *loadFlags) load(p *problems) model.Load {
	l := model.Load{
		Name: "load", Arrival: model.ArrivalClosed, Connections: f.connections, Drop: f.drop,
		Duration: f.above0("duration", f.duration, p), Timeout: f.above0("timeout", f.timeout, p),
		Think: f.time("think", f.think, p), Coalesce: f.time("coalesce", f.coalesce, p), Spin: f.time("spin", f.spin, p),
	}
	l.Pattern.Poisson = f.poisson
	if f.burst > 1 {
		l.Pattern.Burst = f.burst
	}
	p.unless(f.connections >= 1 && f.connections <= maxConnections, "--connections: %d is not from 1 to %d", f.connections, maxConnections)
	p.unless(f.workers >= 1 && f.workers <= maxWorkers, "--workers: %d is not from 1 to %d", f.workers, maxWorkers)
	p.unless(f.burst >= 1 && f.burst <= maxBurst, "--burst: %d is not from 1 to %d", f.burst, maxBurst)
	if f.pace.value != "" {
		l.Pace = f.perSecond("pace", f.pace.value, p)
	}
	f.arrival(&l, p)
	return l
}

const (
	maxConnections = 60_000 // as many as one address has ports for
	maxWorkers     = 1024
	maxBurst       = 1_000_000
)

// arrival sets the rate in the form that was chosen; none: a closed loop.
func (f *loadFlags) arrival(l *model.Load, p *problems) {
	forms := slices.DeleteFunc([]string{"rate", "ramp", "steps", "replay"}, func(n string) bool { return !f.given(n) })
	if len(forms) > 1 {
		p.add("--%s: choose one", strings.Join(forms, ", --"))
	}
	if len(forms) == 0 {
		f.misplaced(p, "needs an open loop: give a --rate", "burst", "drop", "coalesce", "spin")
		p.unless(!f.poisson || f.given("think"), "--poisson: needs a --rate, or --think for a closed loop")
		return
	}
	l.Arrival = model.ArrivalOpen
	f.misplaced(p, "is of a closed loop, which has no --"+forms[0], "think", "pace")
	switch forms[0] {
	case "rate":
		l.Rate = f.perSecond("rate", f.rate.value, p)
	case "ramp":
		from, to, ok := strings.Cut(f.ramp.value, ":")
		if !ok {
			p.add("--ramp: %q is not two rates, such as 100:1000", f.ramp.value)
			return
		}
		l.Pattern.Segments = []model.Segment{{From: f.perSecond("ramp", from, p), To: f.perSecond("ramp", to, p), Duration: l.Duration}}
	case "steps":
		f.stairs(l, p)
	case "replay":
		f.misplaced(p, "has no meaning with --replay, which says when every request is due", "poisson", "burst")
	}
	if s := l.Pattern.Segments; len(s) > 0 && l.Duration > 0 {
		l.Rate = meanRate(s)
	}
}

func (f *loadFlags) stairs(l *model.Load, p *problems) {
	values := strings.Split(f.steps.value, ",")
	if n := time.Duration(len(values)); l.Duration > 0 && n > 1 {
		for i, v := range values {
			rate := f.perSecond("steps", strings.TrimSpace(v), p)
			length := l.Duration*time.Duration(i+1)/n - l.Duration*time.Duration(i)/n
			l.Pattern.Segments = append(l.Pattern.Segments, model.Segment{From: rate, To: rate, Duration: length})
		}
		return
	}
	p.add("--steps: %q is not several rates, such as 100,200,400", f.steps.value)
}

// meanRate is what the rate of segments comes to.
func meanRate(segments []model.Segment) float64 {
	var requests, seconds float64
	for _, s := range segments {
		requests += (s.From + s.To) / 2 * s.Duration.Seconds()
		seconds += s.Duration.Seconds()
	}
	return requests / seconds
}

// times makes a replay of the text of its file.
func replayed(l *model.Load, name, content string, p *problems) {
	times, err := study.ParseTimes(content)
	switch {
	case err != nil:
		p.add("--replay %s: %w", name, err)
	case len(times) == 0:
		p.add("--replay %s: holds no times", name)
	case l.Duration > 0 && times[len(times)-1] >= l.Duration:
		p.add("--replay %s: goes on to %s; give it a longer --duration than %s", name, times[len(times)-1], l.Duration)
	default:
		l.Pattern.Times, l.Rate = times, float64(len(times))/l.Duration.Seconds()
	}
}

// misplaced complains of flags that were given and have no meaning here.
func (f *loadFlags) misplaced(p *problems, why string, flags ...string) {
	for _, name := range flags {
		p.unless(!f.given(name), "--%s: %s", name, why)
	}
}

func (f *loadFlags) perSecond(name, value string, p *problems) float64 {
	r, err := study.ParseRate(value)
	if err != nil {
		p.add("--%s: %w", name, err)
	}
	return float64(r)
}

// time reads a duration; of a flag without a value it is 0.
func (f *loadFlags) time(name string, t text, p *problems) time.Duration {
	if t.value == "" {
		return 0
	}
	d, err := study.ParseDuration(t.value)
	if err != nil {
		p.add("--%s: %w", name, err)
	}
	return time.Duration(d)
}

func (f *loadFlags) above0(name string, t text, p *problems) time.Duration {
	before := len(*p)
	d := f.time(name, t, p)
	p.unless(d > 0 || len(*p) > before, "--%s: must be above 0", name)
	return d
}

// warmupOf is a tenth of the duration, at most 2 s, where nothing else is asked.
func (f *loadFlags) warmupOf(d time.Duration, p *problems) time.Duration {
	if f.given("warmup") {
		return f.time("warmup", f.warmup, p)
	}
	return min(d/10, 2*time.Second)
}
